"""Tasks, jobs, leases and workers: the rows of work, written and locked."""
