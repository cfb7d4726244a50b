"""How the parts of an installation report themselves, so that they can be compared."""

import asyncio
import contextlib
import hashlib
import hmac
import importlib.metadata
import logging
import os
import time
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from uuid import uuid4, uuid5

from pydantic import SecretStr

from jobauto_prefect import __version__
from jobauto_prefect.engine.prefect_server.database import prefect_database_url
from jobauto_prefect.errors import JobautoError, NotReady
from jobauto_prefect.ledger import parts
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.queries.events import sqlite_files
from jobauto_prefect.ledger.records import PartRecord
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.monitoring.ports import Part
from jobauto_prefect.settings import COMPANY_ID, Settings, host_name

logger = logging.getLogger(__name__)

OF_ONE_HOST = frozenset({
    "home", "database_url", "database_listen_url", "database_connections", "key_file",
    "prefect_api_url", "api_host", "api_port", "prefect_port", "log_format", "management_host",
    "management_port", "worker_token", "worker_directory", "worker_limit", "run_as", "docker_url",
    "podman_url", "kubernetes_namespace", "kubernetes_context", "kubernetes_pending_seconds",
    "kubernetes_copy_image", "helm_directory", "tls_cert", "tls_key", "trusted_proxies",
    "db_connection", "db_host", "db_port", "db_database", "db_username", "db_password",
})  # fmt: skip
"""Settings that may differ between parts of one kind."""


ENDING_SECONDS = 5.0
"""How long a Prefect server waits for another one on this host, which may be about to end."""

LATE_AFTER = timedelta(seconds=1.5 * parts.SIGN_SECONDS)
"""How long a part of a container with this host's name may be silent."""

STOP_SECONDS = 2.0
"""How long the end of a part waits for its report under way."""


PROCESS = uuid4()
OWN = {part: uuid5(PROCESS, part.name) for part in Part}
"""Identify the parts of this process."""


class PartReport:
    """What this process reports about itself as a part; `role` is that of a Prefect server."""

    def __init__(self, ledger: Ledger, settings: Settings, part: Part, role: str = "") -> None:
        self.ledger, self._settings, self._part, self._role = ledger, settings, part, role
        self.instance, self.started_at = OWN[part], ledger.clock()
        self._database = prefect_database_url(settings) if part is Part.PREFECT else ""

    def store(self) -> None:
        """Store a sign of life, with what is true now: keys and files change while it runs."""
        ahead = getattr(self.ledger.clock, "host_is_ahead", timedelta())  # SQLite: the host's
        record = PartRecord(
            instance=self.instance,
            kind=self._part.name.lower(),
            host=host_name(),
            version=__version__,
            started_at=self.started_at,
            clock_ahead=ahead.total_seconds(),
            facts={
                "pid": os.getpid(),
                "pids": _pids(),
                "key": self.ledger.box.fingerprint,
                "prefect": importlib.metadata.version("prefect"),
                "connections": self._settings.database_connections,
                "settings": {
                    f"JOBAUTO_{name.upper()}": self._digest(_plain(getattr(self._settings, name)))
                    for name in Settings.model_fields
                    if name not in OF_ONE_HOST
                },
                "files": self._files(),
                "role": self._role,
                "database": self._digest(self._database),
            },
        )
        with self.ledger.writing(SERVICE) as session:
            if self._part is Part.SERVICES:  # they read the sources
                files = {path: Path(path).is_file() or None for path in sqlite_files(session)}
                record.facts["sources"] = files
            parts.report(session, record)

    def _files(self) -> dict[str, str | None]:
        """Return digests of the files that facades use; None: it is not there.

        Of the programs that check availability only whether they are there: machines have their
        own builds of them.
        """
        found: dict[str, str | None] = {}
        for name in self._settings.env_files:
            # Of files by company the folder that all companies' are in.
            path = Path(name.partition(COMPANY_ID)[0])
            for file in sorted(path.rglob("*.env")) if path.is_dir() else [path]:
                try:
                    text = file.read_text(errors="replace") if file.is_file() else None
                except OSError:
                    text = None
                found[str(file)] = None if text is None else self._digest(text)
        for name in self._settings.availability_commands:
            found[name] = self._digest("executable") if os.access(name, os.X_OK) else None
        return found

    def _digest(self, value: object) -> str:
        """Return a digest that only parts with the installation's key can compute."""
        key = self.ledger.box.derived("parts").encode()
        return hmac.new(key, repr(value).encode(), hashlib.sha256).hexdigest()[:16]

    def forget(self) -> None:
        """Remove this part, which ends."""
        with self.ledger.writing(SERVICE) as session:
            parts.forget(session, self.instance)


