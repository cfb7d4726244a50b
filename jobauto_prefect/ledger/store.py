"""Opening the ledger: one engine, and two doors to it, for reading and for writing."""

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cryptography.fernet import Fernet
from sqlalchemy import Connection, Engine, create_engine, event, select
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError
from sqlalchemy.orm import Session, sessionmaker

from jobauto_prefect.clock import Clock, utc_now
from jobauto_prefect.errors import Conflict, KeyMissing, LedgerUnavailable
from jobauto_prefect.ledger import migrate
from jobauto_prefect.ledger.audit import SERVICE, Actor, WritingSession
from jobauto_prefect.ledger.records import Fact
from jobauto_prefect.ledger.secrets import SecretBox, load_key
from jobauto_prefect.settings import Settings

KEY_FACT = "key_fingerprint"
PREFECT_KEY_FACT = "prefect_key"
SEALED_FACTS = (PREFECT_KEY_FACT,)
"""Facts whose values are sealed with the key."""

_KNOWN_KEY = select(Fact.value).where(Fact.name == KEY_FACT)

ReadingSession = Session
"""A session nobody commits."""


class Ledger:
    """The open ledger. `reading()` and `writing(actor)` are one transaction each.

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
        self._read = sessionmaker(engine, expire_on_commit=False)
        self._write = sessionmaker(
            engine.execution_options(jobauto_writes=True),
            class_=WritingSession,
            expire_on_commit=False,
        )

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A session that is never committed.

        Raises:
            LedgerUnavailable: the database does not answer.
        """
        with database_errors(), self._read() as session:
            yield session

    @contextmanager
    def writing(self, actor: Actor) -> Iterator[WritingSession]:
        """One transaction, committed at the end of the block with its audit entries.

        Raises:
            LedgerUnavailable: the database does not answer.
        """
        with database_errors(), self._write() as session, session.begin():
            session.actor = actor
            session.clock = self.clock
            session.receivers = self.receivers
            yield session

    def _knows_key(self, fingerprint: str) -> bool:
        with self.reading() as session:
            return session.scalar(_KNOWN_KEY) == fingerprint

    def close(self) -> None:
        """Give all connections back."""
        self.engine.dispose()


def open_ledger(settings: Settings, clock: Clock = utc_now) -> Ledger:
    """Open the ledger of these settings.

    Raises:
        KeyMissing: the key file is not there, or is not the one of this ledger.
        NotReady: the database has no tables, or those of another version.
        LedgerUnavailable: the database does not answer.
    """
    box = load_key(settings.key_path)
    engine = make_engine(settings.ledger_url)
    with database_errors():
        migrate.require_current(engine)
    ledger = Ledger(engine, box, clock, settings.webhook_urls)
    _require_key(ledger)
    return ledger


def make_engine(url: str) -> Engine:
    """An engine for SQLite (WAL) or PostgreSQL."""
    if not url.startswith("sqlite"):
        return create_engine(url, pool_pre_ping=True, pool_size=10, max_overflow=20)
    engine = create_engine(url, connect_args={"timeout": 30})
    event.listen(engine, "connect", _configure_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


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
        raise LedgerUnavailable(_unavailable(error)) from error
    except IntegrityError as error:
        raise Conflict(
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


def prefect_key(ledger: Ledger) -> str:
    """The key of Prefect's blocks: made once, kept sealed, the same whatever the ledger's key."""
    found = select(Fact.value).where(Fact.name == PREFECT_KEY_FACT)
    with ledger.reading() as session:
        known = session.scalar(found)
    if known is None:
        sealed = ledger.box.seal({PREFECT_KEY_FACT: Fernet.generate_key().decode()})
        with contextlib.suppress(Conflict), ledger.writing(SERVICE) as session:
            session.add(Fact(name=PREFECT_KEY_FACT, value=sealed[PREFECT_KEY_FACT]))
        with ledger.reading() as session:  # somebody else may have been quicker
            known = session.scalars(found).one()
    return ledger.box.open({PREFECT_KEY_FACT: known})[PREFECT_KEY_FACT]
