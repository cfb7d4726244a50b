"""The validation of a run template's times: every error at once."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from jobauto_prefect.compiler.scheduling.deadlines import deadline_of, relative_of
from jobauto_prefect.compiler.scheduling.schedule import cron_of, schedule_of, zone_of
from jobauto_prefect.compiler.scheduling.windows import windows_after
from jobauto_prefect.errors import Fault, InvalidInput

LOOKED_AT = 24
"""Number of windows whose deadlines are compared with their launch."""

_SOME_MONDAY = datetime(2001, 1, 1, tzinfo=UTC)


def schedule_faults(members: Mapping[str, Any], zone: str) -> list[Fault]:
    """Return the errors of `interv`, `cron`, `timezone`, `delay` and `deadline_offset`.

    The fields may be missing; `zone` is for those that name none.
    """
    code, cron = members.get("interv", "n"), members.get("cron")
    named, offset = members.get("timezone"), members.get("deadline_offset")
    missing = []
    if code == "c" and not (cron and cron.strip()):
        message = "interv c needs cron: give its five fields, or set interv to n to never run"
        missing = [Fault("/cron", "required", message)]
    faults = [
        *_raised(cron_of, code, cron),
        *missing,
        *_raised(zone_of, zone if named is None else named),
        *(_raised(relative_of, offset) if offset is not None else ()),
    ]
    return faults or [*_too_late(code, cron, named or zone, members.get("delay", 0), offset)]


def unused_cron(code: str, cron: str | None) -> list[Fault]:
    """Warn of a cron expression that the interval ignores."""
    if code == "c" or not cron:
        return []
    message = f"it is ignored with interv {code}; set interv to c to use it"
    return [Fault("/cron", "unused", message)]


def _raised(checking: Callable[..., object], *arguments: Any) -> tuple[Fault, ...]:
    try:
        checking(*arguments)
    except InvalidInput as error:
        return tuple(error.faults)
    return ()


def _too_late(
    code: str, cron: str | None, zone: str, delay: int, offset: str | None
) -> Iterator[Fault]:
    """Refuse a delay past the deadline: the job could not succeed in time."""
    schedule = schedule_of(code, cron, zone, delay)
    if schedule is None or not delay:
        return
    for window in islice(windows_after(schedule, _SOME_MONDAY), LOOKED_AT):
        deadline = deadline_of(offset, schedule, window)
        if deadline <= window.launch_at:
            until = "its window ends" if offset is None else f"its deadline {offset} passes"
            message = f"with a delay of {delay} s a job starts after {until}; "
            yield Fault("/delay", "deadline", message + "make it shorter or set deadline_offset")
            return
