"""Makes homes as a release leaves them, on SQLite and PostgreSQL, for the tests of later releases.

    python -m scripts.former_homes dist/jobauto_prefect-0.1.0-py3-none-any.whl

Only the programs of that wheel write them, in an environment of their own with the versions that
it was tested with. They run as people run them, and are killed in the midst of a job. It takes some
minutes; each release does it once (CONTRIBUTING.md).
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from packaging.utils import parse_wheel_filename

from jobauto_prefect.home import make_folder
from tests.support.databases import KINDS
from tests.support.former_homes import HOMES, NOWHERE, databases, settings_of
from tests.support.processes import clean_environment
from tests.support.secrets import secret
from tests.support.service import Service
from tests.support.waits import eventually

CONSTRAINTS = "jobauto_prefect/files/constraints.txt"
PEOPLE = {"anna": "acme", "boris": "globex"}
"""Members of one company each, by their logins."""

ONCE = {"max_attempts": 1}
RECORDS: list[dict[str, Any]] = [
    {"kind": "company", "slug": "acme", "name": "Acme"},
    {"kind": "company", "slug": "globex", "name": "Globex"},
    {
        "kind": "credential_type",
        "code": "Safe",
        "name": "Safe",
        "fields": [
            {"keyword": "SAFE_USER", "type": "string", "required": True},
            {"keyword": "SAFE_PIN", "type": "secret", "required": True},
        ],
    },
    {
        "$schema": "https://example.org/application.json",
        "uuid": "5b3f6f8e-0d0c-4e0a-9a55-6d4a8f0c1e01",
        "name": "Open",
        "description": "Prints the user and PIN of the safe, and exits with the given code",
        "executable": "sh",
        "cmdparamsTemplate": '-c \'echo "$SAFE_USER"; printf %s "$SAFE_PIN" | sha256sum;'
        ' sleep "$NAP"; exit "$CODE"\'',
        "requirements": ["Safe"],
        "environment": {
            "NAP": {"type": "integer", "defval": 0},
            "CODE": {"type": "integer", "defval": 0},
        },
        "exitCodes": {
            "0": {"description": "It is open", "severity": "success"},
            "3": {"description": "It is ajar", "severity": "warning"},
            "42": {"description": "It is jammed", "severity": "error"},
        },
    },
    *(
        {"kind": "runtemplate", "company": company, "app": "Open", "credentials": ["Safe"], **one}
        for company in PEOPLE.values()
        for one in (
            {"name": "By hand", **ONCE},
            {"name": "Nowhere", "pool": NOWHERE, **ONCE},
            {"name": "Each minute", "interv": "i"},
            {"name": "Each minute nowhere", "interv": "i", "pool": NOWHERE},
        )
    ),
    {"kind": "runtemplate", "company": "acme", "app": "Open", "name": "Without a PIN"},
]


def install(wheel: Path, place: Path) -> Path:
    """Install a wheel with the versions it was tested with; the folder of its programs."""
    constraints = place / "constraints.txt"
    constraints.write_bytes(zipfile.ZipFile(wheel).read(CONSTRAINTS))
    venv.create(place / "venv", with_pip=True)
    programs = place / "venv" / "bin"
    pip = [programs / "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-c", constraints, wheel], check=True)
    return programs


def make(service: Service) -> dict[str, Any]:
    """Fill a home, and kill what runs; what a later release has to find in it."""
    service.start()
    login, password = service.admin()
    people = {login: {"password": password, "companies": sorted(PEOPLE.values())}}
    apply(service, *(record for record in RECORDS if record.get("kind") == "company"))
    for person, company in PEOPLE.items():
        password = f"the {company} door is open"
        people[person] = {"password": password, "companies": [company]}
        run(service, "user", "create", person, "--password-stdin", stdin=password)
        run(service, "company", "member", "set", company, person, "--role", "manager")
    apply(service, *(record for record in RECORDS if "fields" in record))
    pins = {company: secret(f"pin of {company}") for company in PEOPLE.values()}
    for company, pin in pins.items():
        values = ["credential_type=Safe", "--env", f"SAFE_USER={company}", "--secret", "SAFE_PIN"]
        run(service, "credential", "create", f"{company}/Safe", *values, stdin=pin)
    apply(service, *RECORDS)

    for company in PEOPLE.values():
        by_hand = f"{company}/By hand"
        start(service, by_hand, "succeeded")
        start(service, by_hand, "warning", "CODE=3")
        start(service, by_hand, "failed", "CODE=42")
        run(service, "job", "cancel", str(start(service, by_hand, "running", "NAP=600")))
        start(service, f"{company}/Nowhere", "scheduled")
        start(service, by_hand, "running", "NAP=600")  # the stop loses it
    start(service, "acme/Without a PIN", "blocked")
    eventually(lambda: "skipped" in states(service, "job").values(), 240)
    service.stop()

    admin = service.events[0]
    service.start()
    service.events.append(admin)
    for company in PEOPLE.values():
        for name in ("Each minute", "Each minute nowhere"):
            run(service, "template", "set", f"{company}/{name}", "active=false")
        start(service, f"{company}/By hand", "running", "NAP=600")
    eventually(lambda: verified(service)["unsealed"] == 0, 120)
    owed = (datetime.now(UTC) + timedelta(seconds=90)).replace(second=0, microsecond=0)
    apply(service, *(owed_template(misfire, owed) for misfire in ("all", "latest")))
    eventually(lambda: service.rest().get("/api/v1/status").json()["waiting_for_prefect"] == 0)
    found = {
        "people": people,
        "pins": pins,
        "owed": owed.isoformat(),
        "seals": verified(service)["seals"],
        "jobs": states(service, "job"),
        "tasks": states(service, "task"),
    }
    for pid in service.processes():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert datetime.now(UTC) < owed, "the machine is too slow: nothing is owed"
    return found


def owed_template(misfire: str, owed: datetime) -> dict[str, Any]:
    """A run template with a window that begins then, and the next one years later.

    As one of the days begins with `*`, both have to match.
    """
    cron = f"{owed.minute} {owed.hour} */{owed.day - 1} {owed.month} {owed:%a}"
    return {
        "kind": "runtemplate",
        "company": "acme",
        "app": "Open",
        "credentials": ["Safe"],
        "name": f"Owed {misfire}",
        "misfire": misfire,
        "interv": "c",
        "cron": cron,
    }


def run(service: Service, *words: str, stdin: str = "") -> str:
    """What a command prints, once it has succeeded."""
    ran = service.jobauto(*words, stdin=stdin)
    assert ran.returncode == 0, f"{words}: {ran.stderr}{ran.stdout}"
    return ran.stdout


def apply(service: Service, *records: dict[str, Any]) -> None:
    run(service, "apply", "-", "--yes", stdin=json.dumps(records))


def start(service: Service, template: str, state: str, *values: str) -> int:
    """Start a job and wait until it is in that state; its id."""
    words = [word for value in values for word in ("--env", value)]
    number: int = service.json("run", template, *words)["id"]
    service.job_in(number, state)
    return number


def states(service: Service, kind: str) -> dict[str, str]:
    """The states of all jobs or tasks by their ids."""
    records = service.json(kind, "list", "--limit", "1000")
    return {number: record["state"] for number, record in sorted(records.items())}


def verified(service: Service) -> dict[str, Any]:
    found: dict[str, Any] = service.json("audit", "verify")
    return found


def provide_prefect(home: Path, programs: Path) -> None:
    """Let that release's Prefect make its tables: the tests' service would copy this one's."""
    make_folder(home / "prefect")
    argv = [programs / "prefect", "server", "database", "upgrade", "-y"]
    environment = clean_environment() | {"PREFECT_HOME": str(home / "prefect")}
    subprocess.run(argv, env=environment, check=True, capture_output=True)


