"""The process that starts a worker's jobs and ends them when the worker can't.

Everything here but `client` and `job_handles`, which the worker imports, runs in a bare
interpreter: the standard library only.
"""
