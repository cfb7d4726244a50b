"""Who may sign in, and who owns which records and Prefect objects."""
