"""Policies of a run template for missed windows, lost contact, and retries."""

from datetime import datetime, timedelta
from enum import StrEnum


class Overlap(StrEnum):
    """What happens if a window opens while an attempt of an earlier one is still running."""

    WAIT = "wait"  #: its job starts when that one has ended
    SKIP = "skip"  #: its task is missed
    PARALLEL = "parallel"  #: both run


class Misfire(StrEnum):
    """What happens to the windows that passed during an outage."""

    LATEST = "latest"  #: the newest one runs, the older ones are missed
    ALL = "all"  #: each one runs, in their order, one at a time
    SKIP = "skip"  #: all of them are missed


class ContactLost(StrEnum):
    """What happens to a job whose worker can't reach the service for one lease."""

    FINISH = "finish"  #: it continues; the next attempt waits for its confirmed end, or its timeout
    STOP = "stop"  #: the worker ends it


class OnClosed(StrEnum):
    """What happens to the windows whose jobs would start in closed time."""

    EXCUSE = "excuse"  #: they are missed, with the closure as excuse
    MOVE = "move"  #: the newest one runs after it, with `Misfire.ALL` all do; others are excused


ATTEMPTS = 3
"""Attempts of a retryable job if the template sets no number."""

LONGEST = 366 * 24 * 3600  # seconds
"""Upper limit of every wait, however often it is doubled."""

DOUBLINGS = LONGEST.bit_length()
"""After this many doublings a wait of one second exceeds the limit."""


class Backoff(StrEnum):
    """How the waits between attempts grow from the template's `retry_min_gap`."""

    NONE = "none"  #: always the gap
    FIXED = "fixed"  #: always the gap
    LINEAR = "linear"  #: the gap times the attempts made
    EXPONENTIAL = "exponential"  #: the gap, doubled with each attempt made


def attempts_of(max_attempts: int | None) -> int:
    """Return the number of attempts including the first; for None the default."""
    return ATTEMPTS if max_attempts is None else max_attempts


def retry_wait(backoff: str, min_gap: int, made: int) -> timedelta:
    """Return the wait from the end of an attempt to the next, after `made` attempts (from 1).

    `backoff` is a value of `Backoff`, `min_gap` is in seconds.
    """
    seconds = min_gap
    if backoff == Backoff.LINEAR:
        seconds = min_gap * made
    elif backoff == Backoff.EXPONENTIAL:
        seconds = min_gap << min(made, DOUBLINGS)
    return timedelta(seconds=min(seconds, LONGEST))


def retry_at(
    backoff: str, min_gap: int, made: int, ended: datetime, until: datetime | None
) -> datetime | None:
    """Return when the attempt after `made` attempts starts; None: not before `until`.

    `until` is None if only the number of attempts is limited.
    """
    begin = ended + retry_wait(backoff, min_gap, made)
    return begin if until is None or begin < until else None
