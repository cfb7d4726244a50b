"""What a job leaves: its masked output and its artifacts."""
