"""`jobauto up` itself: whose its jobs are, how it ends, what it leaves; and the demo."""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobauto_prefect.cli.service.addresses import public_addresses
from jobauto_prefect.facade.formats.negotiation import FORMATS
from tests.support.installed import install
from tests.support.service import Service
from tests.support.waits import eventually

LOOK = [
    {"kind": "company", "slug": "acme", "name": "Acme"},
    {
        "$schema": "https://example.org/schema.json",
        "name": "Look",
        "description": "Looks at what is not its own",
        "executable": "sh",
        "cmdparamsTemplate": "-c 'whoami; pwd; stat -c %a $(dirname $(dirname $PWD));"
        " cat $0/ledger.db $0/logs/facade.log; ls $0; true' {HOME_OF_SERVICE}",
        "environment": {"HOME_OF_SERVICE": {"type": "string", "required": True}},
    },
    {"kind": "runtemplate", "company": "acme", "app": "Look", "name": "Look"},
]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can run jobs as others")
def test_jobs_of_another_user_are_outside_of_the_home_and_read_nothing_in_it(
    tmp_path: Path,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        jobs = f"{folder}/jobs"
        users = {"JOBAUTO_RUN_AS": "nobody", "JOBAUTO_WORKER_DIRECTORY": jobs}
        service = Service(Path(folder) / "home", **users, JOBAUTO_GRACE_SECONDS="1")
        (tmp_path / "look.json").write_text(json.dumps(LOOK))
        service.start()
        try:
            ready = service.said("ready")
            assert ready is not None
            assert ready["jobs"] == jobs
            applied = service.jobauto("apply", str(tmp_path / "look.json"), "--yes")
            assert applied.returncode == 0, applied.stderr
            job = service.json(
                "run", "acme/Look", "--env", f"HOME_OF_SERVICE={folder}/home", "--wait"
            )
        finally:
            service.stop()
    assert job["stderr"].count("Permission denied") == 3
    user, place, base = job["stdout"].split()
    assert (user, base) == ("nobody", "711")
    assert place.startswith(f"{jobs}/")
    assert shlex.quote(place) == place


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service of these tests' own, whose package is in the folder `venv` beside its home."""
    place = tmp_path_factory.mktemp("own")
    programs = install(place / "venv")
    leases = {"JOBAUTO_LEASE_SECONDS": "5", "JOBAUTO_GRACE_SECONDS": "1"}
    service = Service(place / "home", programs=programs, **leases)
    service.start("--examples")
    try:
        yield service
    finally:
        service.stop()


def test_neither_its_end_nor_its_death_leaves_a_job_and_a_new_start_finds_everything(
    own: Service,
) -> None:
    service = own
    admin = service.said("admin")
    assert admin is not None
    job = service.json("run", "acme/Probe", "--env", "PROBE_SLEEP=302")
    service.job_in(job["id"], "running")
    assert service.process is not None
    assert "Z" not in states_of_children(service.process.pid)

    assert service.stop() == 0
    assert service.processes() == {}

    service.start()
    assert service.said("admin") is None  # the password is said once
    service.events.append(admin)
    assert service.job_in(job["id"], "lost")["message"]

    job = service.json("run", "acme/Probe", "--env", "PROBE_SLEEP=303")
    service.job_in(job["id"], "running")
    service.process.send_signal(signal.SIGKILL)
    service.process.wait()
    service.start()  # at once: it waits until the worker of before has ended its jobs
    service.events.append(admin)
    assert service.job_in(job["id"], "lost")["message"]


def states_of_children(parent: int) -> str:
    """A letter for each child of a process; `Z` is one that has ended and was not waited for."""
    found = ""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, its_parent = stat.read_text().rpartition(")")[2].split()[:2]
            found += state if int(its_parent) == parent else ""
    return found


def test_it_goes_on_while_its_files_are_replaced_and_its_death_leaves_no_process(
    own: Service,
) -> None:
    rest = own.rest()
    eventually(lambda: rest.get("/api/v1/status").json()["waiting_for_prefect"] == 0)
    for address in public_addresses(own.url, own.prefect).values():
        assert rest.get(address).status_code == 200, address
    place = own.home.parent
    (package,) = (place / "venv").glob("lib/python*/site-packages/jobauto_prefect")
    shutil.move(package, place / "replaced")

    failed = failures(own)
    planned = rest.post("/api/v1/apply.json", json={"documents": []})
    body = {"runtemplate_id": "acme/Probe"}
    job = rest.post("/api/v1/job/", json=body).raise_for_status().json()
    own.job_in(job["id"], "succeeded")
    runs = own.prefect_api().post("/flow_runs/count", json={})

    assert failed == {}
    assert planned.status_code < 500, planned.text
    assert runs.json() > 0
    assert own.process is not None
    own.process.send_signal(signal.SIGKILL)
    eventually(lambda: not own.processes())


def failures(service: Service) -> dict[str, str]:
    """What is answered where it is no page: at the addresses of the document, for the first record
    of each kind, in all formats, and at one of each shape that the pages of the console lead to.
    """
    rest = service.rest()
    document = rest.get("/api/v1/openapi.json").json()
    gets = [path for path, operations in document["paths"].items() if "get" in operations]
    numbered = [re.sub(r"\{\w*Id\}|\{\w*ID\}", "1", path) for path in gets]
    found = ["/", "/docs", "/metrics", "/login.html"] + [
        f"/api/v1{path.replace('{suffix}', suffix)}" for path in numbered for suffix in FORMATS
    ]
    failed, shapes = {}, set()
    for path in found:
        is_page = path == "/" or path.startswith("/console")
        accept = {"Accept": "text/html"} if is_page else {}
        answer = rest.get(path, headers=accept, follow_redirects=True)
        if answer.status_code >= 500:
            failed[path] = answer.text[:300]
        for link in re.findall(r'href="(/console[^"#?]*)', answer.text) if is_page else ():
            if (shape := re.sub(r"\d+", "1", link)) not in shapes:
                shapes.add(shape)
                found.append(link)
    return failed


def test_the_demo_shows_the_outcomes_and_leaves_nothing_behind(tmp_path: Path) -> None:
    service = Service(tmp_path / "home", TMPDIR=str(tmp_path))

    ran = service.jobauto("demo", timeout=400)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "error: The answer is wrong" in ran.stdout
    assert re.search(r"Console +http.*REST docs +http.*/docs\n", ran.stdout, re.DOTALL)
    succeeded = [line for line in ran.stdout.splitlines() if "succeeded" in line]
    # The example that is scheduled each minute may have run once more.
    for name in ("Root file system", "Load each minute", "Probe"):
        assert any(name in line for line in succeeded), ran.stdout
    assert "warning: The other side is being maintained" in ran.stdout
    assert list(tmp_path.glob("jobauto-demo-*")) == []
