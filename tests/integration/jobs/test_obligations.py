"""Windows, tasks and attempts in the ledger, at times that the test sets."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, Self
from uuid import uuid4

import pytest
from sqlalchemy import event, insert, inspect, select

from jobauto_prefect.jobs.windows.due_windows import follow_zone
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import Job, RunTemplate, Task
from jobauto_prefect.ledger.store import Ledger
from tests.support.claims import (
    claim_of,
    granted,
    refused,
)
from tests.support.databases import both_databases
from tests.support.ledger_rows import fetch_all
from tests.support.records import make_template
from tests.support.secrets import SECRET
from tests.support.timeline import HOUR, MINUTE, NOON, Record, Timeline


@both_databases
@pytest.mark.spec("1.5")
def test_a_window_has_one_task_of_all_who_open_it(timeline: Timeline) -> None:
    timeline.schedule()
    timeline.keep_at(NOON - MINUTE)
    assert timeline.tasks() == []
    timeline.keep_at(NOON)
    timeline.keep_at(NOON)
    (task,) = timeline.tasks()
    assert (task.window_start, task.window_end) == (NOON, NOON + HOUR)
    assert timeline.pending_subjects("create_run") == []  # Prefect's schedule makes this run
    launch = granted(timeline.claims, timeline.by_prefect(NOON))
    assert launch["task_id"] == task.id
    by_hand = claim_of(parameters={"jobauto": {"task": task.id}})
    copied = claim_of(parameters={"jobauto": {"job": timeline.jobs()[0].id}})
    for duplicate in (timeline.by_prefect(NOON), by_hand, copied):
        assert refused(timeline.claims, duplicate)[1] == "CANCELLED"
    timeline.ends(launch, exit_code=0)
    timeline.now = NOON + HOUR  # the next run comes before the keeper
    assert granted(timeline.claims, timeline.by_prefect(NOON + HOUR))["task_id"] != task.id
    timeline.keep_at(NOON + HOUR)
    assert len(timeline.tasks()) == len(timeline.jobs()) == 2


@both_databases
def test_the_claim_of_a_window_asked_again_gets_the_same_launch(timeline: Timeline) -> None:
    timeline.schedule()
    timeline.keep_at(NOON)
    claim = timeline.by_prefect(NOON)
    launch = granted(timeline.claims, claim)
    assert launch["environment"]["JOBAUTO_ATTEMPT"] == "1"
    assert granted(timeline.claims, claim) == launch


def test_a_run_for_no_window_is_refused(timeline: Timeline) -> None:
    timeline.schedule()
    timeline.now = NOON + MINUTE
    for instant in (NOON + 17 * MINUTE - HOUR, NOON - HOUR):  # no boundary; before it began
        assert refused(timeline.claims, timeline.by_prefect(instant))[:2] == (
            "not_owed",
            "CANCELLED",
        )
    assert refused(timeline.claims, timeline.by_prefect(NOON + HOUR))[:2] == ("early", "SCHEDULED")


def test_a_delay_moves_the_launch_and_not_the_window(timeline: Timeline) -> None:
    timeline.schedule(delay=600)
    timeline.keep_at(NOON + 5 * MINUTE)
    assert timeline.tasks() == []
    timeline.keep_at(NOON + 10 * MINUTE)
    (task,), (job,) = timeline.tasks(), timeline.jobs()
    assert (task.window_start, job.schedule) == (NOON, NOON + 10 * MINUTE)
    assert timeline.pending_subjects("create_run") == [job.id]


@both_databases
@pytest.mark.spec("1.6")
@pytest.mark.parametrize(
    ("members", "after", "exit_code", "ends"),
    [
        ({}, MINUTE, 0, ("fulfilled", "outcome")),
        ({}, MINUTE, 2, ("fulfilled", "outcome")),
        ({}, MINUTE, 5, ("failed", "outcome")),
        ({}, 2 * HOUR, 0, ("failed", "deadline")),
        ({"allow_late": True}, 2 * HOUR, 0, ("fulfilled_late", "deadline")),
        ({"deadline_offset": "+5m"}, 6 * MINUTE, 0, ("failed", "deadline")),
        ({"deadline_offset": "13:30"}, 80 * MINUTE, 0, ("fulfilled", "outcome")),
    ],
)
def test_the_last_attempt_settles_the_task(
    timeline: Timeline, members: Record, after: timedelta, exit_code: int, ends: tuple[str, str]
) -> None:
    timeline.schedule(**members)
    timeline.keep_at(NOON)
    timeline.ends(granted(timeline.claims, timeline.by_prefect(NOON)), after, exit_code=exit_code)
    (task,) = timeline.tasks()
    assert (task.state, task.reason) == ends
    assert (task.fulfilled_at is None) == (task.state == "failed")
    assert bool(timeline.pending_subjects("tell_task")) == (task.state == "failed")


@pytest.mark.spec("1.6", "2.1.49", "7.3")
def test_codes_that_say_so_are_tried_again_until_the_budget_is_spent(timeline: Timeline) -> None:
    timeline.schedule(retry_backoff="linear", retry_min_gap=60)
    timeline.keep_at(NOON)
    claim = timeline.by_prefect(NOON)
    waits = []
    for attempt in (1, 2, 3):
        launch = granted(timeline.claims, claim)
        assert launch["attempt"] == attempt
        timeline.ends(launch, exit_code=8)
        job = timeline.jobs()[-1]
        waits.append((job.schedule - timeline.now, job.schedule_type))
        timeline.now = max(timeline.now, job.schedule)
        claim = timeline.of_job(job)
    assert waits[:2] == [(MINUTE, "retry"), (2 * MINUTE, "retry")]
    assert timeline.states() == [("failed", "attempts")]
    assert [job.state for job in timeline.jobs()] == ["failed"] * 3
    assert "attempt 3 of 3" in (timeline.tasks()[0].message or "")


def test_no_attempt_begins_after_the_deadline(timeline: Timeline) -> None:
    timeline.schedule(retry_min_gap=7200)
    timeline.keep_at(NOON)
    timeline.ends(granted(timeline.claims, timeline.by_prefect(NOON)), exit_code=8)
    assert timeline.states() == [("failed", "deadline")]


def test_undeclared_codes_and_timeouts_follow_the_template(timeline: Timeline) -> None:
    timeline.schedule(retry_undeclared=True, max_attempts=2)
    timeline.keep_at(NOON)
    timeline.ends(granted(timeline.claims, timeline.by_prefect(NOON)), exit_code=77)
    retry = timeline.jobs()[-1]
    timeline.ends(granted(timeline.claims, timeline.of_job(retry)), ending="timeout", exit_code=143)
    assert timeline.states() == [("failed", "attempts")]


def test_jobs_without_a_task_are_tried_again_alike(timeline: Timeline) -> None:
    timeline.schedule(interv="n")
    first = granted(timeline.claims, claim_of(parameters={"GREETING": "mine"}))
    timeline.ends(first, exit_code=8)
    second = timeline.jobs()[-1]
    assert (second.retry_of, second.attempt, second.state) == (first["job_id"], 2, "scheduled")
    launch = granted(timeline.claims, timeline.of_job(second))
    assert launch["environment"]["GREETING"] == "mine"
    timeline.ends(launch, exit_code=8)
    third = timeline.jobs()[-1]
    assert (third.retry_of, third.attempt) == (first["job_id"], 3)
    timeline.ends(granted(timeline.claims, timeline.of_job(third)), exit_code=8)
    assert len(timeline.jobs()) == 3


def test_a_lost_attempt_waits_for_the_word_of_its_worker(timeline: Timeline) -> None:
    timeline.schedule()
    timeline.keep_at(NOON)
    launch = granted(timeline.claims, timeline.by_prefect(NOON))
    timeline.loses(launch)
    assert timeline.states() == [("running", None)]
    assert [job.state for job in timeline.jobs()] == ["lost"]
    assert timeline.renewal(launch) == {}  # it may go on
    timeline.ends(launch, ending="lost", exit_code=None)
    assert [job.state for job in timeline.jobs()] == ["lost", "scheduled"]
    # Until the next attempt is granted, the truth still counts.
    assert timeline.ends(launch, exit_code=0)["recorded"] is True
    assert timeline.states() == [("fulfilled", "outcome")]
    assert [job.state for job in timeline.jobs()] == ["succeeded", "skipped"]


@both_databases
def test_a_lost_attempt_is_given_up_after_its_timeout_and_fenced_by_the_next(
    timeline: Timeline,
) -> None:
    timeline.schedule(timeout_seconds=600)
    timeline.keep_at(NOON)
    launch = granted(timeline.claims, timeline.by_prefect(NOON))
    timeline.loses(launch)
    timeline.keep_at(NOON + 10 * MINUTE)
    assert len(timeline.jobs()) == 1
    timeline.keep_at(NOON + 12 * MINUTE)
    timeline.keep_at(NOON + 12 * MINUTE)
    retry = timeline.jobs()[-1]
    assert (len(timeline.jobs()), retry.state, retry.attempt) == (2, "scheduled", 2)
    second = granted(timeline.claims, timeline.of_job(retry))
    assert timeline.renewal(launch) != {}
    assert timeline.ends(launch, exit_code=0)["recorded"] is False
    assert timeline.states() == [("running", None)]
    timeline.ends(second, exit_code=0)
    assert timeline.states() == [("fulfilled", "outcome")]
    assert [job.state for job in timeline.jobs()] == ["lost", "succeeded"]


def lost_with_its_machine(timeline: Timeline, back_at: datetime, **members: Any) -> None:
    """The attempt of the window of noon is lost; its machine and the service come back later."""
    timeline.schedule(**members)
    timeline.keep_at(NOON)
    launch = granted(timeline.claims, timeline.by_prefect(NOON))
    timeline.keep_at(back_at)
    timeline.ends(launch, ending="lost", exit_code=None, message="the machine died")


def test_a_window_whose_attempt_died_with_the_machine_gets_its_next_one_where_all_are_to_run(
    timeline: Timeline,
) -> None:
    lost_with_its_machine(timeline, NOON + 150 * MINUTE, misfire="all")
    again = timeline.jobs()[-1]
    assert (again.state, again.attempt, again.schedule) == ("scheduled", 2, timeline.now)
    timeline.keep_at(timeline.now + 3 * HOUR)  # and nothing could run it for long
    launch = granted(timeline.claims, timeline.of_job(again))
    timeline.ends(launch, exit_code=0)
    assert timeline.states()[0] == ("fulfilled", "outcome")
    assert [state for state, _ in timeline.states()[1:]].count("open") == len(timeline.tasks()) - 1


@pytest.mark.parametrize(
    ("members", "tried"),
    [
        ({"misfire": "latest", "allow_late": True}, True),
        ({"misfire": "latest"}, False),
        ({"misfire": "skip", "allow_late": True}, False),
    ],
)
def test_the_newest_window_may_be_late_where_its_template_says_so(
    timeline: Timeline, members: Record, tried: bool
) -> None:
    # The launch of the window after it is due ten minutes after its own end.
    timeline.schedule(delay=600, deadline_offset="+30m", **members)
    timeline.keep_at(NOON + 10 * MINUTE)
    launch = granted(timeline.claims, timeline.of_job(timeline.jobs()[0]))
    timeline.keep_at(NOON + 65 * MINUTE)
    timeline.ends(launch, ending="lost", exit_code=None, message="the machine died")
    assert [job.state for job in timeline.jobs()] == ["lost", *(["scheduled"] if tried else [])]
    (task,) = timeline.tasks()
    if not tried:
        assert (task.state, task.reason) == ("failed", "deadline")
        assert "the machine died" in (task.message or "")


def test_an_older_window_is_not_caught_up_where_only_the_newest_is(timeline: Timeline) -> None:
    lost_with_its_machine(timeline, NOON + 150 * MINUTE, misfire="latest", allow_late=True)
    assert timeline.states()[0] == ("failed", "deadline")


def test_a_task_that_lapses_after_an_attempt_says_how_that_ended(timeline: Timeline) -> None:
    lost_with_its_machine(timeline, NOON + 30 * MINUTE)
    assert timeline.jobs()[-1].state == "scheduled"
    timeline.keep_at(NOON + HOUR + MINUTE)
    first = timeline.tasks()[0]
    assert (first.state, first.reason) == ("failed", "deadline")
    assert "attempt 1: lost: the machine died" in (first.message or "")
    assert "no attempt could begin" not in (first.message or "")


def test_a_job_that_stops_without_contact_is_followed_soon(timeline: Timeline) -> None:
    timeline.schedule(on_contact_lost="stop")
    timeline.keep_at(NOON)
    launch = granted(timeline.claims, timeline.by_prefect(NOON))
    assert launch["stop_without_contact"] is True
    timeline.loses(launch)
    retry = timeline.jobs()[-1]
    assert retry.schedule >= timeline.now + timedelta(seconds=timeline.settings.lease_seconds)
    assert timeline.renewal(launch) != {}
    assert timeline.ends(launch, exit_code=0)["recorded"] is False


def test_a_retry_clicked_in_prefect_is_a_new_attempt_until_the_task_has_ended(
    timeline: Timeline,
) -> None:
    timeline.schedule(retry_min_gap=600)
    timeline.keep_at(NOON)
    run = uuid4()
    timeline.ends(
        granted(timeline.claims, timeline.by_prefect(NOON, flow_run_id=str(run))), exit_code=8
    )
    again = granted(timeline.claims, claim_of(run, run_number=2))
    assert again["attempt"] == 2
    assert [job.state for job in timeline.jobs()] == ["failed", "skipped", "running"]
    timeline.ends(again, exit_code=0)
    reason, state, message = refused(timeline.claims, claim_of(run, run_number=3))
    assert (reason, state) == ("task_ended", "COMPLETED")
    assert "jobauto task retry" in message


@both_databases
def test_windows_wait_for_each_other_unless_the_template_says_otherwise(timeline: Timeline) -> None:
    timeline.schedule()
    timeline.keep_at(NOON)
    first = granted(timeline.claims, timeline.by_prefect(NOON))
    timeline.keep_at(NOON + HOUR)
    claim = timeline.by_prefect(NOON + HOUR)
    assert refused(timeline.claims, claim)[:2] == ("overlap", "SCHEDULED")
    timeline.ends(first, exit_code=0)
    assert timeline.pending_subjects("reschedule_run") == [timeline.jobs()[-1].id]
    second = granted(timeline.claims, claim | {"claim_id": str(uuid4())})
    timeline.change(overlap="skip")
    timeline.keep_at(NOON + 2 * HOUR)
    assert timeline.states()[-1] == ("missed", "overlap")
    timeline.change(overlap="parallel")
    timeline.keep_at(NOON + 3 * HOUR)
    granted(timeline.claims, timeline.by_prefect(NOON + 3 * HOUR))
    timeline.ends(second, exit_code=0)


@both_databases
@pytest.mark.parametrize(
    ("misfire", "expected"),
    [
        ("latest", [("missed", "misfire")] * 3 + [("open", None)]),
        ("skip", [("missed", "misfire")] * 4),
        ("all", [("open", None)] * 4),
    ],
)
def test_windows_that_passed_get_their_tasks(
    timeline: Timeline, misfire: str, expected: list[tuple[str, str | None]]
) -> None:
    timeline.schedule(misfire=misfire)
    timeline.keep_at(NOON + 3 * HOUR + 50 * MINUTE)
    assert timeline.states() == expected
    assert len(timeline.pending_subjects("tell_task")) == expected.count(("missed", "misfire"))
    caught_up = [(job.schedule, job.state) for job in timeline.jobs()]
    assert caught_up == [(timeline.now, "scheduled")] * (misfire != "skip")
    if misfire == "latest":
        assert timeline.tasks()[-1].deadline == timeline.now + HOUR
    # The run that Prefect made before it went away comes late for a window that was missed.
    if misfire != "all":
        assert refused(timeline.claims, timeline.by_prefect(NOON))[1] == "CANCELLED"


@both_databases
def test_all_missed_windows_run_in_their_order_one_at_a_time(timeline: Timeline) -> None:
    timeline.schedule(misfire="all")
    timeline.keep_at(NOON + 2 * HOUR + 50 * MINUTE)
    for count in (1, 2, 3):
        assert len(timeline.jobs()) == count
        timeline.ends(granted(timeline.claims, timeline.of_job(timeline.jobs()[-1])), exit_code=0)
        timeline.keep_at(timeline.now)
    assert timeline.states() == [("fulfilled", "outcome")] * 3


@both_databases
def test_a_window_nobody_began_is_missed_at_its_deadline(timeline: Timeline) -> None:
    timeline.schedule()
    timeline.keep_at(NOON)
    timeline.keep_at(NOON + HOUR)
    assert timeline.states()[0] == ("open", None)
    timeline.keep_at(NOON + HOUR + MINUTE)
    assert timeline.states() == [("missed", "deadline"), ("open", None)]
    assert [job.state for job in timeline.jobs()] == ["skipped", "scheduled"]
    assert refused(timeline.claims, timeline.by_prefect(NOON))[1] == "CANCELLED"


@both_databases
def test_changing_a_template_neither_adds_nor_loses_a_window(timeline: Timeline) -> None:
    timeline.schedule()
    timeline.now = NOON + MINUTE  # the keeper has not come to noon yet
    timeline.change(interv="c", cron="*/30 * * * *")
    assert [task.window_start for task in timeline.tasks()] == [NOON]
    for _ in range(3):
        timeline.change(note="again")
    timeline.keep_at(NOON + 30 * MINUTE)
    timeline.keep_at(NOON + 30 * MINUTE)
    assert [task.window_start for task in timeline.tasks()] == [NOON, NOON + 30 * MINUTE]


@both_databases
def test_switching_off_ends_what_has_not_begun_and_on_begins_with_the_next(
    timeline: Timeline,
) -> None:
    timeline.schedule(deadline_offset="+5h")
    timeline.keep_at(NOON)
    running = granted(timeline.claims, timeline.by_prefect(NOON))
    timeline.keep_at(NOON + HOUR)
    timeline.bind(timeline.jobs()[-1])
    timeline.change(active=False)
    assert timeline.states() == [("running", None), ("missed", "inactive")]
    assert timeline.pending_subjects("cancel_run") == [timeline.jobs()[-1].id]
    timeline.keep_at(NOON + 3 * HOUR)
    timeline.ends(running, exit_code=8)
    assert timeline.states()[0] == ("failed", "inactive")
    timeline.change(active=True)
    timeline.keep_at(NOON + 5 * HOUR)
    assert [task.window_start for task in timeline.tasks()][2:] == [
        NOON + 4 * HOUR,
        NOON + 5 * HOUR,
    ]


def test_a_company_that_is_switched_off_stops_its_schedules(timeline: Timeline) -> None:
    timeline.schedule()
    for enabled, count in ((False, 0), (True, 1)):
        timeline.rest.post(
            "/company/", json={"slug": "acme", "enabled": enabled}
        ).raise_for_status()
        timeline.keep_at(timeline.now + HOUR)
        assert len(timeline.tasks()) == count


@both_databases
def test_a_template_may_go_while_a_window_waits(timeline: Timeline) -> None:
    timeline.schedule()
    timeline.keep_at(NOON)
    number = timeline.template["id"]
    assert timeline.rest.delete(f"/runtemplate/{number}.json").status_code == 200
    assert timeline.states() == [("missed", "inactive")]
    timeline.keep_at(NOON + HOUR)
    assert len(timeline.tasks()) == 1


def test_a_cancelled_attempt_ends_its_task(timeline: Timeline) -> None:
    timeline.schedule()
    timeline.keep_at(NOON)
    (job,) = timeline.jobs()
    body = {"id": job.id, "state": "cancelled", "reason": "not today"}
    timeline.rest.post("/job/", json=body).raise_for_status()
    assert timeline.states() == [("failed", "cancelled")]


def test_a_running_attempt_that_is_cancelled_ends_its_task_also_where_its_worker_is_silent(
    timeline: Timeline,
) -> None:
    timeline.schedule(timeout_seconds=600)
    timeline.keep_at(NOON)
    launch = granted(timeline.claims, timeline.by_prefect(NOON))
    body = {"id": launch["job_id"], "state": "cancelled", "reason": "not today"}
    timeline.rest.post("/job/", json=body).raise_for_status()
    timeline.loses(launch)
    assert [job.state for job in timeline.jobs()] == ["lost"]  # its process may live
    timeline.keep_at(NOON + 12 * MINUTE)
    timeline.keep_at(NOON + 12 * MINUTE)
    assert timeline.states() == [("failed", "cancelled")]
    (job,) = timeline.jobs()
    assert (job.state, job.message) == (
        "cancelled",
        "cancelled: not today; its worker fell silent",
    )


def test_an_attempt_that_can_not_start_ends_its_task(timeline: Timeline) -> None:
    timeline.schedule()
    timeline.keep_at(NOON)
    timeline.change(env={"COUNT": ""})
    assert refused(timeline.claims, timeline.by_prefect(NOON))[:2] == ("invalid_launch", "FAILED")
    assert timeline.states() == [("failed", "blocked")]
    assert [job.state for job in timeline.jobs()] == ["blocked"]


def test_a_task_whose_template_was_switched_off_as_it_was_to_be_claimed_is_not_to_blame(
    timeline: Timeline,
) -> None:
    timeline.schedule()
    timeline.keep_at(NOON)
    with timeline.ledger.writing(SERVICE) as session:  # who switched it off saw no open task
        session.get_one(RunTemplate, timeline.template["id"]).active = False
    assert refused(timeline.claims, timeline.by_prefect(NOON))[:2] == ("inactive", "FAILED")
    assert timeline.states() == [("failed", "inactive")]
    assert [job.state for job in timeline.jobs()] == ["blocked"]


@both_databases
def test_an_operator_may_have_a_missed_window_tried_once_more(timeline: Timeline) -> None:
    timeline.schedule(env={"PASSWORD": SECRET})
    timeline.keep_at(NOON)
    (task,) = timeline.tasks()
    assert timeline.rest.post(f"/task/{task.id}/retry.json").status_code == 409
    timeline.keep_at(NOON + HOUR + MINUTE)
    assert timeline.states()[0] == ("missed", "deadline")
    answer = timeline.rest.post(f"/task/{task.id}/excuse.json", json={"why": "the bank was closed"})
    assert (answer.json()["excuse"], answer.json()["state"]) == ("the bank was closed", "missed")
    job = timeline.rest.post(f"/task/{task.id}/retry.json").raise_for_status().json()
    assert (job["task_id"], job["attempt"], job["schedule_type"]) == (task.id, 1, "retry")
    record = next(one for one in timeline.jobs() if one.id == job["id"])
    timeline.ends(granted(timeline.claims, timeline.of_job(record)), exit_code=0)
    shown = timeline.rest.get(f"/task/{task.id}.json").raise_for_status().json()
    assert (shown["state"], shown["reason"], shown["excuse"]) == ("fulfilled", "outcome", None)
    assert [one["state"] for one in shown["jobs"]] == ["skipped", "succeeded"]
    assert shown["jobs"][1]["env"]["PASSWORD"] == "********"
    refusal = timeline.rest.post(f"/task/{task.id}/excuse.json", json={"why": "x"})
    assert refusal.status_code == 409
    entries = timeline.rest.get("/auditlog.json", params={"entity_type": "Task"}).json().values()
    assert {"rest", "service", "worker"} <= {entry["door"] for entry in entries}


@both_databases
def test_a_schedule_that_can_not_be_read_any_more_stops_no_other(timeline: Timeline) -> None:
    timeline.schedule()
    body = {
        "app_id": timeline.template["app_id"],
        "company": "acme",
        "name": "other",
        "interv": "h",
    }
    other = timeline.rest.post("/runtemplate/", json=body).raise_for_status().json()
    with timeline.ledger.writing(SERVICE) as session:
        broken = session.get_one(RunTemplate, timeline.template["id"])
        broken.kept_schedule = "0 * * * *|Atlantis/Center|0"
    timeline.keep_at(NOON)
    assert [task.runtemplate_id for task in timeline.tasks()] == [other["id"]]


def test_a_lost_run_without_a_task_is_not_started_beside_its_process(timeline: Timeline) -> None:
    timeline.schedule(interv="n")
    run = uuid4()
    launch = granted(timeline.claims, claim_of(run))
    timeline.loses(launch)
    assert refused(timeline.claims, claim_of(run, run_number=2))[:2] == ("unheard", "CRASHED")
    timeline.ends(launch, ending="lost", exit_code=None)
    granted(timeline.claims, claim_of(run, run_number=2))
    assert timeline.ends(launch, exit_code=0)["recorded"] is False
    entries = timeline.rest.get("/auditlog.json", params={"action": "refuse"}).json().values()
    assert ["report"] in [list(entry["changes"]) for entry in entries]


class Counted:
    """The statements a ledger's database is given meanwhile."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine
        self.statements: list[str] = []

    def __enter__(self) -> Self:
        event.listen(self._engine, "before_cursor_execute", self._count)
        return self

    def __exit__(self, *_: object) -> None:
        event.remove(self._engine, "before_cursor_execute", self._count)

    def _count(self, _connection: object, _cursor: object, statement: str, *_: object) -> None:
        # SQLite can't say the ids of rows that are inserted together: there each has its own.
        left_out = ("BEGIN", "INSERT") if self._engine.name == "sqlite" else ("BEGIN",)
        if not statement.startswith(left_out):
            self.statements.append(statement)


