"""A program: the service with one kind of records more, shelves, and one field more of topics.

What a developer adds to the files of a kind is added here before anything reads it, which is why
this is a program. It prints as JSON what clients see of both.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import typer
from pydantic import Field
from sqlalchemy import text
from sqlalchemy.orm import Mapped, mapped_column

from jobauto_prefect import kinds
from jobauto_prefect.facade.answers import Timed
from jobauto_prefect.facade.kinds import topics
from jobauto_prefect.kinds import Kind
from jobauto_prefect.ledger import records
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.base import Base
from jobauto_prefect.ledger.database.engine import make_engine
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.settings import Settings
from tests.support.homes import InProcessHome
from tests.support.ports import free_port


class ShelfRow(Base):
    """A shelf, as it is kept."""

    __tablename__ = "shelf"

    id: Mapped[int] = mapped_column(primary_key=True)
    label: Mapped[str]
    book_count: Mapped[int]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]


class Shelf(Timed):
    """Where books stand."""

    label: str = Field(description="What is written on it.")
    book_count: int = Field(title="Books", description="How many books it holds.")


class Topic(topics.Topic):
    """A tag with a colour."""

    icon_name: str | None = Field(title="Icon", description="What is drawn beside it.")


SHELF = Kind(
    "shelf", "shelves", "Shelf", "Shelves", "shelfId", "applications",
    columns=("id", "label", "book_count"), deletable=False,
    command="shelf", about="where books stand.", listed="--json",
)  # fmt: skip
MIGRATION = "ALTER TABLE topic ADD COLUMN icon_name VARCHAR"
PATHS = ("topics.json", "topics.csv", "topics.html", "topic/1.html",
         "shelves.json", "shelves.csv", "shelves.html", "shelf/1.html")  # fmt: skip
COMMANDS = (
    ("topic", "list", "--columns", "name,icon_name"),
    ("topic", "list", "--json"),
    ("shelf", "list"),
)


def add_field() -> None:
    """Add the field of topics: its column, and its line in the body."""
    topic = kinds.KINDS["topic"]
    topic = replace(topic, columns=(*topic.columns, "icon_name"))
    kinds.KINDS["topic"] = topic  # type: ignore[index]
    records.Topic.icon_name = mapped_column(default=None)  # type: ignore[attr-defined]
    topics.Topic = Topic  # type: ignore[misc]

    class TopicBody(topics.TopicBody):
        record: ClassVar = Topic
        icon_name: str | None = None

    topics.TopicBody = TopicBody  # type: ignore[misc]
    topics.RESOURCE = replace(topics.RESOURCE, kind=topic, answer=Topic, body=TopicBody)


def add_kind() -> None:
    """Add the kind: its words, and how its records are shown."""
    from jobauto_prefect.cli.app import app
    from jobauto_prefect.cli.records.lists import ListedKind, add_list, key_columns
    from jobauto_prefect.facade.answers import serialize_fields
    from jobauto_prefect.facade.kinds import registry
    from jobauto_prefect.facade.kinds.resource import Resource

    kinds.KINDS["shelf"] = kinds.COLLECTIONS["shelves"] = SHELF  # type: ignore[index]
    shelves = Resource(SHELF, ShelfRow, Shelf, lambda row, _: serialize_fields(Shelf, row))
    registry.RESOURCES = (*registry.RESOURCES, shelves)
    registry.BY_ITEM["shelf"] = registry.BY_RECORD[ShelfRow] = shelves  # type: ignore[index]

    group = typer.Typer()
    add_list(group, ListedKind(SHELF, key_columns(SHELF.columns)))
    app.add_typer(group, name="shelf")


def migrate(settings: Settings) -> None:
    """Do what a migration of both would do."""
    engine = make_engine(settings.ledger_url)
    with engine.execution_options(jobauto_writes=True).begin() as connection:
        connection.execute(text(MIGRATION))
        Base.metadata.tables["shelf"].create(connection)
    engine.dispose()


def look(home: InProcessHome) -> Iterator[tuple[str, str]]:
    """Write a record of each, and see them in all formats, in the document and in the terminal."""
    from tests.support.servers import client, facade, user_token

    settings = Settings(home=home.path / "home", url=f"http://127.0.0.1:{free_port()}")
    migrate(settings)
    ledger = open_ledger(settings)
    now = datetime.now(UTC)
    with ledger.writing(SERVICE) as session:
        session.add(ShelfRow(label="Poetry", book_count=3, created_at=now, updated_at=now))
    with facade(settings, ledger) as url, client(f"{url}/api/v1", user_token(ledger)) as rest:
        topic = {"name": "money", "icon_name": "coin"}
        rest.post("/topic/", json=topic).raise_for_status()
        for path in PATHS:
            yield path, rest.get(f"/{path}").raise_for_status().text
        yield "document", rest.get("/openapi.json").raise_for_status().text
    ledger.close()
    for words in COMMANDS:
        done = home.run(*words)
        assert done.returncode == 0, done.stderr
        yield " ".join(words), done.stdout


if __name__ == "__main__":
    add_field()
    add_kind()
    made = InProcessHome(Path(sys.argv[1]))
    for preparation in (("secrets", "init"), ("db", "upgrade")):
        assert made.run(*preparation).returncode == 0
    sys.stdout.write(json.dumps(dict(look(made))))
