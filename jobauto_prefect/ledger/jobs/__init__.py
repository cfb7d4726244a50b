"""Tasks, jobs, leases and workers: how their rows are written and locked."""
