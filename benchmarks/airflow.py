r"""Airflow as a yardstick: runs of a DAG with one task of /bin/true, until all have succeeded.

    python -m benchmarks.airflow

Its scheduler, API server and DAG processor run on PostgreSQL with the LocalExecutor. Where it is:
`JOBAUTO_BENCH_AIRFLOW`, the path of its command, or the command of that name on the PATH. An
environment of its own with it:

    pip install apache-airflow==3.0.6 fastapi==0.116.1 pydantic==2.11.7 pyjwt==2.10.1 \
        psycopg2-binary asyncpg

What is newer than that its task API refuses with 422.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import httpx
import psycopg

from benchmarks.installation import database, eventually, free_port, running_process

JOBS = 40
SUCCEEDED = "SELECT count(*) FROM dag_run WHERE state = 'success'"

DAG = f"""
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

with DAG("true", schedule=None, max_active_runs={JOBS}, is_paused_upon_creation=False):
    BashOperator(task_id="true", bash_command="/bin/true")
"""


def airflow_rate() -> float | None:
    """Jobs per second of a burst; None: Airflow is not installed here."""
    command = os.environ.get("JOBAUTO_BENCH_AIRFLOW") or shutil.which("airflow")
    if command is None:
        return None
    with (
        database() as empty,
        tempfile.TemporaryDirectory(prefix="jobauto-bench-", ignore_cleanup_errors=True) as home,
        contextlib.ExitStack() as processes,
    ):
        port, url = free_port(), empty.url
        environment = _environment(Path(home), command, url, port)
        subprocess.run([command, "db", "migrate"], env=environment, capture_output=True, check=True)
        for part in (("api-server", "--port", str(port)), ("scheduler",), ("dag-processor",)):
            log = Path(home) / f"{part[0]}.log"
            processes.enter_context(running_process([command, *part], environment, log))
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
            return _burst(http, url)


def _environment(home: Path, command: str, url: str, port: int) -> dict[str, str]:
    (home / "dags").mkdir()
    (home / "dags" / "true.py").write_text(DAG)
    return os.environ | {
        "PATH": f"{Path(command).parent}{os.pathsep}{os.environ['PATH']}",
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": url.replace("postgresql:", "postgresql+psycopg2:"),
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW__API_AUTH__JWT_SECRET": "known to this measurement alone, and long enough",
    }


def _burst(http: httpx.Client, url: str) -> float:
    token = eventually(lambda: http.get("/auth/token").json().get("access_token"), 180)
    http.headers["Authorization"] = f"Bearer {token}"
    eventually(lambda: http.get("/api/v2/dags/true").is_success, 180)
    _run(http, url, 1)  # warm
    began = time.perf_counter()
    _run(http, url, JOBS)
    return JOBS / (time.perf_counter() - began)


def _run(http: httpx.Client, url: str, runs: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        before = _succeeded(connection)
        for _ in range(runs):
            http.post("/api/v2/dags/true/dagRuns", json={"logical_date": None}).raise_for_status()
        eventually(lambda: _succeeded(connection) >= before + runs, 300)


def _succeeded(connection: psycopg.Connection) -> int:
    row = connection.execute(SUCCEEDED).fetchone()
    return int(row[0]) if row else 0


if __name__ == "__main__":
    print(airflow_rate())
