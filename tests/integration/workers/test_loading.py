"""Flows loaded by Prefect's process worker from an installed wheel, and with the facade away."""

import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.processes import clean_environment, running
from tests.support.stock_workers import stock_worker
from tests.support.waits import eventually
from tests.support.workers import Plant

AWAY = 6  # seconds; loading has begun by then
LONGEST_INSTALLATION = 900  # seconds


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    run([sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT)])
    (built,) = folder.glob("*.whl")
    return built


def run(argv: list[str]) -> str:
    """What a program writes; it must succeed."""
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=LONGEST_INSTALLATION, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def installed(wheel: Path, home: Path, *options: str) -> Path:
    """The Python of a new virtual environment with the wheel in it."""
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    run([str(python), "-m", "pip", "install", "--quiet", *options, str(wheel)])
    where = run([str(python), "-P", "-c", "import jobauto_prefect as j; print(j.__file__)"])
    assert where.startswith(str(home))
    return python


@pytest.fixture
def stock(plant: Plant) -> Plant:
    """The plant with a template for a pool of process workers."""
    pool = f"{plant.pool}-stock"
    plant.prefect.post("/work_pools/", json={"name": pool, "type": "process"}).raise_for_status()
    return plant.with_template("stock", pool)


@contextmanager
def process_worker(python: Path, plant: Plant, home: Path) -> Iterator[None]:
    """Prefect's own worker, told where Prefect is, where the facade is, and a token."""
    pool = f"{plant.pool}-stock"
    argv = [str(python), "-P", "-m", "prefect", "worker", "start", "--type", "process"]
    argv += ["--pool", pool, "--name", "elsewhere"]
    told = {
        "HOME": str(home),
        "PATH": clean_environment()["PATH"],
        "PREFECT_API_URL": plant.settings.prefect_api_url,
        "JOBAUTO_URL": plant.settings.url,
        "JOBAUTO_WORKER_TOKEN": plant.token,
    }
    with running(argv, told, plant.home / "worker-elsewhere.log"):
        plant.until_online("elsewhere", pool)
        yield


def runs_from(python: Path, stock: Plant, home: Path) -> None:
    home.mkdir()
    with process_worker(python, stock, home):
        clicked = stock.click_run(EXIT_WITH=4)
        finished = stock.run_in(clicked, "COMPLETED", "FAILED", "CRASHED")
    assert "exit code 4 (info): Nothing to do" in finished["state"]["message"]
    (job,) = stock.jobs_of(clicked)
    assert (job["exitcode"], job["env"]["COMPANY"]) == (4, "Ácme")


def test_a_process_worker_runs_applications_from_the_installed_wheel(
    wheel: Path, stock: Plant, tmp_path: Path
) -> None:
    python = installed(wheel, tmp_path / "venv", "--no-deps")
    # What the wheel depends on is taken from here; a path in a .pth file leads to no further ones,
    # so the checkout itself is not on it.
    packages = tmp_path / "venv" / "lib" / f"python{sysconfig.get_python_version()}"
    others = sysconfig.get_path("purelib")
    (packages / "site-packages" / "others.pth").write_text(f"{others}\n")
    runs_from(python, stock, tmp_path / "user")


@pytest.mark.soak
def test_a_process_worker_runs_applications_from_a_whole_installation(
    wheel: Path, stock: Plant, tmp_path: Path
) -> None:
    constraints = str(ROOT / "constraints.txt")
    python = installed(wheel, tmp_path / "venv", "--constraint", constraints)
    runs_from(python, stock, tmp_path / "user")


def test_loading_waits_for_a_facade_that_comes_back(stock: Plant) -> None:
    stock.deployment_id()
    with stock_worker(stock):
        stock.serving.stop()
        clicked = stock.click_run()
        time.sleep(AWAY)
        assert stock.flow_run(clicked)["state_type"] in ("SCHEDULED", "PENDING")
        stock.serving.start()
        stock.run_in(clicked, "COMPLETED")


@pytest.mark.soak
def test_a_facade_that_stays_away_for_a_minute_fails_the_run_with_a_sentence(stock: Plant) -> None:
    stock.deployment_id()
    with stock_worker(stock):
        stock.serving.stop()
        clicked, since = stock.click_run(), time.monotonic()
        eventually(lambda: stock.flow_run(clicked)["state_type"] == "FAILED", 120)
        assert 60 <= time.monotonic() - since < 90
        message = stock.flow_run(clicked)["state"]["message"]
        assert "can't be loaded" in message
        assert f"{stock.settings.url} does not answer" in message
        stock.serving.start()
    assert stock.marked("starts") == []
