"""Prepares a home: key, tables, the first user, a token for its worker."""

import asyncio
import contextlib
import os
import secrets
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from jobauto_prefect.cli.local_ledger import local_actor
from jobauto_prefect.cli.service.program import part_environment, program_command
from jobauto_prefect.engine.prefect_server.database import (
    prefect_database_url,
    upgrade_prefect_tables,
)
from jobauto_prefect.errors import Conflict, KeyMissing, NotReady
from jobauto_prefect.home import make_home
from jobauto_prefect.ledger.access.tokens import bearer, issue_worker_token
from jobauto_prefect.ledger.database import migration
from jobauto_prefect.ledger.database.engine import database_errors, long_limits, make_engine
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.queries.lookup import newest_records
from jobauto_prefect.ledger.records import User
from jobauto_prefect.ledger.secrets import create_key
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings

ADMIN = "admin"
PASSWORD_BYTES = 12
TOKEN_FILE = "worker.token"  # noqa: S105 - the name of a file


@dataclass(frozen=True, slots=True)
class PreparedHome:
    """A prepared home. `password` is the new admin's, None if users exist."""

    ledger: Ledger
    token_file: Path
    password: str | None = field(default=None, repr=False)


def require_free(host: str, port: int, option: str) -> None:
    """Check that a port is free.

    Raises:
        Conflict: it is not.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise Conflict(
                f"{host}:{port} can't be used ({error.strerror}); "
                f"stop what uses it, or use another port: {option}"
            ) from None


def prepare_home(settings: Settings) -> PreparedHome:
    """Create what is missing in a home; idempotent.

    Raises:
        KeyMissing: the ledger has secrets, but the key they were stored with is gone.
        LedgerUnavailable: the database does not answer.
    """
    make_home(settings)
    engine = make_engine(settings.ledger_url, long_limits(settings))
    with database_errors():
        migration.upgrade(engine)
    engine.dispose()
    created = create_key(settings.key_path)
    try:
        ledger = open_ledger(settings)
    except KeyMissing:
        if created:  # an existing ledger: it needs its own key back
            settings.key_path.unlink()
        raise
    return PreparedHome(
        ledger, _ensure_worker_token(settings, ledger), _create_first_user(settings, ledger)
    )


def upgrade_prefect(settings: Settings) -> None:
    """Bring Prefect's tables on PostgreSQL to its version, one process at a time.

    Those on SQLite have one server, which does that when it starts.
    """
    if not prefect_database_url(settings).startswith("postgresql"):
        return
    engine = make_engine(settings.ledger_url, long_limits(settings))
    with database_errors(), migration.upgrade_lock(engine):
        asyncio.run(upgrade_prefect_tables())
    engine.dispose()


def _create_first_user(settings: Settings, ledger: Ledger) -> str | None:
    """Create the administrator if there is no user yet, by the command people would use.

    Return the password, or None if users exist.
    """
    with ledger.reading() as session:
        if newest_records(session, User, limit=1):
            return None
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    creation = subprocess.run(
        program_command("user", "create", ADMIN, "--role", "super_admin", "--password-stdin"),
        input=password,
        env=part_environment(settings, os.environ),
        cwd=settings.home,
        capture_output=True,
        text=True,
        check=False,
    )
    if creation.returncode:
        raise NotReady(creation.stderr.strip().removeprefix("error: "))
    return password


def _ensure_worker_token(settings: Settings, ledger: Ledger) -> Path:
    """Make sure that a file has a valid token for the workers of this home's pool."""
    path = settings.home / TOKEN_FILE
    with contextlib.suppress(FileNotFoundError), ledger.reading() as session:
        token = bearer(session, path.read_text().strip(), ledger.clock())
        if token is not None and settings.pool in token.pools:
            return path
    with ledger.writing(local_actor()) as session:
        text, _ = issue_worker_token(session, [settings.pool], None)
    path.unlink(missing_ok=True)  # an existing file may have another mode
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text + "\n")
    return path
