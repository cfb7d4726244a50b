"""What a job leaves: its output, masked, and its artifacts."""
