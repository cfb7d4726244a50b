"""What a ledger of before owners becomes: a record that one company uses is that company's."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from jobauto_prefect.ledger.database import migration
from tests.support.databases import KINDS
from tests.support.former_ledger import Rows, former_ledger, version_before


@pytest.fixture(params=KINDS)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sa.Engine]:
    """A database of the version whose records had no owners."""
    with former_ledger(request.param, tmp_path, version_before("owners")) as engine:
        yield engine


def test_a_record_that_one_company_uses_becomes_that_companys(engine: sa.Engine) -> None:
    now = datetime.now(UTC)
    with engine.execution_options(jobauto_writes=True).begin() as connection:
        rows = Rows(connection)
        here, there = (rows.add("company", slug=slug, name=slug) for slug in ("here", "there"))
        apps = {
            name: rows.add("app", name=name, document={"requirements": [f"of {name}"]})
            for name in ("one", "both", "none", "retired", "waiting", "over")
        }
        template = {
            (name, company): rows.add(
                "runtemplate", app_id=apps[name], company_id=company, name=f"{name} {company}"
            )
            for name, company in (
                ("one", here), ("both", here), ("both", there), ("retired", here),
                ("waiting", here), ("over", here),
            )
        }  # fmt: skip
        rows.add(
            "runtemplate", app_id=apps["retired"], company_id=there, name="gone", retired_at=now
        )
        for name, state in (("waiting", "scheduled"), ("over", "succeeded")):
            rows.add(
                "job", app_id=apps[name], company_id=there, state=state,
                runtemplate_id=template["both", there],
            )  # fmt: skip
        topics = {name: rows.add("topic", name=f"of {name}") for name in apps}
        types = {code: rows.add("credential_type", code=code) for code in ("one", "both", "none")}
        for code, company in (("one", here), ("both", here), ("both", there)):
            rows.add("credential", name=code, company_id=company, credential_type_id=types[code])
    migration.upgrade(engine)
    with engine.connect() as connection:
        for table, records in (("app", apps), ("topic", topics), ("credential_type", types)):
            found = connection.execute(sa.text(f"SELECT id, company_id FROM {table}"))
            owners = {row[0]: row[1] for row in found}
            assert {name for name, number in records.items() if owners[number] == here} == (
                {"one", "over"} & set(records)
            )
            assert there not in owners.values()
        entries = connection.execute(
            sa.text("SELECT entity_type, entity_id, company_id, action, actor FROM audit_entry")
        ).all()
    given = {("App", apps["one"]), ("App", apps["over"]), ("CredentialType", types["one"])}
    given |= {("Topic", topics["one"]), ("Topic", topics["over"])}
    assert {(one[0], one[1]) for one in entries} == given
    assert {tuple(one[2:]) for one in entries} == {(here, "update", "service")}
    assert len(entries) == len(given)
