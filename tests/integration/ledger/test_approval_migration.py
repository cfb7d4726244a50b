"""What a ledger of before approvals becomes: executors stay, the rest waits to be approved."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from jobauto_prefect.jobs.claims.approval import unapproved_in_definition, unapproved_in_template
from jobauto_prefect.ledger.database import migration
from jobauto_prefect.ledger.records import App, RunTemplate
from jobauto_prefect.settings import Settings
from tests.support.databases import KINDS
from tests.support.definitions import PROBE
from tests.support.former_ledger import Rows, former_ledger, version_before

HELM = {"helm": {"enabled": True, "chart": "a/b", "releaseName": "x"}}


@pytest.fixture(params=KINDS)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sa.Engine]:
    """A database of the version that noted no approvals."""
    with former_ledger(request.param, tmp_path, version_before("approvals")) as engine:
        yield engine


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
