"""What the rows of a former version become by its upgrade: approvals, owners, who wrote what."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from jobauto_prefect.jobs.claims.approval import unapproved_in_definition, unapproved_in_template
from jobauto_prefect.ledger.database import migration
from jobauto_prefect.ledger.records import App, EventRule, RunTemplate
from jobauto_prefect.settings import Settings
from tests.support.databases import KINDS
from tests.support.definitions import PROBE
from tests.support.former_ledger import Rows, former_ledger, version_before

HELM = {"helm": {"enabled": True, "chart": "a/b", "releaseName": "x"}}


def before(name: str) -> pytest.MarkDecorator:
    """On either database, of the version before that migration."""
    return pytest.mark.parametrize("engine", [(kind, name) for kind in KINDS], indirect=True)


@pytest.fixture
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sa.Engine]:
    kind, name = request.param
    with former_ledger(kind, tmp_path, version_before(name)) as engine:
        yield engine


@before("approvals")
def test_executors_stay_and_settings_and_helm_are_to_be_approved(engine: sa.Engine) -> None:
    with engine.execution_options(jobauto_writes=True).begin() as connection:
        rows = Rows(connection)
        company = rows.add("company", slug="acme", name="Acme")
        document = PROBE | {"ociimage": "acme/probe", "kubernetes": HELM}
        owned, shared = (
            rows.add("app", name="Probe", document=document, company_id=owner)
            for owner in (company, None)
        )
        template = {"company_id": company, "app_id": owned, "name": "t", "executors": ["Docker"]}
        rows.add("runtemplate", **template, executor="Native", executor_settings={"user": "0:0"})
    migration.upgrade(engine)
    settings = Settings()
    with Session(engine) as session:
        (kept,) = session.scalars(sa.select(RunTemplate))
        assert unapproved_in_template(kept, settings, "Native") == []
        (reason,) = unapproved_in_template(kept, settings, "Docker")
        assert "executor setting user" in reason
        apps = [session.get_one(App, number) for number in (owned, shared)]
        assert [bool(unapproved_in_definition(app, company, settings)) for app in apps] == [
            True,
            False,
        ]


@before("owners")
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


@before("vouchers")
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
    with Session(engine) as session:
        written = {name: session.get_one(EventRule, rules[name]).written_by for name in wrote}
        assert written == {"mapped": 2, "disabled": 1, "operator": None, "archived": None}
        assert session.get_one(RunTemplate, template).action_writers == {"success": 1, "fail": 2}
