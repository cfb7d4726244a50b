"""The process that starts a worker's jobs and ends them when the worker can't.

Everything here but `client`, `job_handles` and `supervisor`, which the worker imports, runs in a
bare interpreter: the standard library only.
"""
