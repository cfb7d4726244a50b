"""A ledger that an early version's `jobauto demo --keep` left behind, upgraded to this version."""

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import httpx
import pytest

from jobauto_prefect.ledger.database import migration
from jobauto_prefect.ledger.database.engine import make_engine
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.settings import Settings
from tests.support.paths import ROOT
from tests.support.ports import free_port
from tests.support.servers import client, facade, user_token

DUMP = ROOT / "tests" / "fixtures" / "demo_7f441c7.sql"
KEY = DUMP.with_suffix(".key")
"""The key of its secrets: of an installation that ran for three minutes and is gone."""
RENAMED = {
    "wish": "outbox_message",
    "turn": "named_lock",
    "fact": "installation_value",
    "kept_answer": "idempotency_record",
    "owed_action": "pending_action",
}

Rows = list[dict[str, Any]]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """An installation with the early ledger; Prefect does not answer."""
    settings = Settings(
        home=tmp_path,
        url=f"http://127.0.0.1:{free_port()}",
        prefect_api_url="http://127.0.0.1:9/api",
    )
    shutil.copy(KEY, settings.key_path)
    settings.key_path.chmod(0o600)
    with sqlite3.connect(_file(settings)) as connection:
        connection.executescript(DUMP.read_text("utf-8"))
    connection.close()
    return settings


def _file(settings: Settings) -> str:
    return settings.ledger_url.removeprefix("sqlite:///")


def _tables(settings: Settings) -> dict[str, Rows]:
    connection = sqlite3.connect(_file(settings))
    connection.row_factory = sqlite3.Row
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    tables = {
        name: [dict(row) for row in connection.execute(f'SELECT * FROM "{name}"')]
        for (name,) in names
    }
    connection.close()
    return tables


def _upgrade(settings: Settings) -> None:
    engine = make_engine(settings.ledger_url)
    assert migration.upgrade(engine)[0] == "0005"
    engine.dispose()


def test_every_row_is_kept_with_every_value(settings: Settings) -> None:
    before = _tables(settings)
    assert sum(map(len, before.values())) > 200
    _upgrade(settings)
    after = _tables(settings)
    for name, rows in before.items():
        if name == "alembic_version":
            continue
        kept = after[RENAMED.get(name, name)]
        added = len(kept) - len(rows)
        assert added > 0 if name == "audit_entry" else added == 0, name  # upgrades are audited
        for old, new in zip(rows, kept, strict=False):
            assert old.items() <= new.items(), name


def test_the_contract_shows_what_the_early_version_showed(settings: Settings) -> None:
    _upgrade(settings)
    ledger = open_ledger(settings)
    with facade(settings, ledger) as url, client(f"{url}/api/v1", user_token(ledger)) as rest:
        jobs = _list(rest, "jobs")
        assert {job["id"]: (job["state"], job["exitcode"]) for job in jobs} == {
            1: ("succeeded", 0),
            2: ("warning", 3),
            3: ("succeeded", 0),
            4: ("warning", 3),
            5: ("failed", 42),
            6: ("warning", 3),
            7: ("warning", 3),
        }
        assert [template["name"] for template in _list(rest, "runtemplates")] == [
            "Root file system",
            "Load each minute",
            "Probe",
            "Probe that fails",
        ]
        failed = rest.get("/job/5.json").raise_for_status().json()
        assert failed["message"] == "exit code 42 (error): The answer is wrong"
        assert failed["stdout"]
        assert rest.get("/job/1.json").json()["artifacts"][0]["path"] == "disk.json"
        assert {task["state"] for task in _list(rest, "tasks")} == {"fulfilled"}
    ledger.close()


def _list(rest: httpx.Client, collection: str) -> Rows:
    answer = rest.get(f"/{collection}.json", params={"order": "id"}).raise_for_status()
    return list(answer.json().values())
