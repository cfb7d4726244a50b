"""What one request of a person may ask Prefect for, and what schedules and runs they may make."""

import asyncio
from typing import Any

import pytest

from jobauto_prefect.errors import Forbidden, InvalidInput, TooManyRequests
from jobauto_prefect.facade.concurrency import (
    MAX_CONCURRENT,
    MAX_WAITING,
    UserConcurrency,
)
from jobauto_prefect.facade.gateway.policy.body_rules import (
    drop_force,
    prefix_idempotency_keys,
    require_limits,
    require_scheduled_state,
    require_schedules,
    shorten_state,
)
from jobauto_prefect.facade.gateway.policy.owners import digest_of, digests_of

ID = "0b9e9c60-5f3b-4d1c-8d3e-0123456789ab"
OURS = [{"slug": "jobauto"}]
GOOD = {"cron": "0 6 * * *", "timezone": "Europe/Prague"}
NEVER = {"rrule": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"}


def rules_broken(call: Any, *arguments: Any, **named: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidInput) as caught:
        call(*arguments, **named)
    return [(fault.pointer, fault.rule) for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("schedule", "fault"),
    [
        ({"cron": "0 0 30 2 *"}, ("/cron", "cron")),
        ({"cron": "0 0 */29 2 1#5"}, ("/cron", "cron")),
        ({"cron": "* * * * * *"}, ("/cron", "cron")),
        ({"cron": ""}, ("/cron", "cron")),
        ({"cron": "0 " * 200}, ("/cron", "cron")),
        ({"cron": ["0 6 * * *"]}, ("/cron", "cron")),
        ({"cron": "0 6 * * *", "timezone": "Mars/Olympus"}, ("/timezone", "timezone")),
        ({"cron": "0 6 * * *", "timezone": 7}, ("/timezone", "timezone")),
        ({"cron": "0 6 1 * 1", "day_or": False}, ("/day_or", "schedule")),
        ({"interval": 0.001}, ("/interval", "schedule")),
        ({"interval": 86400}, ("/interval", "schedule")),
        (NEVER, ("/rrule", "schedule")),
        ({}, ("/cron", "cron")),
        ("0 6 * * *", ("", "type")),
    ],
)
def test_a_schedule_that_no_run_template_has_is_refused_wherever_it_stands(
    schedule: Any, fault: tuple[str, str]
) -> None:
    for body, place in (
        ({"schedule": schedule}, "/schedule"),
        ([{"schedule": schedule}], "/0/schedule"),
        ({"schedules": [{"schedule": schedule}]}, "/schedules/0/schedule"),
    ):
        assert rules_broken(require_schedules, body, []) == [(place + fault[0], fault[1])]


def test_what_a_run_template_has_passes() -> None:
    require_schedules({"paused": True}, OURS)
    require_schedules({"active": False}, [])
    require_schedules({"schedule": GOOD}, [])
    require_schedules([{"schedule": GOOD}], [])
    require_schedules({"schedules": [{"slug": "jobauto", "schedule": GOOD}]}, OURS)
    require_schedules({"schedules": [{"replaces": "jobauto", "slug": "x"}]}, OURS)
    require_schedules({"schedules": []}, OURS)
    require_schedules(None, OURS)


@pytest.mark.parametrize(
    ("body", "present"),
    [
        ([{"schedule": GOOD}], OURS),
        ([{"schedule": GOOD}, {"schedule": GOOD}], []),
        ({"schedules": [{"slug": "other", "schedule": GOOD}]}, OURS),
        ({"schedules": [{"slug": "jobauto"}, {"slug": "other", "schedule": GOOD}]}, OURS),
        ({"schedules": [{"schedule": GOOD}, {"schedule": GOOD}]}, []),
    ],
)
def test_a_deployment_gets_no_second_schedule(body: Any, present: Any) -> None:
    assert [rule for _, rule in rules_broken(require_schedules, body, present)] == ["one"]


def test_long_lists_and_long_terms_are_refused_with_their_places() -> None:
    ids = {"flow_runs": {"id": {"any_": ["x"] * 1001}}}
    assert rules_broken(require_limits, ids, is_filter=True) == [("/flow_runs/id/any_", "items")]
    both = {"a": [0] * 1001, "name": "x" * 251, "tags": ["x" * 251]}
    expected = [("/a", "items"), ("/name", "length"), ("/tags/0", "length")]
    assert rules_broken(require_limits, both, is_filter=False) == expected
    assert rules_broken(require_limits, [{"name": "x" * 251}], is_filter=False)
    term = {"flow_runs": {"name": {"like_": "%" * 1001}}}
    assert rules_broken(require_limits, term, is_filter=True)
    require_limits({"a": [0] * 1000, "name": "x" * 250}, is_filter=True)
    require_limits({"parameters": {"name": "x" * 5000, "tags": ["x" * 5000]}}, is_filter=False)


def test_a_new_run_is_scheduled_or_says_nothing() -> None:
    for state in (None, {"type": "SCHEDULED"}, {"type": "scheduled", "name": "Scheduled"}):
        require_scheduled_state({"state": state})
    require_scheduled_state(None)
    for kind in ("RUNNING", "PENDING", "COMPLETED", "running", None):
        with pytest.raises(Forbidden):
            require_scheduled_state({"state": {"type": kind}})
        with pytest.raises(Forbidden):
            require_scheduled_state([{}, {"state": {"type": kind}}])


def test_force_is_left_out_and_only_workers_make_runs_run() -> None:
    state = {"type": "CANCELLED"}
    assert drop_force({"state": state, "force": True}) == {"state": state, "force": False}
    for kind in ("RUNNING", "running", "PENDING"):
        with pytest.raises(Forbidden):
            drop_force({"state": {"type": kind}})
    keys = {"run_input_keyset": {"schema": "x"}}
    with pytest.raises(Forbidden):
        drop_force({"state": {"type": "PAUSED", "state_details": keys}})


def test_keys_are_of_the_deployment_alone_the_services_own_included() -> None:
    def key_of(given: Any) -> Any:
        return prefix_idempotency_keys({"idempotency_key": given}, ID.upper())["idempotency_key"]

    assert key_of("a") == f"{ID} a"
    assert key_of("jobauto-job-7") == f"{ID} jobauto-job-7"
    assert key_of(f"{ID} a") == f"{ID} {ID} a"
    assert key_of(None) is None
    assert key_of("") == ""
    runs = [{"idempotency_key": "a"}, {}]
    assert prefix_idempotency_keys(runs, ID) == [{"idempotency_key": f"{ID} a"}, {}]
    assert prefix_idempotency_keys(None, ID) is None


def test_a_user_has_eight_requests_under_way_and_64_that_wait() -> None:
    async def scenario() -> None:
        concurrency, go, under_way = UserConcurrency(), asyncio.Event(), 0

        async def ask(user: int) -> None:
            nonlocal under_way
            async with concurrency.slot(user):
                under_way += 1
                await go.wait()

        asks = [asyncio.create_task(ask(1)) for _ in range(MAX_CONCURRENT + MAX_WAITING)]
        await asyncio.sleep(0)
        assert (MAX_CONCURRENT, MAX_WAITING) == (8, 64)
        assert under_way == MAX_CONCURRENT
        with pytest.raises(TooManyRequests, match="wait"):
            await ask(1)
        other = asyncio.create_task(ask(2))
        await asyncio.sleep(0)
        assert under_way == MAX_CONCURRENT + 1
        asks[-1].cancel()
        go.set()
        await asyncio.gather(other, *asks, return_exceptions=True)
        assert under_way == MAX_CONCURRENT + MAX_WAITING
        await ask(1)

    asyncio.run(scenario())


def test_a_schema_is_known_as_it_is_as_older_pages_repeat_it_and_by_one_property() -> None:
    x = {"type": "object", "title": "x", "additionalProperties": {"type": "integer"}}
    y = {"type": "string", "enum": ["a"]}
    schema = {"title": "P", "type": "object", "properties": {"x": x, "y": y}, "definitions": {}}
    known = digests_of(schema)
    repeated_x = {"type": "object", "title": "x"}
    for form in (
        schema,
        dict(reversed(schema.items())),
        schema | {"properties": {"x": repeated_x, "y": y}},
        {"definitions": {}, "properties": {"noun": y}},
        {"definitions": {}, "properties": {"noun": repeated_x}},
    ):
        assert digest_of(form) in known
    for other in (
        None,
        {},
        schema | {"title": "Q"},
        schema | {"properties": {"x": y, "y": x}},
        {"definitions": {}, "properties": {"noun": y | {"pattern": "(a+)+"}}},
        {"definitions": {"z": {}}, "properties": {"noun": y}},
        {"definitions": {}, "properties": {"noun": y, "other": y}},
        {"definitions": {}, "properties": {"noun": y}, "pattern": "x"},
    ):
        assert digest_of(other) not in known


def test_a_new_state_is_short_and_a_workers_is_cut() -> None:
    long = {"type": "CANCELLED", "message": "x" * 3_900_000}
    for body in ({"state": long}, [{"state": long}], {"state": {"type": "X", "data": [long]}}):
        assert [rule for _, rule in rules_broken(require_limits, body, is_filter=False)] == [
            "length"
        ]
    require_limits({"state": {"type": "CANCELLED", "message": "x" * 9_000}}, is_filter=False)
    require_limits({"parameters": {"state": "x" * 20_000}}, is_filter=False)

    cut = shorten_state({"state": {**long, "name": "n" * 20_000}, "force": True})
    assert (cut["state"]["type"], cut["force"], len(cut["state"]["name"])) == (
        "CANCELLED",
        True,
        250,
    )
    assert len(cut["state"]["message"]) < 6_000
    short = {"state": {"type": "FAILED", "message": "no", "data": {"a": 1}}}
    assert shorten_state(short) == short
    assert shorten_state(None) is None
