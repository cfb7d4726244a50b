"""What a run template may say about windows its jobs do not keep up with, and lost contact."""

from enum import StrEnum


class Overlap(StrEnum):
    """What happens when a window opens while an attempt of an earlier one still runs."""

    WAIT = "wait"  #: its job starts when that one has ended
    SKIP = "skip"  #: its task is missed
    PARALLEL = "parallel"  #: both run


class Misfire(StrEnum):
    """What happens with the windows that passed during an outage."""

    LATEST = "latest"  #: the newest one runs, the older ones are missed
    ALL = "all"  #: each one runs, in their order, one at a time
    SKIP = "skip"  #: all of them are missed


class ContactLost(StrEnum):
    """What happens with a job whose worker can't reach the service for one lease."""

    FINISH = "finish"  #: it goes on; another attempt waits for the worker's word, or its timeout
    STOP = "stop"  #: the worker ends it


class OnClosed(StrEnum):
    """What happens with the windows whose jobs would start in closed time."""

    EXCUSE = "excuse"  #: they are missed, excused by what closes it
    MOVE = "move"  #: the newest one runs when it ends, with `Misfire.ALL` each; the others excuse
