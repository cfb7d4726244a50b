"""A whole service is backed up under load, its machine is lost, and another one takes over."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.databases import database
from tests.support.documents import smallest
from tests.support.secrets import secret
from tests.support.service import Service
from tests.support.waits import eventually

PASSPHRASE = secret("correct horse battery")
BEFORE, DURING = 5, 3  # jobs that are taken before the backup begins, and while it goes on
TURN = 0.3  # seconds between two of them

PROGRAM = """\
#!/bin/sh
echo "$JOBAUTO_JOB_ID" >> "$MARKS"
sleep "$NAP"
"""
RECORDS: list[dict[str, Any]] = [
    {"kind": "company", "slug": "acme", "name": "Acme"},
    smallest(
        name="Mark",
        executable="leave-mark",
        environment={
            "MARKS": {"type": "string", "required": True},
            "NAP": {"type": "string", "defval": "0.2"},
        },
    ),
]


def services(kind: str, folder: Path) -> Iterator[Service]:
    """Two installations, whose databases are of a kind; none of them is started."""
    with ExitStack() as databases:
        for name in ("first", "second"):
            own = {"JOBAUTO_LEASE_SECONDS": "5", "JOBAUTO_GRACE_SECONDS": "1"}
            if kind == "postgresql":
                ledger, prefect = (
                    databases.enter_context(database(kind, folder)) for _ in range(2)
                )
                own["JOBAUTO_DATABASE_URL"] = ledger
                own["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = prefect.replace(
                    "postgresql:", "postgresql+asyncpg:"
                )
            yield Service(folder / name, **own)


class Load(threading.Thread):
    """Somebody who starts jobs one after the other, and remembers which were taken, and when."""

    def __init__(self, rest: httpx.Client, template: int) -> None:
        super().__init__(daemon=True)
        self._rest, self._template = rest, template
        self._ends = threading.Event()
        self.taken: dict[int, datetime] = {}

    def run(self) -> None:
        while not self._ends.wait(TURN):
            answer = self._rest.post("/api/v1/job/", json={"runtemplate_id": self._template})
            self.taken[answer.raise_for_status().json()["id"]] = datetime.now(UTC)

    def until_taken(self, count: int) -> None:
        eventually(lambda: len(self.taken) >= count, 60)

    def end(self) -> None:
        self._ends.set()
        self.join()


def starts(marks: Path) -> Counter[int]:
    """How often each job has begun."""
    return Counter(map(int, marks.read_text().split())) if marks.exists() else Counter()


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.soak)])
def test_another_machine_goes_on_where_the_backup_was_made(kind: str, tmp_path: Path) -> None:
    pair = services(kind, tmp_path)
    first, marks = next(pair), tmp_path / "marks"
    program = tmp_path / "bin" / "leave-mark"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    template = {"kind": "runtemplate", "company": "acme", "app": "Mark", "name": "Mark"}
    template["env"] = {"MARKS": str(marks)}  # type: ignore[assignment]
    (tmp_path / "records.json").write_text(json.dumps([*RECORDS, template]))
    file = str(tmp_path / "whole.backup")
    first.start()
    try:
        admin = first.said("admin")
        assert admin is not None
        applied = first.jobauto("apply", str(tmp_path / "records.json"), "--yes")
        assert applied.returncode == 0, applied.stderr
        long = first.json("run", "acme/Mark", "--env", "NAP=300")["id"]
        first.job_in(long, "running")
        load = Load(first.rest(), first.job(long)["runtemplate_id"])
        load.start()
        load.until_taken(BEFORE)
        made = first.jobauto(
            "backup", file, "--passphrase-stdin", "--json", stdin=f"{PASSPHRASE}\n"
        )
        load.until_taken(len(load.taken) + DURING)
        load.end()
        assert made.returncode == 0, made.stderr
        token = (first.home / "worker.token").read_text().strip()
    finally:
        first.stop()
        eventually(lambda: not first.processes(), 30)
    manifest = json.loads(made.stdout)
    assert [*manifest["databases"]] == ["prefect", "ledger"]
    at = datetime.fromisoformat(manifest["taken_at"])
    acknowledged = {job for job, moment in load.taken.items() if moment <= at}
    assert len(acknowledged) >= BEFORE
    before = starts(marks)

    second = next(pair)
    done = second.jobauto("restore", file, "--passphrase-stdin", "--json", stdin=f"{PASSPHRASE}\n")
    assert done.returncode == 0, done.stderr
    restored = json.loads(done.stdout)
    assert long in {lost["job_id"] for lost in restored["lost"]}
    owed = {job["job_id"] for job in [*restored["lost"], *restored["waiting"]]}
    second.start()
    try:
        second.events.append(admin)
        waiting = second.rest().post(
            "/api/v1/job/", json={"runtemplate_id": second.job(long)["runtemplate_id"]}
        )
        new = waiting.json()["id"]
        told = "maintenance: restored from a backup"
        eventually(lambda: str(second.job(new)["message"]).startswith(told), 60)
        assert starts(marks) == before
        bearer = {"Authorization": f"Bearer {token}"}
        refused = httpx.post(f"{second.url}/internal/v1/claims", headers=bearer, json={})
        assert refused.status_code == 401
        assert second.json("audit", "verify")["intact"] is True

        assert second.json("resume") == {"frozen": False, "was_frozen": True}
        second.job_in(new, "succeeded")
        for job in sorted(acknowledged - {lost["job_id"] for lost in restored["lost"]}):
            second.job_in(job, "succeeded")
        assert second.job(long)["state"] == "lost"
        twice = {job for job, count in starts(marks).items() if count > 1}
        # Numbers of jobs that were made after the backup are given again.
        assert twice - owed <= {new}
    finally:
        second.stop()
        pair.close()  # type: ignore[attr-defined]
