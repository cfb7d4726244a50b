"""The console's pages for jobs, tasks and workers."""
