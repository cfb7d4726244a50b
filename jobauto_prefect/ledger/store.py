"""Opening the ledger: one engine, and two doors to it, for reading and for writing."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cryptography.fernet import Fernet
from sqlalchemy import Engine, make_url, select
from sqlalchemy.orm import Session, sessionmaker

from jobauto_prefect.clock import Clock, utc_now
from jobauto_prefect.errors import (
    Conflict,
    KeyMissing,
    NotReady,
)
from jobauto_prefect.home import require_whole
from jobauto_prefect.ledger.audit.trail import RIGHTS_WRITTEN, SERVICE, Actor, WritingSession
from jobauto_prefect.ledger.database import migration
from jobauto_prefect.ledger.database.clock import DatabaseClock
from jobauto_prefect.ledger.database.engine import database_errors, make_engine, usual_limits
from jobauto_prefect.ledger.database.postgresql import Limits
from jobauto_prefect.ledger.database.sessions import ReconnectingSession, retry_if_dropped
from jobauto_prefect.ledger.jobs import confirmations
from jobauto_prefect.ledger.records import InstallationValue
from jobauto_prefect.ledger.secrets import SecretBox, load_key
from jobauto_prefect.settings import Settings

KEY_FACT = "key_fingerprint"
PREFECT_KEY_FACT = "prefect_key"
AUDIT_KEY_FACT = "audit_key"
SEALED_FACTS = (PREFECT_KEY_FACT, AUDIT_KEY_FACT)
"""Facts whose values are sealed with the key."""


_KNOWN_KEY = select(InstallationValue.value).where(InstallationValue.name == KEY_FACT)

ReadingSession = Session
"""A session nobody commits."""


class Ledger:
    """The open ledger. `writing(actor)` and `snapshot()` are one transaction each.

    `receivers` are the addresses that are told of every event.
    """

    def __init__(
        self,
        engine: Engine,
        box: SecretBox,
        clock: Clock = utc_now,
        receivers: Sequence[str] = (),
    ) -> None:
        self.engine = engine
        self.box = box
        box.confirm = self._knows_key
        self.clock = clock
        self.receivers = receivers
        self._wanting_rights: list[Callable[[], None]] = []
        self._read = _sessions(engine, jobauto_reads=True)
        self._snapshot = _sessions(engine, jobauto_snapshot=True)
        self._write = sessionmaker(
            engine.execution_options(jobauto_writes=True),
            class_=WritingSession,
            expire_on_commit=False,
        )

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Open a session that only reads; on PostgreSQL each statement sees the latest commits.

        Raises:
            LedgerUnavailable: the database does not answer.
        """
        with database_errors(), self._read() as session:
            yield session

    @contextmanager
    def snapshot(self) -> Iterator[Session]:
        """Open a session that only reads, as of one instant.

        Raises:
            LedgerUnavailable: the database does not answer.
        """
        with database_errors(), self._snapshot() as session:
            yield session

    @contextmanager
    def writing(self, actor: Actor) -> Iterator[WritingSession]:
        """Open a transaction; the end of the block commits it with its audit entries.

        Raises:
            LedgerUnavailable: the database does not answer.
            Contended: another transaction got in its way; the same again may be done.
        """
        with database_errors(), self._write() as session:
            retry_if_dropped(session, session.connection)
            session.actor = actor
            session.clock = self.clock
            session.receivers = self.receivers
            yield session
            session.commit()
            if session.info.pop(RIGHTS_WRITTEN, False):
                for call in self._wanting_rights:
                    call()

    def when_rights_are_written(self, call: Callable[[], None]) -> None:
        """Run `call` after each commit of this process that may change rights."""
        self._wanting_rights.append(call)

    def _knows_key(self, fingerprint: str) -> bool:
        with self.reading() as session:
            return session.scalar(_KNOWN_KEY) == fingerprint

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def _sessions(engine: Engine, **options: bool) -> sessionmaker[ReconnectingSession]:
    """Return a maker of sessions that read; the options say how their transactions begin."""
    reading = engine.execution_options(**options)
    return sessionmaker(reading, class_=ReconnectingSession, expire_on_commit=False)


