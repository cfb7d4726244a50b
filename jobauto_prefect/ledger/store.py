"""The open ledger: one engine, sessions for reading and for writing, and its keys."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from cryptography.fernet import Fernet
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session, sessionmaker

from jobauto_prefect.clock import Clock, utc_now
from jobauto_prefect.errors import Conflict
from jobauto_prefect.ledger.audit.trail import RIGHTS_WRITTEN, SERVICE, Actor, WritingSession
from jobauto_prefect.ledger.database.engine import database_errors
from jobauto_prefect.ledger.database.sessions import ReconnectingSession, retry_if_dropped
from jobauto_prefect.ledger.records import InstallationValue
from jobauto_prefect.ledger.secrets import SecretBox

KEY_FACT = "key_fingerprint"
PREFECT_KEY_FACT = "prefect_key"
AUDIT_KEY_FACT = "audit_key"
SEALED_FACTS = (PREFECT_KEY_FACT, AUDIT_KEY_FACT)
"""Facts whose values are encrypted with the key."""

KNOWN_KEY = select(InstallationValue.value).where(InstallationValue.name == KEY_FACT)

ReadingSession = Session
"""A session that is never committed."""


class Ledger:
    """The open ledger. `writing(actor)` and `snapshot()` are one transaction each.

    `receivers` are the webhook addresses that get every event.
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
            Contended: another transaction interfered; the caller may retry.
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
        """Run `call` after each commit in this process that may change rights."""
        self._wanting_rights.append(call)

    def _knows_key(self, fingerprint: str) -> bool:
        with self.reading() as session:
            return session.scalar(KNOWN_KEY) == fingerprint

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def _sessions(engine: Engine, **options: bool) -> sessionmaker[ReconnectingSession]:
    """Return a factory of reading sessions; the options say how their transactions begin."""
    reading = engine.execution_options(**options)
    return sessionmaker(reading, class_=ReconnectingSession, expire_on_commit=False)


def prefect_key(ledger: Ledger) -> str:
    """Return the key of Prefect's blocks: created once, stored encrypted, kept by rotations."""
    with ledger.reading() as session:
        kept = _kept_secret(ledger, session, PREFECT_KEY_FACT)
    if kept is None:
        sealed = ledger.box.seal({PREFECT_KEY_FACT: Fernet.generate_key().decode()})
        with contextlib.suppress(Conflict), ledger.writing(SERVICE) as session:
            session.add(InstallationValue(name=PREFECT_KEY_FACT, value=sealed[PREFECT_KEY_FACT]))
        with ledger.reading() as session:  # another process may have been faster
            kept = _kept_secret(ledger, session, PREFECT_KEY_FACT)
    assert kept is not None  # noqa: S101 - these values are never deleted
    return kept


def audit_key(ledger: Ledger, session: Session) -> str | None:
    """Return the key of the audit trail's seals, unchanged by rotations; None before the first.

    It is created with the first seal: read seals and key in one snapshot.
    """
    return _kept_secret(ledger, session, AUDIT_KEY_FACT)


def new_audit_key(ledger: Ledger) -> tuple[str, InstallationValue]:
    """Derive the key of the seals, with the value that stores it; both come with the first seal."""
    key = ledger.box.derived("audit seals")
    sealed = ledger.box.seal({AUDIT_KEY_FACT: key})
    return key, InstallationValue(name=AUDIT_KEY_FACT, value=sealed[AUDIT_KEY_FACT])


def _kept_secret(ledger: Ledger, session: Session, name: str) -> str | None:
    sealed = session.scalar(select(InstallationValue.value).where(InstallationValue.name == name))
    return None if sealed is None else ledger.box.open({name: sealed})[name]
