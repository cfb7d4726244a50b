"""Rules for the content of bodies: lengths, runs, states, declared parameters, schedules. Pure."""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from jobauto_prefect.compiler.parameters import REFERENCES, parameter_name, parameters
from jobauto_prefect.compiler.scheduling.schedule_errors import schedule_faults
from jobauto_prefect.definitions import Definition
from jobauto_prefect.definitions.environment_names import EnvironmentNames
from jobauto_prefect.definitions.findings import child
from jobauto_prefect.definitions.storable import walk
from jobauto_prefect.errors import Fault, Forbidden, InvalidInput
from jobauto_prefect.facade.gateway.policy.body_filters import Body, require_object

MAX_ITEMS = 1_000
"""Maximum items of any list in a body; in a filter, of all its lists together."""

MAX_NUMBER = 2**53
"""For filters: Prefect multiplies pages, and its database fails on more than 64 bits."""

MAX_TAGS = 30
"""For writes and filters. Prefect fails on a run with more than 100 of them, including those of its
deployment and flow."""

MAX_CONDITIONS = 50
"""Of one kind in a search for events: each adds to the statement."""

_FEW: Sequence[tuple[re.Pattern[str], int]] = (
    (re.compile(r"(/[0-9]+)?/tags|/[a-z_]+/tags/(all|any)_"), MAX_TAGS),
    (re.compile(r"/filter(/.*)?"), MAX_CONDITIONS),
    (re.compile(r"/(names|work_queue_names|base_job_template/variables/properties)"), 100),
    (re.compile(r"/schedules|/actions(_[a-z]+)*|/trigger(/triggers/[0-9]+)*/triggers"), 20),
)
"""Maximum items or keys of fields that cost Prefect a statement or a check for each."""

MAX_NAME_LENGTH = 250
"""Maximum characters of a name, and of a tag."""

MAX_TERM_LENGTH = 1_000
"""Maximum characters of any text in a filter."""

MAX_STATE_LENGTH = 10_000
"""Maximum characters of a new state as JSON, with its message: lists repeat it for each run."""

_NAME = re.compile(r"(/[0-9]+)?/(name|tags/[0-9]+)")
"""For writes, single or in a list; not for a parameter of that name."""

_STATE = re.compile(r"(/[0-9]+)?/state")

MAX_DESCRIPTION_LENGTH = 10_000
"""Maximum characters of a description: lists repeat it."""

MAX_RUN_LENGTH = 64 * 1024
"""Maximum characters, as JSON, of a run's changes besides its state, or of a worker's metadata."""


def require_short(body: Any) -> None:
    """Refuse what is too long among the data that lists repeat for a run or a worker.

    Raises:
        InvalidInput: it is.
    """
    if _length(body) > MAX_RUN_LENGTH:
        message = f"has more than {MAX_RUN_LENGTH} characters as JSON; say less"
        raise InvalidInput([Fault("", "length", message)])


def require_short_lists(body: Any) -> None:
    """Limit the items that cost Prefect a statement or a check for each.

    Raises:
        InvalidInput: with every error.
    """
    faults = [
        _too_many(pointer, value, most)
        for pointer, value, _ in walk(body)
        if isinstance(value, list | dict)
        for pattern, most in _FEW
        if len(value) > most and pattern.fullmatch(pointer)
    ]
    if faults:
        raise InvalidInput(faults)


def _too_many(pointer: str, value: Collection[Any], most: int) -> Fault:
    return Fault(pointer, "items", f"has {len(value)} items; send at most {most} at once")


