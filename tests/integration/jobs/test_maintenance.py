"""While it is frozen for maintenance nothing starts, and windows do what their template says."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from jobauto_prefect.facade.auth.permissions import Role
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import Job
from tests.support.claims import claim_of, granted, refused, report
from tests.support.databases import on_postgresql
from tests.support.ledger_rows import count_lock_waits
from tests.support.records import ok
from tests.support.servers import client, user_token
from tests.support.timeline import HOUR, MINUTE, NOON, Timeline
from tests.support.waits import eventually

PATH = "/maintenance.json"


def freeze(rest: httpx.Client, **members: Any) -> dict[str, Any]:
    return ok(rest.put(PATH, json=members))


def resume(rest: httpx.Client) -> None:
    rest.delete(PATH).raise_for_status()


def iso(instant: datetime) -> str:
    return instant.isoformat()


def test_no_job_starts_and_all_say_why(timeline: Timeline, rest: httpx.Client) -> None:
    template = timeline.schedule(interv="n")["id"]
    made = rest.post("/job/", json={"runtemplate_id": template}).json()["id"]
    before = granted(timeline.claims, claim_of())
    frozen = freeze(rest, reason="new disk", until="+2h")
    assert frozen == {
        "frozen": True, "reason": "new disk", "since": iso(timeline.now),
        "until": iso(timeline.now + 2 * HOUR), "by": "root",
    }  # fmt: skip
    assert rest.get(PATH).json() == frozen

    (job,) = (job for job in timeline.jobs() if job.id == made)
    claim = timeline.of_job(job)
    why = f"maintenance: new disk; nothing starts until {frozen['until']}"
    assert refused(timeline.claims, claim) == ("maintenance", "SCHEDULED", why)
    click = claim_of()
    assert refused(timeline.claims, click)[0] == "maintenance"
    waiting = rest.get("/jobs.json?state=scheduled").json().values()
    assert [record["waits_for"] for record in waiting] == [why] * 2
    posted = rest.post("/job/", json={"runtemplate_id": template}).json()
    assert posted["waits_for"] == why
    assert report(timeline.claims, before)  # what runs goes on

    timeline.now += 2 * HOUR
    assert rest.get(PATH).json()["frozen"] is False
    assert granted(timeline.claims, claim)["job_id"] == made
    assert granted(timeline.claims, click)


def test_the_end_wakes_what_was_told_to_wait(timeline: Timeline, rest: httpx.Client) -> None:
    timeline.schedule(interv="n")
    freeze(rest)
    run = claim_of()
    assert refused(timeline.claims, run)[2] == (
        "maintenance; nothing starts until it is ended: jobauto resume"
    )
    (job,) = timeline.jobs()
    assert timeline.pending_subjects("reschedule_run") == []
    resume(rest)
    # Twice: the claim's worker may yet tell Prefect the later time of the refusal.
    assert timeline.pending_subjects("reschedule_run") == [job.id] * 2
    assert granted(timeline.claims, run)["job_id"] == job.id
    resume(rest)  # nothing is frozen: nothing changes


@on_postgresql
def test_the_end_wakes_what_is_just_being_told_to_wait(
    timeline: Timeline, rest: httpx.Client
) -> None:
    template = timeline.schedule(interv="n")["id"]
    made = rest.post("/job/", json={"runtemplate_id": template}).json()["id"]
    (job,) = timeline.jobs()
    timeline.bind(job)
    freeze(rest)

    with ThreadPoolExecutor(2) as threads:
        with timeline.ledger.writing(SERVICE) as session:
            session.get_one(Job, made, with_for_update=True)
            claim = threads.submit(refused, timeline.claims, timeline.of_job(job))
            eventually(lambda: count_lock_waits(timeline.ledger) == 1)
            end = threads.submit(resume, rest)
            eventually(lambda: count_lock_waits(timeline.ledger) == 2 or end.done())
        assert claim.result(60)[0] == "maintenance"
        end.result(60)
    assert made in timeline.pending_subjects("reschedule_run")


def test_a_claim_comes_again_at_the_latest_when_the_freeze_ends(
    timeline: Timeline, rest: httpx.Client
) -> None:
    timeline.schedule(interv="n")

    def again() -> datetime:
        answer = timeline.claims.post("/claims", json=claim_of()).json()
        return datetime.fromisoformat(answer["refusal"]["story"]["at"])

    freeze(rest, until="+5m")
    assert again() == timeline.now + 5 * MINUTE
    freeze(rest, until="+5h")
    assert again() == timeline.now + 10 * MINUTE


def test_it_is_the_administrators_and_in_the_audit_trail(
    rest: httpx.Client, timeline: Timeline, facade_url: str
) -> None:
    visitor = client(f"{facade_url}/api/v1", user_token(timeline.ledger, "eve", [Role.EDITOR]))
    assert visitor.get(PATH).json()["frozen"] is False
    assert visitor.put(PATH, json={}).status_code == 403
    assert visitor.delete(PATH).status_code == 403
    freeze(rest, reason="one")
    timeline.now += MINUTE
    freeze(rest, reason="two", until=iso(timeline.now + HOUR))
    resume(rest)
    entries = rest.get("/auditlog.json?entity_type=Freeze&order=id").json().values()
    assert [entry["action"] for entry in entries] == ["create", "update", "update"]
    assert [entry["actor"] for entry in entries] == ["root"] * 3


def test_one_that_ended_by_itself_is_followed_by_another(
    timeline: Timeline, rest: httpx.Client
) -> None:
    first = freeze(rest, until="+1h")
    timeline.now += 2 * HOUR
    second = freeze(rest, reason="again")
    assert second["since"] == iso(timeline.now) != first["since"]
    assert rest.get("/status").json()["maintenance"] == second
    assert {worker["state"] for worker in rest.get("/workers.json").json().values()} == {"frozen"}


@pytest.mark.parametrize("until", ["soon", "+", "25:00", "2020-01-01T00:00:00Z", "+0h"])
def test_an_end_that_is_none_is_an_error(
    timeline: Timeline, rest: httpx.Client, until: str
) -> None:
    answer = rest.put(PATH, json={"until": until})
    assert answer.status_code == 400
    assert answer.json()["details"][0]["pointer"] == "/until"
    assert rest.get(PATH).json()["frozen"] is False


def test_a_time_of_day_is_the_next_one_of_the_service(
    timeline: Timeline, rest: httpx.Client
) -> None:
    timeline.now = datetime(2026, 5, 4, 12, tzinfo=UTC)
    assert freeze(rest, until="06:30")["until"] == "2026-05-05T06:30:00+00:00"


def test_windows_in_it_are_excused(timeline: Timeline, rest: httpx.Client) -> None:
    timeline.schedule()
    freeze(rest, reason="new disk")
    timeline.keep_at(NOON + MINUTE)
    (task,) = timeline.tasks()
    assert (task.state, task.reason, task.message) == ("missed", "closed", "maintenance: new disk")
    assert (task.excuse, task.excused_by) == ("maintenance: new disk", "service")
    assert timeline.pending_subjects("tell_task") == []  # nobody's alarm rings
    run = timeline.by_prefect(NOON)
    _, state, message = refused(timeline.claims, run)
    assert state == "CANCELLED"
    assert message == f"the window from {iso(NOON)} is excused: maintenance: new disk"
    # The run that Prefect makes before the keeper looks.
    timeline.now = NOON + HOUR
    assert "is excused" in refused(timeline.claims, timeline.by_prefect(NOON + HOUR))[2]
    resume(rest)
    timeline.keep_at(NOON + 2 * HOUR + MINUTE)
    assert timeline.states() == [("missed", "closed")] * 2 + [("open", None)]


@pytest.mark.parametrize("until", [None, "+10h"])
def test_the_newest_of_moved_windows_runs_at_the_end(
    timeline: Timeline, rest: httpx.Client, until: str | None
) -> None:
    timeline.schedule(on_closed="move")
    freeze(rest, until=until)
    for hours in range(3):
        timeline.keep_at(NOON + hours * HOUR + MINUTE)
    assert timeline.tasks() == []
    message = refused(timeline.claims, timeline.by_prefect(NOON))[2]
    assert message.startswith("maintenance; the window is moved to ")
    timeline.now += 30 * MINUTE
    resume(rest)
    timeline.keep_at(timeline.now + MINUTE / 60)
    assert timeline.states() == [("missed", "closed")] * 2 + [("open", None)]
    (job,) = timeline.jobs()
    assert timeline.tasks()[-1].deadline == job.schedule + HOUR
    assert job.schedule == timeline.now
    assert granted(timeline.claims, timeline.of_job(job))["job_id"] == job.id


def test_moved_windows_run_each_where_all_are_to(timeline: Timeline, rest: httpx.Client) -> None:
    timeline.schedule(on_closed="move", misfire="all")
    freeze(rest, until=iso(NOON + 90 * MINUTE))
    timeline.keep_at(NOON + 80 * MINUTE)
    assert timeline.tasks() == []
    timeline.keep_at(NOON + 90 * MINUTE)
    assert timeline.states() == [("open", None)] * 2
    (first,) = timeline.jobs()
    timeline.ends(granted(timeline.claims, timeline.of_job(first)))
    timeline.keep_at(timeline.now)
    assert [job.task_id for job in timeline.jobs()] == [task.id for task in timeline.tasks()]


def test_what_the_freeze_kept_from_beginning_in_time_is_as_a_window_in_it(
    timeline: Timeline, rest: httpx.Client
) -> None:
    timeline.schedule(deadline_offset="+30m")
    timeline.keep_at(NOON)
    freeze(rest, reason="disk")
    timeline.keep_at(NOON + 31 * MINUTE)
    (task,) = timeline.tasks()
    assert (task.state, task.reason, task.excuse) == ("missed", "closed", "maintenance: disk")
    assert timeline.jobs()[0].state == "skipped"


@pytest.mark.parametrize("first", ["keeper", "claim"])
def test_or_it_gets_its_time_after_the_end(
    timeline: Timeline, rest: httpx.Client, first: str
) -> None:
    timeline.schedule(deadline_offset="+30m", on_closed="move")
    timeline.keep_at(NOON)
    freeze(rest)
    timeline.keep_at(NOON + 50 * MINUTE)
    assert timeline.states() == [("open", None)]
    timeline.now += 5 * MINUTE
    ended = timeline.now
    resume(rest)
    if first == "keeper":
        timeline.keep_at(ended)
    (job,) = timeline.jobs()
    assert granted(timeline.claims, timeline.of_job(job))["job_id"] == job.id
    assert timeline.tasks()[0].deadline == ended + HOUR


def test_a_forecast_knows_of_the_freeze(timeline: Timeline, rest: httpx.Client) -> None:
    timeline.schedule()
    freeze(rest, reason="disk", until=iso(NOON + 90 * MINUTE))
    first, second, third, *_ = rest.get("/forecast.json?days=1").json()["windows"]
    assert [one["excused"] for one in (first, second, third)] == [True, True, False]
    assert first["closed"] == "maintenance: disk"
    timeline.change(on_closed="move")
    first, second, third, *_ = rest.get("/forecast.json?days=1").json()["windows"]
    assert first["excused"]
    assert (second["moved_from"], second["launch_at"]) == (
        iso(NOON + HOUR), iso(NOON + 90 * MINUTE),
    )  # fmt: skip
    assert (third["moved_from"], third["closed"]) == (None, None)
