"""Flow runs in Prefect: made, shown ahead of time, moved, found where they are missing."""
