"""What the end of a job can have the service do: the actions of run templates, by name."""

from enum import StrEnum

UNSCHEDULED = "n"
"""The interval code of a run template without a schedule."""


class Action(StrEnum):
    """One kind of action. The names are those of the published contract."""

    CHAIN = "ChainRuntemplate"  #: another run template starts
    LAUNCH = "LaunchJob"  #: an application starts, with its only run template in the company
    RESCHEDULE = "Reschedule"  #: the same run template starts again, later
    STOP = "Stop"  #: the run template follows its schedule no more
    WEBHOOK = "WebHook"  #: an address is told


class ActionMode(StrEnum):
    """Which end of a job an action is for; they are the fields of a run template."""

    SUCCESS = "success"  #: success, info and warning
    FAIL = "fail"  #: error and critical
