"""Calendars of companies and run templates: what becomes of windows in the time they close."""

from typing import Any

import httpx
import pytest

from tests.support.claims import claim_of, granted, refused
from tests.support.records import ok
from tests.support.timeline import DAY, HOUR, MINUTE, NOON, Timeline

BACKUP = {"from": "13:00", "to": "15:30", "title": "Backup"}


def write(rest: httpx.Client, status: int = 201, **members: Any) -> dict[str, Any]:
    return ok(rest.post("/calendar/", json={"name": "Closing", **members}), status)


def company(rest: httpx.Client, **members: Any) -> None:
    rest.post("/company/", json={"slug": "acme", **members}).raise_for_status()


def test_windows_in_the_time_of_a_calendar_are_excused(
    timeline: Timeline, rest: httpx.Client
) -> None:
    write(rest, times=[BACKUP])
    timeline.schedule(calendars=["Closing"], deadline_offset="+9h")
    for hours in range(5):
        timeline.keep_at(NOON + hours * HOUR + MINUTE)
    states = ["open", "missed", "missed", "missed", "open"]
    assert [task.state for task in timeline.tasks()] == states
    excused = timeline.tasks()[1]
    assert (excused.reason, excused.excuse) == ("closed", "Backup (Closing)")
    assert (
        "is excused: Backup (Closing)"
        in refused(timeline.claims, timeline.by_prefect(NOON + HOUR))[2]
    )


def test_the_calendars_of_company_and_run_template_close_both(
    timeline: Timeline, rest: httpx.Client
) -> None:
    write(rest, times=[BACKUP])
    made = write(rest, name="Holidays", days=[{"date": "2026-05-05", "title": "Day"}])
    timeline.schedule(calendars=[made["id"]])
    company(rest, calendars=["Closing"])
    forecast = rest.get("/forecast.json?days=2").json()["windows"]
    reasons = [one["closed"] for one in forecast]
    assert reasons[:5] == [None, *["Backup (Closing)"] * 3, None]
    assert set(reasons[12:36]) == {"Day (Holidays)", "Backup (Closing)"}
    assert reasons[11] is reasons[36] is None


def test_a_moved_window_runs_when_it_is_open_again(timeline: Timeline, rest: httpx.Client) -> None:
    write(rest, times=[BACKUP])
    timeline.schedule(calendars=["Closing"], on_closed="move", deadline_offset="+9h")
    timeline.keep_at(NOON)
    timeline.keep_at(NOON + HOUR + MINUTE)
    assert len(timeline.tasks()) == 1
    message = refused(timeline.claims, timeline.by_prefect(NOON + HOUR))[2]
    moved = (NOON + 3.5 * HOUR).isoformat()
    assert message == f"Backup (Closing); the window is moved to {moved}"
    timeline.keep_at(NOON + 3.5 * HOUR)
    assert [task.state for task in timeline.tasks()] == ["open", "missed", "missed", "open"]
    job = timeline.jobs()[-1]
    assert job.schedule == NOON + 3.5 * HOUR


def test_a_change_of_a_calendar_is_followed_at_once(timeline: Timeline, rest: httpx.Client) -> None:
    made = write(rest, times=[BACKUP])
    timeline.schedule(calendars=["Closing"], on_closed="move", deadline_offset="+9h")
    timeline.keep_at(NOON)
    timeline.keep_at(NOON + HOUR + MINUTE)
    assert len(timeline.tasks()) == 1
    write(rest, id=made["id"], name="Shorter", times=[BACKUP | {"to": "13:30"}])
    assert rest.get(f"/runtemplate/{timeline.template['id']}.json").json()["calendars"] == [
        "Shorter"
    ]
    timeline.keep_at(NOON + 1.5 * HOUR)
    assert [task.state for task in timeline.tasks()] == ["open", "open"]
    # What waits for an end that is taken away.
    write(rest, id=made["id"], times=[BACKUP | {"from": "14:00", "to": "23:00"}])
    timeline.keep_at(NOON + 2 * HOUR + MINUTE)
    timeline.change(calendars=[])
    timeline.keep_at(NOON + 2 * HOUR + MINUTE)
    assert [task.state for task in timeline.tasks()] == ["open", "open", "open"]


def test_an_attempt_at_a_window_waits_and_other_jobs_do_not(
    timeline: Timeline, rest: httpx.Client
) -> None:
    write(rest, times=[BACKUP])
    timeline.schedule(calendars=["Closing"], deadline_offset="+9h")
    timeline.keep_at(NOON)
    timeline.now = NOON + HOUR
    (job,) = timeline.jobs()
    why = f"Backup (Closing); it starts at {(NOON + 3.5 * HOUR).isoformat()}"
    assert refused(timeline.claims, timeline.of_job(job)) == ("closed", "SCHEDULED", why)
    assert rest.get(f"/job/{job.id}.json").json()["message"] == why
    assert granted(timeline.claims, claim_of())["job_id"] != job.id
    timeline.now = NOON + 3.5 * HOUR
    assert granted(timeline.claims, timeline.of_job(job))["job_id"] == job.id


def test_days_are_those_of_the_run_templates_zone(timeline: Timeline, rest: httpx.Client) -> None:
    write(rest, days=[{"date": "2026-05-05"}])
    timeline.schedule(calendars=["Closing"], timezone="Asia/Tokyo")
    windows = rest.get("/forecast.json?days=2").json()["windows"]
    closed = [one["launch_at"] for one in windows if one["closed"]]
    assert closed[0] == "2026-05-04T15:00:00+00:00"
    assert len(closed) == DAY / HOUR


def test_a_calendar_that_is_used_stays(timeline: Timeline, rest: httpx.Client) -> None:
    made = write(rest)
    template = timeline.schedule(calendars=["Closing"])["id"]
    refusal = rest.delete("/calendar/Closing.json")
    assert refusal.status_code == 409
    assert f"run template {template}" in refusal.json()["message"]
    timeline.change(calendars=[])
    rest.delete(f"/calendar/{made['id']}.json").raise_for_status()
    answer = rest.post("/runtemplate/", json={"id": template, "calendars": ["Closing", made["id"]]})
    assert [fault["pointer"] for fault in answer.json()["details"]] == [
        "/calendars/0", "/calendars/1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("members", "pointer"),
    [
        ({"days": [{"date": "2026-02-30"}]}, "/days/0/date"),
        ({"days": [{"date": "2026-02-03", "until": "2026-02-01"}]}, "/days/0/until"),
        ({"days": [{"date": "2026-01-01", "until": "2026-12-31", "yearly": True}]},
         "/days/0/until"),
        ({"times": [{"from": "25:00", "to": "04:00"}]}, "/times/0/from"),
        ({"times": [{"from": "22:00", "to": "04:00", "weekdays": ["sunday"]}]},
         "/times/0/weekdays/0"),
        ({"periods": [{"start": "2026-05-02T18:00", "end": "2026-05-02T08:00"}]},
         "/periods/0/end"),
        ({"periods": [{"start": "2026-05-32T18:00", "end": "2026-05-02T08:00"}]},
         "/periods/0/start"),
        ({"timezone": "Mars/Olympus"}, "/timezone"),
        ({"country": "XX"}, "/country"),
        ({"subdivision": "BY"}, "/subdivision"),
        ({"name": None}, "/name"),
    ],
)  # fmt: skip
def test_every_error_has_its_place(
    rest: httpx.Client, members: dict[str, Any], pointer: str
) -> None:
    assert write(rest, 400, **members)["details"][0]["pointer"] == pointer
