"""By number: the services hand all schedules over once, when there are more than a thousand."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sqlalchemy import delete, insert

from jobauto_prefect.jobs.windows.schedulers import MOST_OF_PREFECT, follow_scheduler
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.jobs.windows import scheduler_in_charge
from jobauto_prefect.ledger.records import OutboxMessage, RunTemplate
from jobauto_prefect.settings import Scheduler
from tests.support.databases import on_postgresql
from tests.support.ledger_rows import count_lock_waits, entries, fetch
from tests.support.timeline import Timeline
from tests.support.waits import eventually


def follow(timeline: Timeline) -> tuple[Scheduler, int]:
    """Who is in charge after the services have looked; how many templates are to be applied."""
    with timeline.ledger.writing(SERVICE) as session:
        follow_scheduler(session, timeline.settings)
    with timeline.ledger.reading() as session:
        in_charge = scheduler_in_charge(session)
    return in_charge, len(set(timeline.pending_subjects("apply_template")))


def test_by_number_the_window_scheduler_takes_over_above_a_thousand(timeline: Timeline) -> None:
    one = fetch(timeline.ledger, RunTemplate, timeline.schedule()["id"])
    assert follow(timeline) == (Scheduler.PREFECT, 1)  # its own registration
    columns: dict[str, Any] = {
        column.key: getattr(one, column.key) for column in RunTemplate.__table__.columns
    }
    del columns["id"]
    copies = [
        columns | {"name": f"copy {number}", "deployment_id": None}
        for number in range(MOST_OF_PREFECT)
    ]
    with timeline.ledger.engine.execution_options(jobauto_writes=True).begin() as connection:
        connection.execute(insert(RunTemplate.__table__), copies)
        connection.execute(
            insert(RunTemplate.__table__),
            columns
            | {
                "name": "by hand",
                "interv": "n",
                "deployment_id": None,
                "next_window": None,
                "next_schedule": None,
            },
        )
    assert follow(timeline) == (Scheduler.LEDGER, MOST_OF_PREFECT + 1)
    assert follow(timeline) == (Scheduler.LEDGER, MOST_OF_PREFECT + 1)


@on_postgresql
def test_services_that_look_at_once_hand_the_schedules_over_once(timeline: Timeline) -> None:
    timeline.schedule()
    with timeline.ledger.writing(SERVICE) as session:
        session.execute(delete(OutboxMessage))
    settings = timeline.settings.model_copy(update={"scheduler": Scheduler.LEDGER})

    def look() -> None:
        with timeline.ledger.writing(SERVICE) as session:
            follow_scheduler(session, settings)

    with ThreadPoolExecutor(1) as other:
        with timeline.ledger.writing(SERVICE) as session:
            follow_scheduler(session, settings)
            second = other.submit(look)  # it sees the former one in charge
            eventually(lambda: count_lock_waits(timeline.ledger) == 1 or second.done())
        second.result(60)
    assert len(timeline.pending_subjects("apply_template")) == 1
    (entry,) = entries(timeline.ledger, "Scheduler")
    assert (entry.actor, entry.changes) == ("service", {"in_charge": ["prefect", "ledger"]})
