"""How many of our modules the write of a run template goes through (`called_modules` counts)."""

import sys
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from sqlalchemy import event

from jobauto_prefect.facade.resources import upserts
from jobauto_prefect.ledger.store import Ledger
from tests.support.called_modules import called_modules, listed

MOST = 22


@pytest.fixture
def way(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """The modules between the route of a write and its commit, once one was made."""
    modules: dict[str, set[str]] = {}
    write = upserts._write

    def watched(*arguments: Any) -> Any:
        with ExitStack() as stack:
            functions = stack.enter_context(called_modules(upserts.__file__))

            def note_commit(_connection: object) -> None:
                modules.update(functions)
                sys.setprofile(None)

            event.listen(ledger.engine, "commit", note_commit)
            stack.callback(event.remove, ledger.engine, "commit", note_commit)
            return write(*arguments)

    monkeypatch.setattr(upserts, "_write", watched)
    return modules


def test_a_run_template_is_written_through_few_modules(
    rest: httpx.Client, template: dict[str, Any], way: dict[str, set[str]]
) -> None:
    body = {"app_id": template["app_id"], "company": "acme", "name": "Hourly", "interv": "h"}
    rest.post("/runtemplate/", json=body).raise_for_status()
    assert 0 < len(way) <= MOST, f"{len(way)} modules:\n{listed(way)}"
