"""The database server of the ledger: whether it answers, and which version it is."""

from sqlalchemy import select
from sqlalchemy.orm import Session


def is_answering(session: Session) -> bool:
    """Whether the database answers at all."""
    return bool(session.scalar(select(1)) == 1)


def database_version(session: Session) -> str:
    """Return what the ledger is kept in: `PostgreSQL 16.3`."""
    dialect = session.get_bind().dialect
    version = ".".join(str(part) for part in dialect.server_version_info or ())
    return f"{DATABASES.get(dialect.name, dialect.name)} {version}".strip()


DATABASES = {"postgresql": "PostgreSQL", "sqlite": "SQLite"}
