"""The jobauto worker. Prefect loads this package by its name, in every process of its own."""

from jobauto_prefect.engine.worker.jobauto_worker import JobautoWorker

__all__ = ["JobautoWorker"]
