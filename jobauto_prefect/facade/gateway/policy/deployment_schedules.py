"""Schedules of deployments in bodies: only those that a run template can have. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jobauto_prefect.compiler.scheduling.schedule_errors import schedule_faults
from jobauto_prefect.errors import Fault, InvalidInput

MAX_CRON_LENGTH = 255  # characters of a cron expression, as in a run template
UNSUPPORTED = ("interval", "rrule")
"""The schedules Prefect has beside cron."""

POINTERS: Mapping[str, str] = {"/cron": "/cron", "/timezone": "/timezone"}
"""The pointer of a run template's field to that of Prefect's schedule."""


def require_schedules(body: Any, present: Sequence[Mapping[str, Any]]) -> None:
    """Refuse schedules that the service would put back, before Prefect computes their dates.

    `body` is a deployment's, one schedule's, or a list of new schedules; `present` are those the
    deployment has. A run template has one schedule, in five fields of cron.

    Raises:
        InvalidInput: with every error.
    """
    entries = list(_entries(body))
    faults = [fault for pointer, entry in entries for fault in _faults(pointer, entry)]
    if _count_after(body, [entry for _, entry in entries], present) > 1:
        message = "a deployment has one schedule, that of its run template; change that one"
        faults.append(Fault("/schedules" if isinstance(body, dict) else "", "one", message))
    if faults:
        raise InvalidInput(faults)


def _count_after(body: Any, entries: Sequence[Any], present: Sequence[Mapping[str, Any]]) -> int:
    """Count the schedules a deployment has after a request; for a body of one schedule, 1."""
    if isinstance(body, list):
        return len(present) + len(entries)
    slugs = {schedule["slug"] for schedule in present if schedule.get("slug")}
    if not slugs:
        return len(entries)  # they replace those that are there
    named = [
        entry.get("replaces") or entry.get("slug") for entry in entries if isinstance(entry, dict)
    ]
    added = [slug for slug in named if slug is not None and slug not in slugs]
    return max(len(entries), len(present) + len(added) if added else 0)


def _entries(body: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(body, list):
        yield from ((f"/{number}", entry) for number, entry in enumerate(body))
    elif isinstance(body, dict) and isinstance(body.get("schedules"), list):
        yield from (
            (f"/schedules/{number}", entry) for number, entry in enumerate(body["schedules"])
        )
    else:
        yield "", body


def _faults(pointer: str, entry: Any) -> Iterator[Fault]:
    if not isinstance(entry, dict):
        if entry is not None:
            yield Fault(pointer, "type", "a schedule must be a JSON object")
        return
    schedule, place = entry.get("schedule"), f"{pointer}/schedule"
    if schedule is None:
        return
    if not isinstance(schedule, dict):
        yield Fault(place, "type", "a schedule must be a JSON object")
        return
    yield from _cron_faults(place, schedule)


def _cron_faults(place: str, schedule: Mapping[str, Any]) -> Iterator[Fault]:
    cron, zone = schedule.get("cron"), schedule.get("timezone") or "UTC"
    for name in UNSUPPORTED:
        if schedule.get(name) is not None:
            message = f"a run template has no {name}; give its cron expression"
            yield Fault(f"{place}/{name}", "schedule", message)
            return
    if not isinstance(cron, str) or not cron.strip() or len(cron) > MAX_CRON_LENGTH:
        message = f"must be a cron expression of up to {MAX_CRON_LENGTH} characters"
        yield Fault(f"{place}/cron", "cron", message)
        return
    if not isinstance(zone, str):
        yield Fault(f"{place}/timezone", "timezone", "must be the name of a time zone")
        return
    if schedule.get("day_or") is False:
        message = "a run template can't ask for both days; leave it out"
        yield Fault(f"{place}/day_or", "schedule", message)
    for fault in schedule_faults({"interv": "c", "cron": cron, "timezone": zone}, zone):
        yield replace(fault, pointer=place + POINTERS.get(fault.pointer, ""))
