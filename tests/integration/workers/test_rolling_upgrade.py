"""Parts of an installation are replaced one by one while jobs run and windows come due."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from jobauto_prefect.ledger.database import migration
from jobauto_prefect.ledger.database.engine import make_engine
from jobauto_prefect.settings import Settings
from tests.support.databases import database
from tests.support.installation import Installation, run_installation
from tests.support.paths import ROOT

FORMER = "45505f0a"
"""The last commit of the release before."""

LEASE, JOB = 3.0, 5
"""Seconds: a job outlives a lease."""

USUAL_LEASE, LONG_JOB = 30.0, 200  # seconds, likewise

PARTS = ("worker-2", "facade", "services-1", "prefect", "services-2", "worker-1")
"""In this order a new worker is beside the former facade, then a former worker beside the new."""

OTHER_ORDERS = {
    "facade first": ("facade", "worker-1", "prefect", "worker-2", "services-1", "services-2"),
    "services first": ("services-1", "services-2", "worker-1", "facade", "worker-2", "prefect"),
    "Prefect first": ("prefect", "services-1", "facade", "services-2", "worker-1", "worker-2"),
}


@pytest.fixture
def former(tmp_path: Path) -> Path:
    """A folder with the former release's package, for PYTHONPATH."""
    folder = tmp_path / "former"
    folder.mkdir()
    archive = subprocess.run(
        ["git", "archive", FORMER, "jobauto_prefect"], cwd=ROOT, capture_output=True, check=False
    )
    if archive.returncode:
        pytest.skip(f"the history does not reach back to {FORMER}")
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


@pytest.fixture
def lease() -> float:
    """Seconds after which a worker that is not heard of has lost its jobs."""
    return LEASE


@pytest.fixture
def installation(tmp_path: Path, former: Path, lease: float) -> Iterator[Installation]:
    """An installation of the former release, on its own tables."""
    with database("postgresql", tmp_path) as ledger_url:
        program = "import jobauto_prefect.cli as cli; print(cli.__file__, flush=True); cli.main()"
        upgraded = subprocess.run(
            [sys.executable, "-c", program, "db", "upgrade"],
            cwd=tmp_path,
            env={"PYTHONPATH": str(former), "JOBAUTO_DATABASE_URL": ledger_url},
            capture_output=True,
            text=True,
            check=True,
        )
        assert upgraded.stdout.startswith(str(former))
        variables = {"PYTHONPATH": str(former)}
        with run_installation(ledger_url, tmp_path, lease, variables) as made:
            yield made


@pytest.mark.parametrize(
    "order",
    [
        pytest.param(PARTS, id="worker first"),
        *(
            pytest.param(order, marks=pytest.mark.faults, id=name)
            for name, order in OTHER_ORDERS.items()
        ),
    ],
)
def test_no_window_is_lost_and_no_job_runs_twice_in_an_upgrade(
    installation: Installation, order: Sequence[str]
) -> None:
    replace_one_by_one(installation, order, each=3, job=JOB)


@pytest.mark.soak
@pytest.mark.parametrize("lease", [USUAL_LEASE])
@pytest.mark.parametrize(
    "order", [PARTS, *OTHER_ORDERS.values()], ids=["worker first", *OTHER_ORDERS]
)
def test_jobs_that_take_minutes_outlive_an_upgrade(
    installation: Installation, order: Sequence[str]
) -> None:
    replace_one_by_one(installation, order, each=20, job=LONG_JOB)


def replace_one_by_one(
    installation: Installation, order: Sequence[str], *, each: int, job: int
) -> None:
    """Replace the parts; a job begins each so many seconds, and takes so long."""
    for delay in range(0, 60, each):
        members = {"on_contact_lost": "finish", "deadline_offset": "+1h", "overlap": "parallel"}
        env = {"SECONDS_TO_SLEEP": job}
        installation.add_template(f"at {delay}", interv="i", delay=delay, env=env, **members)
    installation.until_started(1)
    engine = make_engine(Settings(database_url=installation.settings.ledger_url).ledger_url)
    migration.upgrade(engine)
    engine.dispose()
    for name in order:
        installation.until_running()
        # A worker ends when its jobs have.
        installation.parts[name].replace(job + 60, PYTHONPATH=None)
        installation.until_started(1)
    installation.switch_off()
    installation.until_all_tasks_ended(job + 60)
    found = installation.match()
    assert (found.missed, found.extra, installation.overlaps()) == ([], [], [])
    # The matcher excuses tasks whose attempt or retry was waiting when it was switched off.
    assert found.states["fulfilled"] >= len(order)
