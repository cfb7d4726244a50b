"""A page of the console asks as much of the database for a few records as for a full page."""

from datetime import timedelta

import pytest
from sqlalchemy import inspect

from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import Company, Job, RunTemplate, Task
from tests.support.counted_facade import CountedFacade

FEW, MANY = 10, 60
HOUR = timedelta(hours=1)
STATES = ("scheduled", "running", "failed", "succeeded")

TOTALS = ("SELECT count(*)", "SELECT sum(job_tally")
"""How a statement begins that asks for a total: a page that is the last one needs none."""


async def _count(counted: CountedFacade, path: str) -> list[str]:
    """The statements of a page, once all that is kept for a while is there."""
    for _ in range(2):
        with counted.asked.during():
            answer = await counted.rest.get(f"http://127.0.0.1{path}")
    assert answer.status_code == 200, answer.text
    return list(counted.asked.counted)


def _add_records(counted: CountedFacade, template_id: int, first: int, last: int) -> None:
    """Add companies with a run template each, a window of it, and a job for that."""
    now = counted.ledger.clock()
    with counted.ledger.writing(SERVICE) as session:
        example = session.get_one(RunTemplate, template_id)
        fields = {
            column.key: getattr(example, column.key)
            for column in inspect(RunTemplate).column_attrs
            if column.key not in ("id", "name", "company_id")
        }
        for number in range(first, last):
            company = Company(
                slug=f"c{number}", name=f"C {number}", env={}, secrets={}, notices={},
                notice_secrets={},
            )  # fmt: skip
            session.add(company)
            session.flush()
            template = RunTemplate(**fields, name=f"T {number}", company_id=company.id)
            session.add(template)
            session.flush()
            task = Task(
                runtemplate_id=template.id,
                window_start=now - (number + 1) * HOUR,
                window_end=now - number * HOUR,
                deadline=now + HOUR,
                state="open",
            )
            session.add(task)
            session.flush()
            session.add(
                Job(
                    app_id=template.app_id,
                    company_id=company.id,
                    runtemplate_id=template.id,
                    task_id=task.id,
                    schedule_type="scheduled",
                    executor="Native",
                    schedule=now - number * HOUR,
                    state=STATES[number % len(STATES)],
                )
            )


@pytest.mark.parametrize(
    "path",
    [
        "/console/jobs",
        "/console/jobs?state=scheduled,failed&order=schedule&runtemplate=T",
        "/console/tasks",
        "/console/tasks?state=open&runtemplate=T",
        "/console/tasks/calendar",
        "/console/runtemplates",
    ],
)
async def test_a_page_of_many_records_costs_what_one_of_few_does(
    counted: CountedFacade, path: str
) -> None:
    template = await counted.template()
    _add_records(counted, template, 0, FEW)
    few = await _count(counted, path)
    _add_records(counted, template, FEW, MANY)
    many = await _count(counted, path)
    assert few
    totals = [text for text in many if text.startswith(TOTALS)]
    assert len(totals) <= 1
    assert len(many) - len(totals) == len(few), counted.asked.shown()
