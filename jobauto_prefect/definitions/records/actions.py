"""Actions of run templates: what the service does at the end of a job."""

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
    STOP = "Stop"  #: the run template stops following its schedule
    WEBHOOK = "WebHook"  #: a URL gets a request


STARTED: Mapping[str, Reference] = {
    Action.CHAIN: Reference("runtemplate_id", "runtemplate"),
    Action.LAUNCH: Reference("app_id", "app"),
}
"""The field of an action's settings that names what it starts."""


class ActionMode(StrEnum):
    """The kind of end that an action is for; its values are fields of a run template."""

    SUCCESS = "success"  #: success, info and warning
    FAIL = "fail"  #: error and critical
