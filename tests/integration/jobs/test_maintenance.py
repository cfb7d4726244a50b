"""While it is frozen for maintenance nothing starts, and windows do what their template says."""

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from jobauto_prefect.facade.auth.permissions import Role
from tests.support.claims import claim_of, granted, refused, report
from tests.support.servers import client, user_token
from tests.support.yard import HOUR, MINUTE, NOON, Yard

PATH = "/maintenance.json"


def freeze(rest: httpx.Client, **members: Any) -> dict[str, Any]:
    answer = rest.put(PATH, json=members)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def resume(rest: httpx.Client) -> None:
    rest.delete(PATH).raise_for_status()


def iso(instant: datetime) -> str:
    return instant.isoformat()


def test_no_job_starts_and_all_say_why(yard: Yard, rest: httpx.Client) -> None:
    template = yard.schedule(interv="n")["id"]
    made = rest.post("/job/", json={"runtemplate_id": template}).json()["id"]
    before = granted(yard.claims, claim_of())
    frozen = freeze(rest, reason="new disk", until="+2h")
    assert frozen == {
        "frozen": True, "reason": "new disk", "since": iso(yard.now),
        "until": iso(yard.now + 2 * HOUR), "by": "root",
    }  # fmt: skip
    assert rest.get(PATH).json() == frozen

    (job,) = (job for job in yard.jobs() if job.id == made)
    claim = yard.of_job(job)
    why = f"maintenance: new disk; nothing starts until {frozen['until']}"
    assert refused(yard.claims, claim) == ("maintenance", "SCHEDULED", why)
    click = claim_of()
    assert refused(yard.claims, click)[0] == "maintenance"
    waiting = rest.get("/jobs.json?state=scheduled").json().values()
    assert [record["waits_for"] for record in waiting] == [why] * 2
    posted = rest.post("/job/", json={"runtemplate_id": template}).json()
    assert posted["waits_for"] == why
    assert report(yard.claims, before)  # what runs goes on

    yard.now += 2 * HOUR
    assert rest.get(PATH).json()["frozen"] is False
    assert granted(yard.claims, claim)["job_id"] == made
    assert granted(yard.claims, click)


def test_the_end_wakes_what_was_told_to_wait(yard: Yard, rest: httpx.Client) -> None:
    yard.schedule(interv="n")
    freeze(rest)
    run = claim_of()
    assert refused(yard.claims, run)[2] == (
        "maintenance; nothing starts until it is ended: jobauto resume"
    )
    (job,) = yard.jobs()
    assert yard.wishes("reschedule_run") == []
    resume(rest)
    assert yard.wishes("reschedule_run") == [job.id]
    assert granted(yard.claims, run)["job_id"] == job.id
    resume(rest)  # nothing is frozen: nothing changes


def test_a_claim_comes_again_at_the_latest_when_the_freeze_ends(
    yard: Yard, rest: httpx.Client
) -> None:
    yard.schedule(interv="n")

    def again() -> datetime:
        answer = yard.claims.post("/claims", json=claim_of()).json()
        return datetime.fromisoformat(answer["refusal"]["story"]["at"])

    freeze(rest, until="+5m")
    assert again() == yard.now + 5 * MINUTE
    freeze(rest, until="+5h")
    assert again() == yard.now + 10 * MINUTE


def test_it_is_the_administrators_and_in_the_audit_trail(
    rest: httpx.Client, yard: Yard, facade_url: str
) -> None:
    visitor = client(f"{facade_url}/api/v1", user_token(yard.ledger, "eve", [Role.EDITOR]))
    assert visitor.get(PATH).json()["frozen"] is False
    assert visitor.put(PATH, json={}).status_code == 403
    assert visitor.delete(PATH).status_code == 403
    freeze(rest, reason="one")
    yard.now += MINUTE
    freeze(rest, reason="two", until=iso(yard.now + HOUR))
    resume(rest)
    entries = rest.get("/auditlog.json?entity_type=Freeze&order=id").json().values()
    assert [entry["action"] for entry in entries] == ["create", "update", "update"]
    assert [entry["actor"] for entry in entries] == ["root"] * 3


def test_one_that_ended_by_itself_is_followed_by_another(yard: Yard, rest: httpx.Client) -> None:
    first = freeze(rest, until="+1h")
    yard.now += 2 * HOUR
    second = freeze(rest, reason="again")
    assert second["since"] == iso(yard.now) != first["since"]
    assert rest.get("/status").json()["maintenance"] == second
    assert {worker["state"] for worker in rest.get("/workers.json").json().values()} == {"frozen"}


@pytest.mark.parametrize("until", ["soon", "+", "25:00", "2020-01-01T00:00:00Z", "+0h"])
def test_an_end_that_is_none_is_an_error(yard: Yard, rest: httpx.Client, until: str) -> None:
    answer = rest.put(PATH, json={"until": until})
    assert answer.status_code == 400
    assert answer.json()["details"][0]["pointer"] == "/until"
    assert rest.get(PATH).json()["frozen"] is False


