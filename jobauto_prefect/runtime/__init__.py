"""Running one job: environment, command, executors, output, artifacts, outcome."""

from jobauto_prefect.runtime.launch.environment import Layer
from jobauto_prefect.runtime.launch.preparation import Prepared, prepare
from jobauto_prefect.runtime.outcome import end_message, severity

__all__ = [
    "Layer",
    "Prepared",
    "end_message",
    "prepare",
    "severity",
]
