"""Whether the state of a flow run in Prefect agrees with the end of its job. Pure."""

from enum import StrEnum

from jobauto_prefect.jobs.outcome.results import PREFECT_STATES
from jobauto_prefect.ledger.jobs.confirmations import End
from jobauto_prefect.runtime.protocol import PrefectState

TERMINAL = frozenset({"COMPLETED", "FAILED", "CRASHED", "CANCELLED"})
TO_START = frozenset({"SCHEDULED", "PENDING"})


class Verdict(StrEnum):
    """Result of checking the flow run of a job that has ended."""

    AGREES = "agrees"  #: or Prefect's state wins; nothing is left to do
    DIFFERS = "differs"  #: Prefect must be told of the end


def judge(end: End, state: str, run_count: int) -> Verdict:
    """Compare the end of a job with the state type of its flow run.

    `run_count` is how often the run was Running. A run that was started again belongs to another
    job. A cancelled run stays cancelled: a job that ended before it could be stopped has its own
    end in the ledger. For a job that no worker ever had, any end of its run will do.
    """
    if not end.is_newest or _is_started_again(end, state, run_count):
        return Verdict.AGREES
    shown: set[str] = {PREFECT_STATES[end.state], PrefectState.CANCELLED}
    if not end.was_claimed:
        shown |= TERMINAL
    return Verdict.AGREES if state in shown else Verdict.DIFFERS


def is_shown(end: End, state: str) -> bool:
    """Whether a flow run shows the end of its latest job."""
    return end.is_newest and state == PREFECT_STATES[end.state]


def _is_started_again(end: End, state: str, run_count: int) -> bool:
    number = end.run_number or 0
    if state in TO_START and number:
        return run_count >= number
    return run_count > max(number, 1)


def must_be_forced(end: End, state: str) -> bool:
    """Whether Prefect needs force to accept the end: it lets no finished run become Crashed."""
    return PREFECT_STATES[end.state] is PrefectState.CRASHED and state in TERMINAL