def test_a_time_of_day_is_the_next_one_of_the_service(yard: Yard, rest: httpx.Client) -> None:
    yard.now = datetime(2026, 5, 4, 12, tzinfo=UTC)
    assert freeze(rest, until="06:30")["until"] == "2026-05-05T06:30:00+00:00"


def test_windows_in_it_are_excused(yard: Yard, rest: httpx.Client) -> None:
    yard.schedule()
    freeze(rest, reason="new disk")
    yard.keep_at(NOON + MINUTE)
    (task,) = yard.tasks()
    assert (task.state, task.reason, task.message) == ("missed", "closed", "maintenance: new disk")
    assert (task.excuse, task.excused_by) == ("maintenance: new disk", "service")
    assert yard.wishes("tell_task") == []  # nobody's alarm rings
    run = yard.by_prefect(NOON)
    _, state, message = refused(yard.claims, run)
    assert state == "CANCELLED"
    assert message == f"the window from {iso(NOON)} is excused: maintenance: new disk"
    # The run that Prefect makes before the keeper looks.
    yard.now = NOON + HOUR
    assert "is excused" in refused(yard.claims, yard.by_prefect(NOON + HOUR))[2]
    resume(rest)
    yard.keep_at(NOON + 2 * HOUR + MINUTE)
    assert yard.states() == [("missed", "closed")] * 2 + [("open", None)]


@pytest.mark.parametrize("until", [None, "+10h"])
def test_the_newest_of_moved_windows_runs_at_the_end(
    yard: Yard, rest: httpx.Client, until: str | None
) -> None:
    yard.schedule(on_closed="move")
    freeze(rest, until=until)
    for hours in range(3):
        yard.keep_at(NOON + hours * HOUR + MINUTE)
    assert yard.tasks() == []
    message = refused(yard.claims, yard.by_prefect(NOON))[2]
    assert message.startswith("maintenance; the window is moved to ")
    yard.now += 30 * MINUTE
    resume(rest)
    yard.keep_at(yard.now + MINUTE / 60)
    assert yard.states() == [("missed", "closed")] * 2 + [("open", None)]
    (job,) = yard.jobs()
    assert yard.tasks()[-1].deadline == job.schedule + HOUR
    assert job.schedule == yard.now
    assert granted(yard.claims, yard.of_job(job))["job_id"] == job.id


def test_moved_windows_run_each_where_all_are_to(yard: Yard, rest: httpx.Client) -> None:
    yard.schedule(on_closed="move", misfire="all")
    freeze(rest, until=iso(NOON + 90 * MINUTE))
    yard.keep_at(NOON + 80 * MINUTE)
    assert yard.tasks() == []
    yard.keep_at(NOON + 90 * MINUTE)
    assert yard.states() == [("open", None)] * 2
    (first,) = yard.jobs()
    yard.ends(granted(yard.claims, yard.of_job(first)))
    yard.keep_at(yard.now)
    assert [job.task_id for job in yard.jobs()] == [task.id for task in yard.tasks()]


def test_what_the_freeze_kept_from_beginning_in_time_is_as_a_window_in_it(
    yard: Yard, rest: httpx.Client
) -> None:
    yard.schedule(deadline_offset="+30m")
    yard.keep_at(NOON)
    freeze(rest, reason="disk")
    yard.keep_at(NOON + 31 * MINUTE)
    (task,) = yard.tasks()
    assert (task.state, task.reason, task.excuse) == ("missed", "closed", "maintenance: disk")
    assert yard.jobs()[0].state == "skipped"


@pytest.mark.parametrize("first", ["keeper", "claim"])
def test_or_it_gets_its_time_after_the_end(yard: Yard, rest: httpx.Client, first: str) -> None:
    yard.schedule(deadline_offset="+30m", on_closed="move")
    yard.keep_at(NOON)
    freeze(rest)
    yard.keep_at(NOON + 50 * MINUTE)
    assert yard.states() == [("open", None)]
    yard.now += 5 * MINUTE
    ended = yard.now
    resume(rest)
    if first == "keeper":
        yard.keep_at(ended)
    (job,) = yard.jobs()
    assert granted(yard.claims, yard.of_job(job))["job_id"] == job.id
    assert yard.tasks()[0].deadline == ended + HOUR


def test_a_forecast_knows_of_the_freeze(yard: Yard, rest: httpx.Client) -> None:
    yard.schedule()
    freeze(rest, reason="disk", until=iso(NOON + 90 * MINUTE))
    first, second, third, *_ = rest.get("/forecast.json?days=1").json()["windows"]
    assert [one["excused"] for one in (first, second, third)] == [True, True, False]
    assert first["closed"] == "maintenance: disk"
    yard.change(on_closed="move")
    first, second, third, *_ = rest.get("/forecast.json?days=1").json()["windows"]
    assert first["excused"]
    assert (second["moved_from"], second["launch_at"]) == (
        iso(NOON + HOUR), iso(NOON + 90 * MINUTE),
    )  # fmt: skip
    assert (third["moved_from"], third["closed"]) == (None, None)
