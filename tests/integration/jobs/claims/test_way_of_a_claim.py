"""How many of our modules a claim goes through (`called_modules` counts).

It is the claim of a window that is due: its task is there, its run template has a credential, and
this process has granted a job of the application before (what follows from the definition alone is
computed once).
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from jobauto_prefect.facade import worker_api
from jobauto_prefect.facade.app import create_app
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.jobs.windows.due_windows import open_windows
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.jobs import windows
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.runtime.protocol import Claim
from jobauto_prefect.settings import Settings
from tests.support.called_modules import called_modules, listed
from tests.support.claims import claim_of, start_workers
from tests.support.secrets import SECRET

MOST = 21
TEN = datetime(2026, 5, 1, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def scheduled(rest: httpx.Client, ledger: Ledger, template: dict[str, Any]) -> dict[str, Any]:
    """A claim of the flow run for a window that was opened; its run template has a credential."""
    ledger.clock = lambda: TEN - HOUR / 2
    fields = [{"keyword": "MAIL_USER"}, {"keyword": "MAIL_PASSWORD", "type": "password"}]
    values = {"MAIL_USER": "anna", "MAIL_PASSWORD": SECRET}
    for path, body in (
        ("/credential_type/", {"code": "Mail", "name": "Mail", "fields": fields}),
        (
            "/credential/",
            {"company": "acme", "credential_type": "Mail", "name": "mail", "values": values},
        ),
        ("/runtemplate/", {"id": template["id"], "interv": "h", "credentials": ["mail"]}),
    ):
        rest.post(path, json=body).raise_for_status()
    ledger.clock = lambda: TEN + timedelta(seconds=1)
    with ledger.writing(SERVICE) as session:
        open_windows(
            session, windows.lock_due_templates(session, ledger.clock(), 10), ledger.clock()
        )
    return claim_of(auto_scheduled=True, scheduled_for=TEN.isoformat())


def test_a_claim_goes_through_few_modules(
    facade_settings: Settings, ledger: Ledger, scheduled: dict[str, Any]
) -> None:
    start_workers(ledger)
    service = create_app(facade_settings, ledger).state.service
    worker = Identity(SERVICE, worker_pools=(facade_settings.pool,))
    assert worker_api.claim(Claim(**claim_of()), worker, service).launch is not None
    with called_modules(worker_api.__file__) as modules:
        answer = worker_api.claim(Claim(**scheduled), worker, service)
    assert answer.launch is not None
    assert answer.launch.task_id is not None
    assert len(modules) <= MOST, f"{len(modules)} modules:\n{listed(modules)}"
