"""A whole service moves from SQLite to PostgreSQL, and goes on where it stopped."""

import json
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path

from sqlalchemy import select

from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.records import RunTemplate
from jobauto_prefect.settings import Settings
from tests.support.databases import database
from tests.support.documents import smallest
from tests.support.service import Service
from tests.support.waits import eventually

PROGRAM = """\
#!/bin/sh
echo "$JOBAUTO_JOB_ID" >> "$MARKS"
echo "job $JOBAUTO_JOB_ID was here"
"""
MARKS = {"MARKS": {"type": "string", "required": True}}
RECORDS = [
    {"kind": "company", "slug": "acme", "name": "Acme"},
    smallest(name="Mark", executable="leave-mark", environment=MARKS),
]


def test_a_service_goes_on_after_its_databases_were_moved(tmp_path: Path) -> None:
    service, marks = Service(tmp_path / "home"), tmp_path / "marks"
    program = tmp_path / "bin" / "leave-mark"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    templates = [
        {"kind": "runtemplate", "company": "acme", "app": "Mark", "env": {"MARKS": str(marks)}}
        | one
        for one in ({"name": "Now"}, {"name": "Daily", "interv": "d"})
    ]
    (tmp_path / "records.json").write_text(json.dumps([*RECORDS, *templates]))
    service.start("--examples")
    try:
        admin = service.said("admin")
        applied = service.jobauto("apply", str(tmp_path / "records.json"), "--yes")
        assert applied.returncode == 0, applied.stderr
        ended = service.json("run", "acme/Now")["id"]
        shown = service.job_in(ended, "succeeded")
        logs = eventually(lambda: service.json("job", "logs", str(ended)))
        service.json("pause", "--reason", "moving")
        waiting = service.json("run", "acme/Now")["id"]
        eventually(lambda: "moving" in str(service.job(waiting)["message"]), 60)
        refused = service.jobauto("db", "move", "--ledger", "postgresql://a@b/c")
        assert (refused.returncode, "already runs" in refused.stderr) == (1, True)
    finally:
        service.stop()
        eventually(lambda: not service.processes(), 30)
    with (
        closing(open_ledger(Settings(home=service.home))) as ledger,
        ledger.writing(SERVICE) as session,
    ):
        owed = session.scalars(select(RunTemplate).where(RunTemplate.name == "Daily")).one()
        assert owed.next_window is not None
        owed.next_schedule = owed.next_window = owed.next_window - timedelta(days=1)

    with ExitStack() as databases:
        ledger_url, prefect_url = (
            databases.enter_context(database("postgresql", tmp_path)) for _ in range(2)
        )
        moved = service.json("db", "move", "--ledger", ledger_url, "--prefect", prefect_url)
        assert (moved["damages"], moved["overriding"]) == ([], [])
        assert moved["file"] == str(service.home / "database.env")
        assert (service.home / "database.env").stat().st_mode & 0o777 == 0o600
        assert moved["databases"]["prefect"]["rows"]["flow_run"] >= 2

        service.start()
        try:
            assert admin is not None
            service.events.append(admin)
            rest = service.rest()
            assert service.job(ended) == shown
            assert service.json("job", "logs", str(ended)) == logs
            page = rest.get(f"/api/v1/job/{ended}.html").raise_for_status()
            assert f"job {ended} was here" in page.text
            assert service.json("audit", "verify")["intact"] is True
            assert marks.read_text().split() == [str(ended)]

            service.json("resume")
            service.job_in(waiting, "succeeded")
            [due] = service.json("job", "list", "--template", "acme/Daily").values()
            service.job_in(due["id"], "succeeded")
            assert sorted(marks.read_text().split()) == sorted(
                map(str, (ended, waiting, due["id"]))
            )
            checks = service.json("doctor")["checks"]
            assert [one for one in checks if one["status"] == "wrong"] == []
        finally:
            service.stop()
            eventually(lambda: not service.processes(), 30)