def pack(place: Path, archive: Path) -> None:
    """Keep a home with its databases, without logs and sockets."""

    def kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        is_kept = member.isfile() or member.isdir()
        return member if is_kept and member.name != "home/logs" else None

    with tarfile.open(archive, "w:xz", preset=9) as packed:
        for path in (place / "home", *sorted(place.glob("*.sql"))):
            packed.add(path, path.name, filter=kept)


def write(kind: str, programs: Path, place: Path, archive: Path) -> None:
    """Write the archive of a home on that kind of database, and what is in it."""
    with databases(kind, place) as urls:
        service = Service(place / "home", programs=programs, **settings_of(urls))
        provide_prefect(service.home, programs)
        try:
            found = make(service)
        finally:
            service.stop()
        for name, url in urls.items():
            subprocess.run(["pg_dump", "--no-owner", "-f", place / name, url], check=True)
    pack(place, archive)
    archive.with_suffix("").with_suffix(".json").write_text(json.dumps(found, indent=2) + "\n")


def main(wheel: Path) -> None:
    """Write the homes of a wheel's release."""
    folder = HOMES / str(parse_wheel_filename(wheel.name)[1])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        programs = install(wheel, Path(temporary))
        for kind in KINDS:
            place = Path(temporary) / kind
            place.mkdir()
            write(kind, programs, place, folder / f"{kind}.tar.xz")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