def require_limits(body: Any, *, is_filter: bool) -> None:
    """Refuse what is too expensive; `is_filter`: Prefect does not store the body.

    Raises:
        InvalidInput: with every error.
    """
    faults = []
    items = 0
    for pointer, value, _ in walk(body):
        if isinstance(value, list):
            items += len(value)
            if len(value) > MAX_ITEMS:
                faults.append(_too_many(pointer, value, MAX_ITEMS))
        if is_filter and isinstance(value, int | float) and abs(value) > MAX_NUMBER:
            faults.append(Fault(pointer, "number", f"is beyond {MAX_NUMBER}"))
        max_length = _max_length(pointer, is_filter)
        if max_length is not None and isinstance(value, str) and len(value) > max_length:
            message = f"has {len(value)} characters; send at most {max_length}"
            faults.append(Fault(pointer, "length", message))
        if not is_filter and _STATE.fullmatch(pointer) and _length(value) > MAX_STATE_LENGTH:
            message = f"has more than {MAX_STATE_LENGTH} characters as JSON; send a shorter message"
            faults.append(Fault(pointer, "length", message))
    if is_filter and items > MAX_ITEMS and not faults:
        message = f"has {items} items in its lists; look for at most {MAX_ITEMS} at once"
        faults.append(Fault("", "items", message))
    if faults:
        raise InvalidInput(faults)


def _length(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False))


