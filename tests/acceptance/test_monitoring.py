"""What real parts tell at their management ports, beside what their ledger holds."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx

from jobauto_prefect.monitoring.ports import Part
from tests.support.metrics import Scraped, scraped
from tests.support.secrets import SECRET
from tests.support.service import Watched
from tests.support.waits import eventually

ENDED = 'SELECT count(*) FROM job WHERE "end" IS NOT NULL AND retired_at IS NULL'
COUNTS = (
    "SELECT c.slug, j.state, coalesce(j.severity, ''), count(*) FROM job j"
    " JOIN company c ON c.id = j.company_id WHERE j.retired_at IS NULL GROUP BY 1, 2, 3"
)


def _scrape(first: int, part: Part) -> Scraped:
    return scraped(httpx.get(f"http://127.0.0.1:{first + part}/metrics"))


def _ready(url: str) -> httpx.Response | None:
    answer = httpx.get(url)
    return answer if answer.is_success else None


def test_after_a_mixed_load_the_counts_are_the_ledgers(watched: Watched) -> None:
    service, first = watched.service, watched.first_port
    for code in ("0", "0", "1", "4"):
        service.jobauto("run", "acme/Probe", "--env", f"PROBE_EXIT_CODE={code}", "--wait")
    running = service.json("run", "acme/Probe", "--env", "PROBE_SLEEP=600")
    service.job_in(running["id"], "running")

    def same() -> bool:
        with closing(sqlite3.connect(Path(service.home) / "ledger.db")) as ledger:
            rows = ledger.execute(COUNTS).fetchall()
            (ended,) = ledger.execute(ENDED).fetchone()
        truth = {tuple(row[:-1]): row[-1] for row in rows}
        facade = _scrape(first, Part.FACADE)
        return (
            facade.by("jobauto_jobs", "company", "state", "severity") == truth
            and facade.value("jobauto_outcome_seconds_count") == ended
            and facade.value("jobauto_leases") == 1
        )

    eventually(same, 120)  # figures are remembered for some moments; a job starts each minute
    facade = _scrape(first, Part.FACADE)
    assert facade.value("jobauto_job_start_seconds_count", schedule_type="adhoc-cli") == 5
    assert facade.by("jobauto_workers", "state") == {("living",): 1}
    assert facade.value("jobauto_loop_rounds_total", loop="seal")
    eventually(lambda: _scrape(first, Part.WORKER).value("jobauto_worker_jobs") == 1)
    worker = _scrape(first, Part.WORKER)
    assert worker.value("jobauto_worker_limit")
    claimed = _scrape(first, Part.PREFECT).by("jobauto_requests_total", "method", "route")
    assert ("POST", "/api/flow_runs/{id}/set_state") in claimed
    service.jobauto("job", "cancel", str(running["id"]))


def test_each_part_is_alive_and_ready(watched: Watched) -> None:
    first = watched.first_port
    for part, checks in (
        (Part.FACADE, {"ledger", "prefect", "loops"}),
        (Part.PREFECT, {"ledger", "prefect"}),
        (Part.WORKER, {"facade", "jobs", "loop", "prefect"}),
    ):
        base = f"http://127.0.0.1:{first + part}"
        assert httpx.get(f"{base}/healthz").status_code == 200
        answer = eventually(lambda url=f"{base}/readyz": _ready(url))
        assert set(answer.json()["checks"]) == checks


def test_each_line_of_each_log_is_json_and_names_its_request_and_job(
    watched: Watched,
) -> None:
    service = watched.service
    job = service.json("run", "acme/Probe", "--env", f"PROBE_PASSWORD={SECRET}", "--wait")
    lines: dict[str, list[dict[str, Any]]] = {
        file.stem: [json.loads(line) for line in file.read_text().splitlines()]
        for file in (service.home / "logs").glob("*.log")
    }
    assert all(lines[part] for part in ("facade", "prefect", "worker"))
    for part, told in lines.items():
        for line in told:
            assert {"time", "level", "logger", "message"} <= line.keys(), (part, line)
    of_job = [line for line in lines["facade"] if line.get("job_id") == job["id"]]
    paths = {line["path"] for line in of_job if "path" in line}
    assert {"/internal/v1/claims", f"/internal/v1/jobs/{job['id']}/report"} <= paths
    assert all(line["request_id"] for line in of_job)
    assert SECRET not in json.dumps(lines)
