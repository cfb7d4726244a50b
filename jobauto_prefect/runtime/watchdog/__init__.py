"""The process that starts a worker's jobs and ends them when the worker can't.

Everything here except `client` and `job_handles`, which the worker imports, runs in a bare
interpreter, with the standard library only.
"""