def _plain(value: object) -> object:
    return value.get_secret_value() if isinstance(value, SecretStr) else value


@contextlib.asynccontextmanager
async def reported(
    ledger: Ledger, settings: Settings, part: Part, role: str = ""
) -> AsyncIterator[None]:
    """Report this process as a part of the installation while the context lasts."""
    report = PartReport(ledger, settings, part, role)
    stopping = asyncio.Event()
    reporting = asyncio.create_task(_report_until(stopping, report))
    try:
        yield
    finally:
        stopping.set()
        ended, _ = await asyncio.wait({reporting}, timeout=STOP_SECONDS)
        if ended:  # else it may be stored again; it becomes silent
            with contextlib.suppress(JobautoError):
                await asyncio.to_thread(report.forget)


async def _report_until(stopping: asyncio.Event, report: PartReport) -> None:
    while not stopping.is_set():
        with contextlib.suppress(JobautoError):  # while the ledger is away it is silent
            await asyncio.to_thread(report.store)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(parts.SIGN_SECONDS):
                await stopping.wait()


def require_only_server(ledger: Ledger, settings: Settings) -> None:
    """Wait until no other Prefect server of this installation lives: without Redis there is one.

    A killed one is silent after `SILENT_AFTER`; on this host it is enough that its process is gone.

    Raises:
        NotReady: one that began before this one still reports itself.
    """
    own = PartReport(ledger, settings, Part.PREFECT, "all")
    own.store()  # first, so that of two that begin at once one sees the other
    begun = time.monotonic()
    while other := _earlier_server(own):
        place = f"on {other.host} (process {other.facts['pid']})"
        patience = ENDING_SECONDS if _is_here(other) else parts.SILENT_AFTER.total_seconds()
        if time.monotonic() > begun + patience:
            own.forget()
            raise NotReady(
                f"another Prefect server runs {place} for the same ledger, and both would do"
                " Prefect's background work: stop it, or set JOBAUTO_REDIS_URL for all of them, so"
                " that they share the work"
            )
        logger.info("waiting until the Prefect server %s has ended", place)
        time.sleep(1)


def _earlier_server(own: PartReport) -> PartRecord | None:
    for part in read_living(own.ledger):
        is_earlier = (part.started_at, part.instance) < (own.started_at, own.instance)
        if part.kind == Part.PREFECT.name.lower() and is_earlier:
            return part
    return None


def read_living(ledger: Ledger) -> list[PartRecord]:
    """Return the parts that live, without those of this host whose process is gone."""
    now = ledger.clock()
    with ledger.reading() as session:
        living = parts.living_parts(session, now)
    return [part for part in living if not _is_gone(part, now)]


def _is_gone(part: PartRecord, now: datetime) -> bool:
    if not _is_here(part):
        # A container that was killed and started again has its name, but other process numbers.
        return part.host == host_name() and now - part.seen_at > LATE_AFTER
    pid = int(part.facts["pid"])
    # A restarted container gives its processes the same numbers.
    is_former = pid == os.getpid() and part.instance not in OWN.values()
    return is_former or not Path(f"/proc/{pid}").exists()


def _is_here(part: PartRecord) -> bool:
    return (part.host, part.facts["pids"]) == (host_name(), _pids())


def _pids() -> str:
    """Return what the numbers of processes are unique in."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""
