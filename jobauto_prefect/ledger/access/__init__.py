"""Who may sign in, and whose records and objects of Prefect are whose."""