def test_templates_follow_the_services_zone_where_they_have_none(timeline: Timeline) -> None:
    timeline.schedule(interv="d")
    make_template(timeline.rest, name="Own", interv="d", timezone="Asia/Tokyo")
    before = Counter(timeline.pending_subjects("apply_template"))
    elsewhere = timeline.settings.model_copy(update={"timezone": "America/New_York"})
    for _ in range(2):
        follow_zone(timeline.ledger, elsewhere)

    following, fixed = fetch_all(timeline.ledger, RunTemplate)
    assert following.next_window == datetime(2026, 5, 5, 4, tzinfo=UTC)
    assert fixed.next_window == datetime(2026, 5, 4, 15, tzinfo=UTC)
    assert Counter(timeline.pending_subjects("apply_template")) - before == {following.id: 1}


@both_databases
@pytest.mark.parametrize("number", [1_000, pytest.param(10_000, marks=pytest.mark.soak)])
def test_a_minute_of_many_templates_costs_a_bounded_number_of_queries(
    timeline: Timeline, number: int
) -> None:
    made = timeline.schedule(interv="i")
    with timeline.ledger.engine.execution_options(jobauto_writes=True).begin() as connection:
        columns = inspect(RunTemplate).local_table
        model = connection.execute(select(columns).where(columns.c.id == made["id"])).one()
        others = [
            {**model._mapping, "id": made["id"] + count, "name": str(count)}
            for count in range(1, number)
        ]
        connection.execute(insert(columns), others)
    due = NOON - 29 * MINUTE
    with Counted(timeline.ledger) as counted:
        timeline.keep_at(due)
    with timeline.ledger.reading() as session:
        assert session.scalars(select(Task.window_start)).all() == [due] * number
        assert session.scalars(select(Job.state)).all() == ["scheduled"] * number
    assert len(counted.statements) < number / 20
