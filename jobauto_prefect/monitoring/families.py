"""Metrics that are read on request, before any library formats them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """A number, and the values of its family's labels in order."""

    value: float
    labels: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Family:
    """Gauges of one name, read on request."""

    name: str
    about: str
    samples: Sequence[Sample]
    labels: Sequence[str] = ()
    counts: bool = False


Read = Callable[[], Iterable[Family]]
