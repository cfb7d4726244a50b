"""How the parts of an installation report themselves, so that they can be compared."""

import asyncio
import contextlib
import hashlib
import hmac
import importlib.metadata
import logging
import os
import time
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4, uuid5

from pydantic import SecretStr

from jobauto_prefect import __version__
from jobauto_prefect.engine.prefect_server.database import prefect_database_url
from jobauto_prefect.errors import JobautoError, NotReady
from jobauto_prefect.ledger import parts
from jobauto_prefect.ledger.audit.trail import SERVICE
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

STOP_SECONDS = 2.0
"""How long the end of a part waits for its report under way."""


PROCESS = uuid4()
OWN = {part: uuid5(PROCESS, part.name) for part in Part}
"""Identify the parts of this process."""


def _describe(
    ledger: Ledger, settings: Settings, part: Part, facts: Mapping[str, Any]
) -> PartRecord:
    return PartRecord(
        instance=OWN[part],
        kind=part.name.lower(),
        host=host_name(),
        version=__version__,
        started_at=ledger.clock(),
        facts={
            "pid": os.getpid(),
            "pids": _pids(),
            "prefect": importlib.metadata.version("prefect"),
            "connections": settings.database_connections,
            "settings": _settings(ledger, settings),
            **facts,
        },
    )


def _store(ledger: Ledger, settings: Settings, record: PartRecord) -> None:
    ahead = getattr(ledger.clock, "host_is_ahead", timedelta())  # SQLite has the host's clock
    record.clock_ahead = ahead.total_seconds()
    record.facts = {**record.facts, "files": _files(ledger, settings)}
    with ledger.writing(SERVICE) as session:
        parts.report(session, record)


@contextlib.asynccontextmanager
async def reported(
    ledger: Ledger, settings: Settings, part: Part, **facts: Any
) -> AsyncIterator[None]:
    """Report this process as a part of the installation while the context lasts."""
    record = _describe(ledger, settings, part, facts)
    stopping = asyncio.Event()
    reporting = asyncio.create_task(_report(ledger, settings, record, stopping))
    try:
        yield
    finally:
        stopping.set()
        ended, _ = await asyncio.wait({reporting}, timeout=STOP_SECONDS)
        if ended:  # else it may be stored again; it becomes silent
            with contextlib.suppress(JobautoError):
                await asyncio.to_thread(_forget, ledger, record)


async def _report(
    ledger: Ledger, settings: Settings, record: PartRecord, stopping: asyncio.Event
) -> None:
    while not stopping.is_set():
        with contextlib.suppress(JobautoError):  # while the ledger is away it is silent
            await asyncio.to_thread(_store, ledger, settings, record)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(parts.SIGN_SECONDS):
                await stopping.wait()


def _forget(ledger: Ledger, record: PartRecord) -> None:
    with ledger.writing(SERVICE) as session:
        parts.forget(session, record.instance)


def require_only_server(ledger: Ledger, settings: Settings, **facts: Any) -> None:
    """Wait until no other Prefect server of this installation lives: without Redis there is one.

    A killed one is silent after `SILENT_AFTER`; on this host it is enough that its process is gone.

    Raises:
        NotReady: one that began before this one still reports itself.
    """
    own = _describe(ledger, settings, Part.PREFECT, facts)
    _store(ledger, settings, own)  # first, so that of two that begin at once one sees the other
    begun = time.monotonic()
    while other := _earlier_server(ledger, own):
        place = f"on {other.host} (process {other.facts['pid']})"
        patience = ENDING_SECONDS if _is_here(other) else parts.SILENT_AFTER.total_seconds()
        if time.monotonic() > begun + patience:
            _forget(ledger, own)
            raise NotReady(
                f"another Prefect server runs {place} for the same ledger, and both would do"
                " Prefect's background work: stop it, or set JOBAUTO_REDIS_URL for all of them, so"
                " that they share the work"
            )
        logger.info("waiting until the Prefect server %s has ended", place)
        time.sleep(1)


def _earlier_server(ledger: Ledger, own: PartRecord) -> PartRecord | None:
    begun = (own.started_at, own.instance)
    for part in read_living(ledger):
        if part.kind == own.kind and (part.started_at, part.instance) < begun:
            return part
    return None


def read_living(ledger: Ledger) -> list[PartRecord]:
    """Return the parts that live, without those of this host whose process is gone."""
    with ledger.reading() as session:
        living = parts.living_parts(session, ledger.clock())
    return [part for part in living if not _is_gone(part)]


def _is_gone(part: PartRecord) -> bool:
    if not _is_here(part):
        return False
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


def prefect_facts(ledger: Ledger, settings: Settings, role: str) -> dict[str, Any]:
    """Return what only Prefect servers report: their role and a digest of their database's URL."""
    return {"role": role, "database": digest(ledger, prefect_database_url(settings))}


def _settings(ledger: Ledger, settings: Settings) -> dict[str, str]:
    """Return digests of the settings that parts of a kind must have alike, by variable."""
    return {
        f"JOBAUTO_{name.upper()}": digest(ledger, repr(_plain(getattr(settings, name))))
        for name in Settings.model_fields
        if name not in OF_ONE_HOST
    }


def _plain(value: object) -> object:
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def _files(ledger: Ledger, settings: Settings) -> dict[str, str | None]:
    """Return digests of the files that credentials read values from; None: it is not there."""
    found: dict[str, str | None] = {}
    for name in settings.env_files:
        path = Path(name.partition(COMPANY_ID)[0])  # the folder of the companies', if they differ
        for file in sorted(path.rglob("*.env")) if path.is_dir() else [path]:
            try:
                text = file.read_text(errors="replace") if file.is_file() else None
            except OSError:
                text = None
            found[str(file)] = None if text is None else digest(ledger, text)
    return found


def digest(ledger: Ledger, text: str) -> str:
    """Return a digest that only parts with the installation's key can compute."""
    key = ledger.box.derived("parts").encode()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()[:16]
