"""What it costs to plan and to apply files, however many records they have."""

import json
from typing import Any

import pytest
from sqlalchemy import select

from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import App
from tests.support.counted_facade import QUIET, CountedFacade
from tests.support.records import ok


def _files(count: int) -> list[dict[str, str]]:
    records = [
        {"kind": "company", "slug": "acme", "name": "Acme"},
        *(
            {"kind": "runtemplate", "company": "acme", "app": "True", "name": f"T{number}"}
            for number in range(count)
        ),
    ]
    return [
        {"name": "true.json", "text": json.dumps(QUIET)},
        {"name": "records.json", "text": json.dumps(records)},
    ]


async def _asked(counted: CountedFacade, count: int, **more: Any) -> Any:
    asked = {"files": _files(count), **more}
    return ok(await counted.rest.post("/apply.json", json=asked))


@pytest.mark.parametrize("count", [2, 40])
async def test_records_again_are_a_few_reads_and_no_write(
    counted: CountedFacade, count: int
) -> None:
    plan = await _asked(counted, count)
    await _asked(counted, count, digest=plan["digest"])
    with counted.ledger.writing(SERVICE) as session:  # as once Prefect knows of it
        session.scalars(select(App)).one().flow_name = "True"
    for _ in range(2):
        with counted.asked.during():
            again = await _asked(counted, count)
    assert again["counts"]["unchanged"] == count + 2
    assert counted.asked.commits == 0
    assert len(counted.asked.counted) <= 16, counted.asked.shown()
    assert not [text for text in counted.asked.executed if text.startswith(("INSERT", "UPDATE"))]


async def test_a_new_run_template_is_a_handful_of_statements(counted: CountedFacade) -> None:
    """What further ones cost, beside what files cost at all, where nobody is asked."""
    costs = []
    for count in (5, 6, 16):
        with counted.asked.during():
            await _asked(counted, count, auto_approve=True)
        costs.append(len(counted.asked.counted))
        assert counted.asked.commits <= 3
    assert (costs[2] - costs[1]) / 9 < 6, counted.asked.shown()


async def test_an_application_is_read_once_for_all_companies_with_values(
    counted: CountedFacade,
) -> None:
    """Which of their values are secret is what its definition says."""
    named = {"environment": {"TOKEN": {"type": "password"}, "PORT": {"type": "string"}}}
    env = {"TOKEN": "s3cret token", "PORT": "5432"}
    records = [
        {"kind": "company", "slug": f"c{number}", "name": "Company", "env": {"PORT": env["PORT"]}}
        for number in range(10)
    ]
    ok(await counted.rest.post("/app/", json={**QUIET, **named}), 201)
    with counted.asked.during():
        files = [{"name": "records.json", "text": json.dumps(records)}]
        ok(await counted.rest.post("/apply.json", json={"files": files, "auto_approve": True}))
    reads = [text for text in counted.asked.executed if "app.document" in text]
    assert len(reads) <= 3, counted.asked.shown()  # 12, if each company read it
    body = {"slug": "d", "name": "D", "env": env}
    company = ok(await counted.rest.post("/company/", json=body), 201)
    assert company["env"]["PORT"] == env["PORT"]
    assert env["TOKEN"] not in json.dumps(company)
