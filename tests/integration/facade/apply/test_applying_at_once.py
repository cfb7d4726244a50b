"""Two who apply at once: never a mixture, and each is told what was done."""

import json
import sys
from collections import Counter
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, text

from jobauto_prefect.ledger.locks import APPLY_LOCK
from jobauto_prefect.ledger.records import AuditEntry, Company
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.databases import both_databases, on_postgresql
from tests.support.homes import InProcessHome
from tests.support.ledger_rows import fetch_all
from tests.support.processes import forked
from tests.support.waits import eventually

PATIENCE = 180  # seconds
SETS = {"a": range(12), "b": range(4, 16)}
"""The companies of two sets of files, most of them in both."""


class Terminals(InProcessHome):
    """Commands in processes of their own, each of which serves the contract to itself."""

    def __init__(self, settings: Settings, path: Path) -> None:
        super().__init__(path)
        self.environment |= {
            "JOBAUTO_HOME": str(settings.home),
            "JOBAUTO_CONFIG_DIR": str(settings.home),
            "JOBAUTO_DATABASE_URL": str(settings.database_url),
        }
        for name, numbers in SETS.items():
            (path / f"{name}.json").write_text(json.dumps([record(name, one) for one in numbers]))

    def apply(self, name: str) -> BaseProcess:
        """Begin to apply a set: what it does not name goes."""
        words = ["apply", f"{name}.json", "--prune", "--label", "set", "--yes", "--json"]

        return forked(_apply, self, self.path / f"{name} applied", words)

    def applied(self, name: str, process: BaseProcess) -> Any:
        """What the command said it has written."""
        process.join(PATIENCE)
        said = (self.path / f"{name} applied").read_text()
        assert process.exitcode == 0, said
        return json.loads(said)["counts"]


def _apply(home: Terminals, answer: Path, words: list[str]) -> None:
    done = home.run(*words)
    answer.write_text(done.stdout + done.stderr)
    sys.exit(done.returncode)


def record(name: str, number: int) -> dict[str, Any]:
    return {"kind": "company", "slug": f"c{number:02}", "name": name.upper()}


@pytest.fixture
def terminals(ledger: Ledger, ledger_settings: Settings, tmp_path: Path) -> Terminals:
    """Over a ledger with key and tables, and nothing in it."""
    assert companies(ledger) == {}
    return Terminals(ledger_settings, tmp_path)


def companies(ledger: Ledger) -> dict[str, str]:
    kept = select(Company).where(Company.retired_at.is_(None))
    return {one.slug: one.name for one in fetch_all(ledger, kept)}


def written(ledger: Ledger, after: int) -> list[Counter[str]]:
    """How many records each request has written, by what became of them."""
    requests: dict[str | None, Counter[str]] = {}
    for entry in fetch_all(ledger, select(AuditEntry).where(AuditEntry.id > after)):
        requests.setdefault(entry.request_id, Counter())[entry.action] += 1
    return [*requests.values()]


def newest_entry(ledger: Ledger) -> int:
    return max(fetch_all(ledger, select(AuditEntry.id)), default=0)


@both_databases
@pytest.mark.parametrize("rounds", [2, pytest.param(20, marks=pytest.mark.soak)])
def test_two_sets_of_files_never_mix(terminals: Terminals, ledger: Ledger, rounds: int) -> None:
    whole = [{f"c{one:02}": name.upper() for one in SETS[name]} for name in SETS]
    for _ in range(rounds):
        before = newest_entry(ledger)
        begun = {name: terminals.apply(name) for name in SETS}
        told = [terminals.applied(name, process) for name, process in begun.items()]
        assert companies(ledger) in whole
        done = {"create", "update", "delete"}
        reports = [+Counter({one: each[one] for one in done}) for each in told]
        key = str
        assert sorted(filter(None, reports), key=key) == sorted(written(ledger, before), key=key)


@on_postgresql
def test_one_that_is_killed_lets_go_of_the_lock(terminals: Terminals, ledger: Ledger) -> None:
    """Nothing of it is left, and the next one goes on. (SQLite: test_plan_and_apply.)"""
    with ledger.engine.connect() as somebody:  # lets nobody write companies
        somebody.execute(text("LOCK TABLE company IN SHARE MODE"))
        killed = terminals.apply("a")
        eventually(lambda: holders(ledger))
        killed.kill()
        killed.join()
    left = companies(ledger)

    counts = terminals.applied("b", terminals.apply("b"))

    assert left == {}
    assert counts["create"] == len(SETS["b"])
    assert set(companies(ledger).values()) == {"B"}
    assert holders(ledger) == 0


def holders(ledger: Ledger) -> int:
    """How many hold the lock under which files are applied."""
    held = """
        SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database
        WHERE datname = current_database()
            AND locktype = 'advisory' AND objid = :lock AND granted
    """
    with ledger.reading() as session:
        found: int = session.scalar(text(held), {"lock": APPLY_LOCK})
    return found
