"""What the end of a job can have the service do: the actions of run templates, by name."""

from collections.abc import Mapping
from enum import StrEnum

from jobauto_prefect.kinds import Reference

UNSCHEDULED = "n"
"""The interval code of a run template without a schedule."""


class Action(StrEnum):
    """One kind of action. The names are those of the published contract."""

    CHAIN = "ChainRuntemplate"  #: another run template starts
    LAUNCH = "LaunchJob"  #: an application starts, with its only run template in the company
    RESCHEDULE = "Reschedule"  #: the same run template starts again, later
    STOP = "Stop"  #: the run template follows its schedule no more
    WEBHOOK = "WebHook"  #: an address gets a request


STARTED: Mapping[str, Reference] = {
    Action.CHAIN: Reference("runtemplate_id", "runtemplate"),
    Action.LAUNCH: Reference("app_id", "app"),
}
"""The field of an action's settings that says what it starts."""


class ActionMode(StrEnum):
    """Which end of a job an action is for; they are the fields of a run template."""

    SUCCESS = "success"  #: success, info and warning
    FAIL = "fail"  #: error and critical
