"""A test whether an adapter database can be read, in bounded time."""

import threading
from dataclasses import dataclass

from jobauto_prefect.errors import SourceUnavailable
from jobauto_prefect.sources.adapters import TABLE, Adapter, TimeLimits
from jobauto_prefect.sources.targets import Target, TargetRules
from jobauto_prefect.wording import pluralize

PROBE_SECONDS = 4.0
LIMITS = TimeLimits(connect=3, answer=3)
LOOKED_AT = 100  # changes that are checked
SHOWN = 5  # changes that can't be stored and are listed
AT_ONCE = 8
"""Limit of probes at once: a target that sends very slowly can block a thread."""

_free = threading.BoundedSemaphore(AT_ONCE)


@dataclass(frozen=True, slots=True)
class Reachability:
    """Result of a test; if not reachable, the message says what to do."""

    reachable: bool
    message: str


def probe(
    target: Target,
    rules: TargetRules,
    *,
    removes: bool,
    after: int = -1,
    seconds: float = PROBE_SECONDS,
) -> Reachability:
    """Connect, find the table and read from it; with `removes` also check the right to remove.

    The first changes `after` an inversion are checked; those that can't be stored are named. Takes
    at most `seconds`.
    """
    if not _free.acquire(blocking=False):
        return Reachability(False, "too many tests are under way; try again in a moment")
    answers: list[Reachability] = []

    def look() -> None:
        try:
            answers.append(_look(target, rules, removes, after))
        finally:
            _free.release()

    looking = threading.Thread(target=look, name="probe", daemon=True)
    looking.start()
    looking.join(seconds)
    waited = pluralize(seconds, "second")
    late = f"the adapter database did not answer within {waited}; check host and port"
    return answers[0] if answers else Reachability(False, late)


def _look(target: Target, rules: TargetRules, removes: bool, after: int) -> Reachability:
    try:
        with Adapter(target, rules, LIMITS) as adapter:
            waiting = adapter.after(after, LOOKED_AT)
            if removes:
                adapter.check_removal()
    except SourceUnavailable as error:
        return Reachability(False, str(error))
    found = f"{TABLE} can be read; {'changes wait' if waiting else 'none wait'}"
    unkept = [
        f"change {each.inversion} can't be kept: {each.fault}" for each in waiting if each.fault
    ]
    return Reachability(True, "; ".join([found, *unkept[:SHOWN]]))