def open_ledger(
    settings: Settings, clock: Clock | None = None, limits: Limits | None = None
) -> Ledger:
    """Open the ledger of these settings. `clock` None: the database's; `limits`: the usual ones.

    Raises:
        KeyMissing: the key file is not there, or is not the one of this ledger.
        NotReady: the database has no tables, or those of another version; or nothing is here, or a
            backup that was not restored to its end.
        LedgerUnavailable: the database does not answer.
    """
    require_whole(settings.home)
    if not settings.key_path.exists() and version_of(settings) is None:
        raise NotReady(
            f"there is no installation in {settings.home}; make one: jobauto up; or say where it"
            " is: JOBAUTO_HOME"
        )
    box = load_key(settings.key_path)
    engine = make_engine(settings.ledger_url, limits or usual_limits(settings))
    clock = clock or _clock_of(engine)
    with database_errors():
        migration.require_current(engine)
    ledger = Ledger(engine, box, clock, settings.webhook_urls)
    _require_key(ledger)
    return ledger


def ledger_at(engine: Engine, key: Path) -> Ledger:
    """Return the ledger of a database with this version's tables, with the key of a file.

    Raises:
        KeyMissing: the file is not its key.
    """
    ledger = Ledger(engine, load_key(key), _clock_of(engine))
    _require_key(ledger)
    return ledger


def version_of(settings: Settings) -> str | None:
    """Return the database's revision; None where it has no tables, or where SQLite has no file.

    Raises:
        LedgerUnavailable: the database does not answer.
    """
    url = make_url(settings.ledger_url)
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").exists():
        return None
    engine = make_engine(settings.ledger_url, usual_limits(settings))
    try:
        with database_errors():
            return migration.current(engine)
    finally:
        engine.dispose()


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
        kept = _known_key(ledger)  # somebody else may have been quicker
    if kept not in ledger.box.ring.fingerprints:  # it has two while it is being rotated
        raise KeyMissing(
            "the key file is not the one this ledger's secrets were stored with; restore that file"
        )


def _known_key(ledger: Ledger) -> str | None:
    with ledger.reading() as session:
        fingerprint: str | None = session.scalar(_KNOWN_KEY)
    return fingerprint


confirmations.track_ends()


def prefect_key(ledger: Ledger) -> str:
    """Return the key of Prefect's blocks: made once, kept encrypted, the same after rotations."""
    with ledger.reading() as session:
        kept = _kept_secret(ledger, session, PREFECT_KEY_FACT)
    if kept is None:
        sealed = ledger.box.seal({PREFECT_KEY_FACT: Fernet.generate_key().decode()})
        with contextlib.suppress(Conflict), ledger.writing(SERVICE) as session:
            session.add(InstallationValue(name=PREFECT_KEY_FACT, value=sealed[PREFECT_KEY_FACT]))
        with ledger.reading() as session:  # somebody else may have been quicker
            kept = _kept_secret(ledger, session, PREFECT_KEY_FACT)
    assert kept is not None  # noqa: S101 - these values are never deleted
    return kept


def audit_key(ledger: Ledger, session: Session) -> str | None:
    """Return the key of the audit trail's seals, the same after rotations; None before the first.

    It comes with the first seal: seals and key are to be read in one snapshot.
    """
    return _kept_secret(ledger, session, AUDIT_KEY_FACT)


def new_audit_key(ledger: Ledger) -> tuple[str, InstallationValue]:
    """Derive the key of the seals, with the value that keeps it; both go with the first seal."""
    key = ledger.box.derived("audit seals")
    sealed = ledger.box.seal({AUDIT_KEY_FACT: key})
    return key, InstallationValue(name=AUDIT_KEY_FACT, value=sealed[AUDIT_KEY_FACT])


def _kept_secret(ledger: Ledger, session: Session, name: str) -> str | None:
    sealed = session.scalar(select(InstallationValue.value).where(InstallationValue.name == name))
    return None if sealed is None else ledger.box.open({name: sealed})[name]
