"""Opening the ledger: one engine, and two doors to it, for reading and for writing."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet
from sqlalchemy import Connection, Engine, create_engine, event, make_url, select
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError
from sqlalchemy.orm import Session, sessionmaker

from jobauto_prefect.clock import Clock, utc_now
from jobauto_prefect.errors import (
    Conflict,
    Contended,
    KeyMissing,
    KeyTaken,
    LedgerUnavailable,
    NotReady,
)
from jobauto_prefect.home import require_whole
from jobauto_prefect.ledger import confirmations, migrate
from jobauto_prefect.ledger.audit import RIGHTS_WRITTEN, SERVICE, Actor, WritingSession
from jobauto_prefect.ledger.database_clock import DatabaseClock
from jobauto_prefect.ledger.postgresql import Limits, timed_engine
from jobauto_prefect.ledger.records import Fact
from jobauto_prefect.ledger.secrets import SecretBox, load_key
from jobauto_prefect.ledger.sessions import PatientSession, again_if_dropped
from jobauto_prefect.settings import Settings

KEY_FACT = "key_fingerprint"
PREFECT_KEY_FACT = "prefect_key"
AUDIT_KEY_FACT = "audit_key"
SEALED_FACTS = (PREFECT_KEY_FACT, AUDIT_KEY_FACT)
"""Facts whose values are sealed with the key."""

CROSSED = frozenset({"40001", "40P01"})
"""SQLSTATEs of a transaction that was taken back for another one's sake: serialization failure,
deadlock."""

_KNOWN_KEY = select(Fact.value).where(Fact.name == KEY_FACT)

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
        """A session that only reads. On PostgreSQL each statement sees what is committed by then.

        Raises:
            LedgerUnavailable: the database does not answer.
        """
        with database_errors(), self._read() as session:
            yield session

    @contextmanager
    def snapshot(self) -> Iterator[Session]:
        """A session that only reads: all of it as of one instant, as much as it may be.

        Raises:
            LedgerUnavailable: the database does not answer.
        """
        with database_errors(), self._snapshot() as session:
            yield session

    @contextmanager
    def writing(self, actor: Actor) -> Iterator[WritingSession]:
        """One transaction, committed at the end of the block with its audit entries.

        Raises:
            LedgerUnavailable: the database does not answer.
            Contended: another transaction got in its way; the same again may be done.
        """
        with database_errors(), self._write() as session:
            again_if_dropped(session, session.connection)
            session.actor = actor
            session.clock = self.clock
            session.receivers = self.receivers
            yield session
            session.commit()
            if session.info.pop(RIGHTS_WRITTEN, False):
                for call in self._wanting_rights:
                    call()

    def when_rights_are_written(self, call: Callable[[], None]) -> None:
        """Call after each commit, here in this process, of what may change somebody's rights."""
        self._wanting_rights.append(call)

    def _knows_key(self, fingerprint: str) -> bool:
        with self.reading() as session:
            return session.scalar(_KNOWN_KEY) == fingerprint

    def close(self) -> None:
        """Give all connections back."""
        self.engine.dispose()


def _sessions(engine: Engine, **options: bool) -> sessionmaker[PatientSession]:
    """Makers of sessions that read; the options say how their transactions begin."""
    reading = engine.execution_options(**options)
    return sessionmaker(reading, class_=PatientSession, expire_on_commit=False)


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
        migrate.require_current(engine)
    ledger = Ledger(engine, box, clock, settings.webhook_urls)
    _require_key(ledger)
    return ledger


def ledger_at(engine: Engine, key: Path) -> Ledger:
    """The ledger of a database whose tables are of this version, with the key of a file.

    Raises:
        KeyMissing: the file is not its key.
    """
    ledger = Ledger(engine, load_key(key), _clock_of(engine))
    _require_key(ledger)
    return ledger


def version_of(settings: Settings) -> str | None:
    """The revision of the database; None where it has no tables, or where SQLite has no file.

    Raises:
        LedgerUnavailable: the database does not answer.
    """
    url = make_url(settings.ledger_url)
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").exists():
        return None
    engine = make_engine(settings.ledger_url, usual_limits(settings))
    try:
        with database_errors():
            return migrate.current(engine)
    finally:
        engine.dispose()


def _clock_of(engine: Engine) -> Clock:
    """The clock of a ledger's database; SQLite's is the host's."""
    if engine.dialect.name == "sqlite":
        return utc_now
    clock = DatabaseClock()
    clock.follow(engine)
    return clock


def usual_limits(settings: Settings) -> Limits:
    """How long the database may take where somebody waits."""
    return Limits(
        connect=settings.database_connect_seconds,
        answer=settings.database_answer_seconds,
        idle=settings.database_idle_seconds,
    )


def long_limits(settings: Settings) -> Limits:
    """How long the database may take for what nobody else waits for: migrations, `apply`."""
    return replace(usual_limits(settings), answer=settings.database_long_seconds)