def shorten_state(body: Any) -> Any:
    """Shorten a worker's state that is too long: cut its message, drop its result and long details.

    A run must be able to end, however long its last message is.
    """
    state = body.get("state") if isinstance(body, dict) else None
    if not isinstance(state, dict) or _length(state) <= MAX_STATE_LENGTH:
        return body
    message, name, details = (state.get(key) for key in ("message", "name", "state_details"))
    shortened = {
        "message": message[: MAX_STATE_LENGTH // 2] + " …" if isinstance(message, str) else None,
        "name": name[:MAX_NAME_LENGTH] if isinstance(name, str) else None,
        "data": None,
        "state_details": {} if _length(details) > MAX_STATE_LENGTH // 4 else details or {},
    }
    return body | {"state": state | shortened}


def _max_length(pointer: str, is_filter: bool) -> int | None:
    if is_filter:
        return MAX_TERM_LENGTH
    if pointer == "/description":
        return MAX_DESCRIPTION_LENGTH
    return MAX_NAME_LENGTH if _NAME.fullmatch(pointer) else None


SCHEDULED = "SCHEDULED"

WORKERS_STATES = frozenset({"PENDING", "RUNNING"})
"""A run in one of these states occupies a slot in its work pool: only its worker sets them."""

KEY = "idempotency_key"


def prefix_idempotency_keys(body: Any, deployment_id: str) -> Any:
    """Prefix the idempotency keys of new runs with their deployment.

    Prefect's keys are per flow; companies share flows, and the service uses such keys itself.
    """
    prefix = str(UUID(deployment_id))

    def prefixed(run: Body) -> Body:
        key = run.get(KEY)
        return run | {KEY: f"{prefix} {key}"} if isinstance(key, str) and key else run

    return _each(body, prefixed)


def require_scheduled_state(body: Any) -> None:
    """Refuse new runs in another state than Scheduled.

    Raises:
        Forbidden: there is one.
    """
    for run in _items(body):
        if run.get("state") is not None and _kind(run["state"]) != SCHEDULED:
            raise Forbidden("only administrators may make runs that are not Scheduled")
        _require_plain_details(run)


def refuse_retries(body: Any) -> None:
    """Refuse that Prefect retries or pauses runs: the run template governs attempts.

    Prefect's pages send an empty policy.

    Raises:
        Forbidden: the policy is not empty.
    """
    for run in _items(body or {}):
        if any(require_object(run.get("empirical_policy")).values()):
            raise Forbidden(
                "empirical_policy has no effect here: the run template says how often and when a"
                " job is retried; change it there"
            )


def drop_force(body: Any) -> Any:
    """Drop `force` from a member's new state: Prefect's rules decide on transitions.

    Prefect's pages send it with every state.

    Raises:
        Forbidden: only workers set this state.
    """
    given = require_object(body)
    if _kind(given.get("state")) in WORKERS_STATES:
        raise Forbidden("only workers make runs Pending or Running")
    _require_plain_details(given)
    return given | {"force": False}


def _require_plain_details(fields: Mapping[str, Any]) -> None:
    """Refuse states that name the schema against which Prefect checks a paused run's input."""
    details = require_object(require_object(fields.get("state")).get("state_details"))
    if details.get("run_input_keyset"):
        raise Forbidden("only administrators may have a paused run wait for input")


def _kind(state: Any) -> str:
    return str(require_object(state).get("type")).upper()


def _items(body: Any) -> Iterator[Body]:
    yield from map(require_object, body if isinstance(body, list) else [body])


def _each(body: Any, change: Callable[[Body], Body]) -> Any:
    if body is None:
        return None
    changed = [change(run) for run in _items(body)]
    return changed if isinstance(body, list) else changed[0]


OWN_EVENTS = "jobauto."
"""Prefixes of the names of this service's events, and of the ids of their resources."""


def refuse_own_events(body: Any) -> None:
    """Refuse events in this service's name: they start runs of any company.

    Raises:
        Forbidden: there is one.
    """
    for event in _items(body):
        about = require_object(event.get("resource")).get("prefect.resource.id")
        if any(str(word).startswith(OWN_EVENTS) for word in (event.get("event"), about)):
            raise Forbidden(
                f"only the services send events named {OWN_EVENTS}*, or about such a resource; "
                "give yours another name"
            )


def require_declared(body: Any, definition: Definition) -> None:
    """Refuse parameters that the application does not declare: no job would receive them.

    Raises:
        InvalidInput: with an error for each.
    """
    declared = {*parameters(definition).parameter_keys, REFERENCES}
    secret = {parameter_name(key) for key in definition.secret_keys}
    names = EnvironmentNames(declared)
    faults = list[Fault]()
    for pointer, given in _parameters_in(body):
        others = [name for name in given if name not in declared]
        faults += [_secret(name, pointer) for name in others if name in secret]
        faults += names.faults([name for name in others if name not in secret], pointer)
    if faults:
        raise InvalidInput(faults)


def _secret(name: str, pointer: str) -> Fault:
    message = f"{name} is a secret, and Prefect keeps none: give it with jobauto run --env"
    return Fault(child(pointer, name), "secret", message)


def _parameters_in(body: Any, pointer: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Find the parameters of a run, deployment or schedule, or of each in a list, by pointer."""
    if isinstance(body, list):
        for place, item in enumerate(body):
            yield from _parameters_in(item, f"{pointer}/{place}")
    elif isinstance(body, dict):
        if isinstance(body.get("parameters"), dict):
            yield f"{pointer}/parameters", body["parameters"]
        yield from _parameters_in(body.get("schedules"), f"{pointer}/schedules")


MAX_CRON_LENGTH = 255  # maximum characters of a cron expression, as in a run template

UNSUPPORTED = ("interval", "rrule")
"""Prefect's schedule types besides cron."""

POINTERS: Mapping[str, str] = {"/cron": "/cron", "/timezone": "/timezone"}
"""Pointer of a run template's field -> pointer of Prefect's schedule field."""


def require_schedules(body: Any, present: Sequence[Mapping[str, Any]]) -> None:
    """Refuse schedules that the service would revert, before Prefect computes their dates.

    `body` is a deployment's, one schedule's, or a list of new schedules; `present` are those the
    deployment has. A run template has one schedule, in five fields of cron.

    Raises:
        InvalidInput: with every error.
    """
    entries = list(_schedule_entries(body))
    faults = [fault for pointer, entry in entries for fault in _schedule_faults(pointer, entry)]
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
        return len(entries)  # they replace the present ones
    named = [
        entry.get("replaces") or entry.get("slug") for entry in entries if isinstance(entry, dict)
    ]
    added = [slug for slug in named if slug is not None and slug not in slugs]
    return max(len(entries), len(present) + len(added) if added else 0)


def _schedule_entries(body: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(body, list):
        yield from ((f"/{number}", entry) for number, entry in enumerate(body))
    elif isinstance(body, dict) and isinstance(body.get("schedules"), list):
        yield from (
            (f"/schedules/{number}", entry) for number, entry in enumerate(body["schedules"])
        )
    else:
        yield "", body


def _schedule_faults(pointer: str, entry: Any) -> Iterator[Fault]:
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
