"""The matcher finds what it is there to find."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobauto_prefect.compiler import Window
from jobauto_prefect.ledger.records import Task
from tests.support.simulation.matcher import Outage, Process, Verdict, match

NOON, HOUR, MINUTE = datetime(2026, 5, 4, 12, tzinfo=UTC), timedelta(hours=1), timedelta(minutes=1)
WINDOW = Window(NOON, NOON + HOUR, NOON)


def task(**members: Any) -> Task:
    given = {
        "id": 7,
        "runtemplate_id": 1,
        "window_start": NOON,
        "window_end": NOON + HOUR,
        "deadline": NOON + HOUR,
        "created_at": NOON,
        "state": "fulfilled",
        "reason": "outcome",
        "attempts": 1,
    }
    return Task(**given | members)


def process(begun: datetime = NOON, **members: Any) -> Process:
    given = {
        "template_id": 1,
        "task_id": 7,
        "job_id": 3,
        "started": begun,
        "exit_code": 0,
        "fulfils": True,
        "ended": begun + MINUTE,
        "settled_at": begun + MINUTE,
    }
    return Process(**given | members)  # type: ignore[arg-type]


def judged(
    tasks: list[Task], processes: list[Process], outages: tuple[Outage, ...] = ()
) -> Verdict:
    return match({1: [WINDOW]}, tasks, processes, outages, parallel=set())


def faults(verdict: Verdict) -> tuple[int, int, int]:
    return len(verdict.missed), len(verdict.extra), len(verdict.unfinished)


def test_a_window_with_its_task_and_its_process_is_right() -> None:
    assert faults(judged([task()], [process()])) == (0, 0, 0)


def test_a_window_without_a_task_is_missed() -> None:
    assert faults(judged([], [])) == (1, 0, 0)


@pytest.mark.parametrize(
    "members",
    [
        {"state": "missed", "reason": None, "attempts": 0},
        {"state": "missed", "reason": "misfire", "attempts": 0},
        {"state": "missed", "reason": "deadline", "attempts": 0},
        {"state": "missed", "reason": "overlap", "attempts": 0},
        {"state": "failed", "reason": "attempts", "attempts": 0},
        {"attempts": 0},
    ],
)
def test_an_end_that_nothing_explains_is_missed(members: dict[str, Any]) -> None:
    assert faults(judged([task(**members)], [])) == (1, 0, 0)


def test_an_outage_explains_a_missed_window() -> None:
    away = Outage("services", NOON - MINUTE, NOON + 30 * MINUTE)
    missed = task(state="missed", reason="misfire", attempts=0)
    assert faults(judged([missed], [], (away,))) == (0, 0, 0)


def test_what_is_not_owed_is_extra() -> None:
    other = task(id=8, window_start=NOON + MINUTE)
    assert faults(judged([task(), other], [process()])) == (0, 1, 0)
    assert faults(judged([task(), task(id=8, attempts=0)], [process()]))[1] == 1
    assert faults(judged([task()], [process(), process(NOON + 9 * MINUTE)])) == (0, 1, 0)
    assert faults(judged([task()], [process(), process(task_id=None, template_id=2)])) == (0, 1, 0)


def test_processes_of_one_task_or_template_at_once_are_extra() -> None:
    twice = [process(), process(NOON, job_id=4)]
    assert faults(judged([task(attempts=2)], twice))[1] == 2


def test_what_does_not_end_is_unfinished() -> None:
    assert faults(judged([task(state="running", reason=None)], [process()]))[2] == 1


def test_a_success_in_time_needs_a_process_that_did_it_in_time() -> None:
    assert faults(judged([task()], [process(fulfils=False)]))[0] == 1
    late = process(ended=NOON + 2 * HOUR)
    assert faults(judged([task()], [late]))[0] == 1
