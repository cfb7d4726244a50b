"""Whom rules and actions of before rest on: who last wrote what they tell, as the trail has it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from jobauto_prefect.ledger.database import migration
from jobauto_prefect.ledger.records import EventRule, RunTemplate
from tests.support.databases import KINDS
from tests.support.former_ledger import Rows, former_ledger, version_before


@pytest.fixture(params=KINDS)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sa.Engine]:
    """A database of the version whose rules and actions named nobody."""
    with former_ledger(request.param, tmp_path, version_before("vouchers")) as engine:
        yield engine


def test_rules_and_actions_rest_on_who_wrote_what_they_tell(engine: sa.Engine) -> None:
    wrote: dict[str, list[tuple[str, int | None, dict[str, Any]]]] = {
        "mapped": [("create", 1, {"on": 1}), ("update", 2, {"env_mapping": 1, "enabled": 1})],
        "disabled": [("create", 1, {"on": 1}), ("update", 2, {"enabled": 1})],
        "operator": [("create", 1, {"on": 1}), ("update", None, {"on": 1})],
        "archived": [],
    }
    with engine.execution_options(jobauto_writes=True).begin() as connection:
        rows = Rows(connection)
        company = rows.add("company", slug="acme", name="Acme")
        app = rows.add("app", name="probe", document={})
        template = rows.add("runtemplate", app_id=app, company_id=company, name="t")
        rules = {
            name: rows.add("event_rule", runtemplate_id=template, env_mapping="{}")
            for name in wrote
        }

        def entry(kind: str, record: int, action: str, user: int | None, changes: Any) -> None:
            rows.add(
                "audit_entry", entity_type=kind, entity_id=record, user_id=user, action=action,
                changes={name: [None, 1] for name in changes}, created_at=datetime.now(UTC),
            )  # fmt: skip

        for name, entries in wrote.items():
            for action, user, changes in entries:
                entry("EventRule", rules[name], action, user, changes)
        for user, fields in ((1, {"success", "fail"}), (2, {"fail"}), (3, {"name"}), (4, {"env"})):
            entry("RunTemplate", template, "update", user, fields)
    migration.upgrade(engine)
    with sa.orm.Session(engine) as session:
        written = {name: session.get_one(EventRule, rules[name]).written_by for name in wrote}
        assert written == {"mapped": 2, "disabled": 1, "operator": None, "archived": None}
        assert session.get_one(RunTemplate, template).action_writers == {"success": 1, "fail": 2}