def make_engine(url: str, limits: Limits | None = None) -> Engine:
    """An engine for SQLite (WAL) or PostgreSQL. `limits` are the latter's; None: the usual ones."""
    if not url.startswith("sqlite"):
        limits = limits or Limits()
        engine = timed_engine(url, limits, pool_size=10, max_overflow=20)
        event.listen(engine, "connect", _leave_beginnings_to_us)
        event.listen(engine, "begin", _begin_postgresql)
        return engine
    engine = create_engine(url, connect_args={"timeout": 30})
    event.listen(engine, "do_connect", _make_private)
    event.listen(engine, "connect", _configure_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _leave_beginnings_to_us(connection: Any, _record: Any) -> None:
    connection.autocommit = True


def _begin_postgresql(connection: Connection) -> None:
    """Reads need no transaction: beginning and ending it would cost as much as what is read."""
    options = connection.get_execution_options()
    if options.get("jobauto_snapshot"):
        connection.exec_driver_sql("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    elif not options.get("jobauto_reads"):
        connection.exec_driver_sql("BEGIN")


def _make_private(_dialect: Any, _record: Any, arguments: Sequence[Any], _options: Any) -> None:
    """SQLite would make the file readable for others, and gives its mode to `-wal` and `-shm`.

    A file that is there is not opened: closing it would end the locks of all connections of this
    process, and the next process to leave would take the `-wal` away from them.
    """
    with contextlib.suppress(OSError):  # it is there, or the driver says what is wrong
        os.close(os.open(arguments[0], os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _configure_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver must not begin transactions by itself
    cursor = connection.cursor()
    for pragma in (
        "journal_mode=WAL",
        "synchronous=NORMAL",
        "foreign_keys=ON",
        "busy_timeout=30000",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    # A writer takes the lock at once: a lock taken later can fail in the middle of its work.
    writes = connection.get_execution_options().get("jobauto_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def database_errors() -> Iterator[None]:
    """Raise what the database refuses, or that it does not answer, as errors of this project."""
    try:
        yield
    except OperationalError as error:
        if getattr(error.orig, "sqlstate", None) in CROSSED:
            raise Contended(
                "somebody else changed the same records at the same time, and this change was"
                " taken back; try again"
            ) from error
        raise LedgerUnavailable(_unavailable(error)) from error
    except IntegrityError as error:
        raise KeyTaken(
            "another record with the same key came first; read it and try again"
        ) from error
    except DBAPIError as error:
        if error.connection_invalidated:
            raise LedgerUnavailable(_unavailable(error)) from error
        raise


def _unavailable(error: DBAPIError) -> str:
    reason = str(error.orig).strip().splitlines()[0] if str(error.orig).strip() else "no answer"
    return f"the ledger's database does not answer ({reason}); try again when it is back"


def _require_key(ledger: Ledger) -> None:
    """The first opening remembers which key it is; later ones compare."""
    with ledger.reading() as session:
        known = session.scalar(_KNOWN_KEY)
    if known is None:
        with ledger.writing(SERVICE) as session:
            session.merge(Fact(name=KEY_FACT, value=ledger.box.fingerprint))
    elif known not in ledger.box.ring.fingerprints:  # it has two while it is being rotated
        raise KeyMissing(
            "the key file is not the one this ledger's secrets were stored with; restore that file"
        )


confirmations.watch(WritingSession)


def prefect_key(ledger: Ledger) -> str:
    """The key of Prefect's blocks: made once, kept sealed, the same whatever the ledger's key."""
    with ledger.reading() as session:
        known = _kept_secret(ledger, session, PREFECT_KEY_FACT)
    if known is None:
        sealed = ledger.box.seal({PREFECT_KEY_FACT: Fernet.generate_key().decode()})
        with contextlib.suppress(Conflict), ledger.writing(SERVICE) as session:
            session.add(Fact(name=PREFECT_KEY_FACT, value=sealed[PREFECT_KEY_FACT]))
        with ledger.reading() as session:  # somebody else may have been quicker
            known = _kept_secret(ledger, session, PREFECT_KEY_FACT)
    assert known is not None  # noqa: S101 - facts are never deleted
    return known


def audit_key(ledger: Ledger, session: Session) -> str | None:
    """The key of the audit trail's seals, the same whatever the ledger's key; None: no seal yet.

    It comes with the first seal: seals and key are to be read in one snapshot.
    """
    return _kept_secret(ledger, session, AUDIT_KEY_FACT)


def new_audit_key(ledger: Ledger) -> tuple[str, Fact]:
    """A key derived from the ledger's, and the fact that keeps it: one goes with the first seal."""
    key = ledger.box.derived("audit seals")
    sealed = ledger.box.seal({AUDIT_KEY_FACT: key})
    return key, Fact(name=AUDIT_KEY_FACT, value=sealed[AUDIT_KEY_FACT])


def _kept_secret(ledger: Ledger, session: Session, name: str) -> str | None:
    sealed = session.scalar(select(Fact.value).where(Fact.name == name))
    return None if sealed is None else ledger.box.open({name: sealed})[name]
