"""Pages of what happened: events and what they start, and who changed what."""
