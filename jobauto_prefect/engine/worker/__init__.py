"""The jobauto worker. Prefect loads this package by name in each of its processes."""

from jobauto_prefect.engine.worker.jobauto_worker import JobautoWorker

__all__ = ["JobautoWorker"]
