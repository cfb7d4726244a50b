"""Running one job: environment, command, executors, output, artifacts, outcome."""

from jobauto_prefect.runtime.environment import Layer
from jobauto_prefect.runtime.launch import Prepared, prepare
from jobauto_prefect.runtime.outcome import severity
from jobauto_prefect.runtime.story import end_message

__all__ = [
    "Layer",
    "Prepared",
    "end_message",
    "prepare",
    "severity",
]
