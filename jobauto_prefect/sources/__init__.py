"""Event sources (adapter databases whose changes are events), and notifications of events."""
