"""Opening the ledger: with its original key, and tables of this version."""

import contextlib
import logging
import time
from pathlib import Path

from sqlalchemy import Engine, make_url

from jobauto_prefect.clock import Clock, utc_now
from jobauto_prefect.errors import Conflict, KeyMissing, NotReady
from jobauto_prefect.home import require_whole
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.database import migration
from jobauto_prefect.ledger.database.clock import DatabaseClock
from jobauto_prefect.ledger.database.engine import database_errors, make_engine, usual_limits
from jobauto_prefect.ledger.database.postgresql import Limits
from jobauto_prefect.ledger.jobs import confirmations  # noqa: F401 - it listens to flushes
from jobauto_prefect.ledger.records import InstallationValue
from jobauto_prefect.ledger.secrets import load_key
from jobauto_prefect.ledger.store import KEY_FACT, KNOWN_KEY, Ledger
from jobauto_prefect.settings import Settings

logger = logging.getLogger(__name__)


def open_ledger(
    settings: Settings, clock: Clock | None = None, limits: Limits | None = None
) -> Ledger:
    """Open the ledger in the settings. `clock` None: the database's; `limits` None: the usual ones.

    Raises:
        KeyMissing: the key file is missing, or is not the one of this ledger.
        NotReady: the database has no tables, or those of another version; or there is no
            installation here, or a backup that was not completely restored.
        LedgerUnavailable: the database does not answer.
    """
    require_whole(settings.home)
    if not settings.key_path.exists() and tables_of(settings)[0] is None:
        raise NotReady(
            f"there is no installation in {settings.home}; create one: jobauto up; or say where it"
            " is: JOBAUTO_HOME"
        )
    box = load_key(settings.key_path)
    engine = make_engine(settings.ledger_url, limits or usual_limits(settings))
    clock = clock or _clock_of(engine)
    with database_errors():
        migration.require_usable(engine)
    ledger = Ledger(engine, box, clock, settings.webhook_urls)
    _require_key(ledger)
    return ledger


def ledger_at(engine: Engine, key: Path) -> Ledger:
    """Return the ledger of a migrated database, with the key in a file.

    Raises:
        KeyMissing: the file is not its key.
    """
    ledger = Ledger(engine, load_key(key), _clock_of(engine))
    _require_key(ledger)
    return ledger


def tables_of(settings: Settings) -> tuple[str | None, str | None]:
    """Return the revision of the tables, and why this program can't work with them, if so.

    The revision is None if there are no tables, or if SQLite has no file.

    Raises:
        LedgerUnavailable: the database does not answer.
    """
    url = make_url(settings.ledger_url)
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").exists():
        return None, migration.NO_TABLES
    engine = make_engine(settings.ledger_url, usual_limits(settings))
    try:
        with database_errors():
            return migration.current(engine), migration.problem(engine)
    finally:
        engine.dispose()


def wait_for_tables(settings: Settings) -> None:
    """Return once nothing but a later upgrade is in the way: parts start before their tables.

    An installation without a key has not been set up; opening its ledger says so.

    Raises:
        LedgerUnavailable: the database does not answer.
    """
    told = None
    while settings.key_path.exists():
        version, problem = tables_of(settings)
        if problem is None or (version is not None and version > migration.newest()):
            return
        if problem != told:
            logger.warning("waiting: %s", told := problem)
        time.sleep(1.0)


def _clock_of(engine: Engine) -> Clock:
    """Return the clock of a ledger's database; SQLite's is the host's."""
    if engine.dialect.name == "sqlite":
        return utc_now
    clock = DatabaseClock()
    clock.follow(engine)
    return clock


def _require_key(ledger: Ledger) -> None:
    """Require the key that the first opening remembered; later ones compare.

    Raises:
        KeyMissing: it is another key.
    """
    kept = _known_key(ledger)
    if kept is None:
        known = InstallationValue(name=KEY_FACT, value=ledger.box.fingerprint)
        with contextlib.suppress(Conflict), ledger.writing(SERVICE) as session:
            session.add(known)
        kept = _known_key(ledger)  # another process may have been faster
    if kept not in ledger.box.ring.fingerprints:  # there are two during a rotation
        raise KeyMissing(
            "the key file is not the one this ledger's secrets were stored with; restore that file"
        )


def _known_key(ledger: Ledger) -> str | None:
    with ledger.reading() as session:
        fingerprint: str | None = session.scalar(KNOWN_KEY)
    return fingerprint
