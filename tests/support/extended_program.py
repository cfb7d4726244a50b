"""A program: the service with one kind of records more, shelves, and one field more of topics.

What a developer adds to the files of a kind is added here before anything reads it, which is why
this is a program. It prints as JSON what clients see of both, in every surface.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

from pydantic import Field
from sqlalchemy import text
from sqlalchemy.orm import Mapped, mapped_column

from jobauto_prefect import kinds
from jobauto_prefect.definitions.validation import record_files
from jobauto_prefect.facade.answers import Timed
from jobauto_prefect.facade.http.requests import Body, parse
from jobauto_prefect.facade.kinds import topics
from jobauto_prefect.facade.writes.base import (
    WriteRequest,
    WriteResult,
    apply_fields,
    require_fields,
)
from jobauto_prefect.kinds import Kind
from jobauto_prefect.ledger import records
from jobauto_prefect.ledger.base import Audited, Base
from jobauto_prefect.ledger.database.engine import make_engine
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.settings import Settings
from tests.support.homes import InProcessHome
from tests.support.ports import free_port


class ShelfRow(Audited, Base):
    """A shelf, as it is kept."""

    __tablename__ = "shelf"
    entity_name = "Shelf"

    id: Mapped[int] = mapped_column(primary_key=True)
    label: Mapped[str]
    book_count: Mapped[int]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]


class Shelf(Timed):
    """Where books stand."""

    label: str = Field(description="What is written on it.")
    book_count: int = Field(title="Books", description="How many books it holds.")


class ShelfBody(Body):
    """A shelf, as clients write it."""

    record: ClassVar = Shelf

    label: str | None = None
    book_count: int = 0


def write_shelf(write: WriteRequest) -> WriteResult:
    """Write a shelf."""
    body = parse(ShelfBody, write.fields)
    shelf = write.get_for_update(ShelfRow, "applications")
    created = shelf is None
    if shelf is None:
        write.authorize_create("applications", None)
        require_fields(body, "label")
        shelf = ShelfRow()
        write.session.add(shelf)
    apply_fields(shelf, body)
    write.session.flush()
    return WriteResult(shelf, created)


class Topic(topics.Topic):
    """A tag with a colour."""

    icon_name: str | None = Field(title="Icon", description="What is drawn beside it.")


SHELF = Kind(
    "shelf", "shelves", "Shelf", "Shelves", "shelfId", "applications",
    columns=("id", "label", "book_count"), deletable=False, key=("label",),
    command="shelf", about="where books stand.", metavar="LABEL", example="Poetry", listed="--json",
)  # fmt: skip
SCHEMA = {
    "type": "object",
    "required": ["kind", "label"],
    "additionalProperties": False,
    "properties": {
        "kind": {"enum": ["shelf"]},
        "label": {"type": "string"},
        "book_count": {"type": "integer"},
    },
}
"""The file that a developer adds to `definitions/schemas`."""

MIGRATION = "ALTER TABLE topic ADD COLUMN icon_name VARCHAR"
PATHS = ("topics.json", "topics.csv", "topics.html", "topic/1.html",
         "shelves.json", "shelves.csv", "shelves.html", "shelf/1.html", "shelves.json?label=OETR",
         "shelves.json?label=prose", "auditlog.json")  # fmt: skip
COMMANDS = (
    ("topic", "list", "--columns", "name,icon_name"),
    ("topic", "list", "--json"),
    ("shelf", "list"),
    ("shelf", "show", "Poetry", "--json"),
    ("shelf", "set", "Poetry", "book_count=4", "--json"),
    ("plan", "files", "--json"),
)
COMPLETED = {
    "_JOBAUTO_COMPLETE": "complete_bash",
    "COMP_LINE": "jobauto shelf show Po",
    "COMP_WORD": "Po",
}


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
    """Add the kind: its words, how its records are shown and written, its commands and pages."""
    from jobauto_prefect.cli.app import app
    from jobauto_prefect.cli.commands.record_groups import make_group
    from jobauto_prefect.cli.records.lists import ListedKind, key_columns
    from jobauto_prefect.facade.answers import serialize_fields
    from jobauto_prefect.facade.http.field_types import parse_text
    from jobauto_prefect.facade.kinds import registry
    from jobauto_prefect.facade.kinds.resource import Filter, Resource

    kinds.KINDS["shelf"] = kinds.COLLECTIONS["shelves"] = SHELF  # type: ignore[index]
    kinds.FILE_KINDS["shelf"] = SHELF  # type: ignore[index]
    record_files.RECORD_KINDS = (*record_files.RECORD_KINDS, "shelf")
    published = record_files.record_schema
    record_files.record_schema = (  # type: ignore[assignment]
        lambda kind: SCHEMA if kind == "shelf" else published(kind)
    )
    shelves = Resource(
        SHELF, ShelfRow, Shelf, lambda row, _: serialize_fields(Shelf, row), write_shelf,
        filters={"label": Filter("label", parse_text, "contains")}, body=ShelfBody,
    )  # fmt: skip
    registry.RESOURCES = (*registry.RESOURCES, shelves)
    registry.BY_ITEM["shelf"] = shelves  # type: ignore[index]
    registry.BY_RECORD[ShelfRow] = shelves  # type: ignore[index]
    app.add_typer(make_group(ListedKind(SHELF, key_columns(SHELF.columns))), name="shelf")
    add_pages()


def add_pages() -> None:
    """Add the pages of the kind to the console."""
    from jobauto_prefect.facade.console import pages
    from jobauto_prefect.facade.console.records.cells import Record
    from jobauto_prefect.facade.console.records.forms import FieldGroup
    from jobauto_prefect.facade.console.records.pages import Filter, RecordPages
    from jobauto_prefect.facade.console.visit import Visit
    from jobauto_prefect.facade.formats.html.page_language import Text

    class ShelfPages(RecordPages):
        kind, named, new = SHELF, "label", Text("New shelf")
        columns = ("label", "book_count")
        filters = (Filter("label", Text("Label")),)
        facts = columns
        empty = Text("There is no shelf yet.")
        form = (FieldGroup(Text("Shelf"), columns),)

        def title(self, record: Record, _visit: Visit) -> str:
            return str(record["label"])

    pages.PAGES = (*pages.PAGES, SimpleNamespace(router=ShelfPages().router()))  # type: ignore[assignment]


def migrate(settings: Settings) -> None:
    """Do what a migration of both would do."""
    engine = make_engine(settings.ledger_url)
    with engine.execution_options(jobauto_writes=True).begin() as connection:
        connection.execute(text(MIGRATION))
        Base.metadata.tables["shelf"].create(connection)
    engine.dispose()


def look(home: InProcessHome) -> Iterator[tuple[str, str]]:
    """Write a record of each, and see them in all formats, in the document and in the terminal."""
    from tests.support.console import post
    from tests.support.console_records import sign_in
    from tests.support.servers import client, facade, user_token

    settings = Settings(home=home.path / "home", url=f"http://127.0.0.1:{free_port()}")
    migrate(settings)
    ledger = open_ledger(settings)
    with facade(settings, ledger) as url, client(f"{url}/api/v1", user_token(ledger)) as rest:
        topic = {"name": "money", "icon_name": "coin"}
        rest.post("/topic/", json=topic).raise_for_status()
        rest.post("/shelf/", json={"label": "Prose"}).raise_for_status()
        written = {"label": "Poetry", "book_count": 3}
        rest.post("/shelf/1.json", json=written).raise_for_status()
        yield "refused", rest.post("/shelf/", json={"lable": "x", "book_count": "many"}).text
        for path in PATHS:
            yield path, rest.get(f"/{path}").raise_for_status().text
        yield "document", rest.get("/openapi.json").raise_for_status().text
        with sign_in(url, ledger, "eva", "super_admin") as browser:
            for path in ("shelves", "shelves/1", "shelves/1/edit", "shelves/new"):
                yield path, browser.get(f"/console/{path}").raise_for_status().text
            sent = post(browser, "/console/shelves/new", {"/label": "Drama", "/book_count": "7"})
            assert sent.status_code == 303, sent.text
            yield "shelf/2.json", rest.get("/shelf/2.json").raise_for_status().text
    ledger.close()
    home.write(shelf_yaml="kind: shelf\nlabel: Essays\nbook_count: 2\n")
    for words in COMMANDS:
        done = home.run(*words)
        assert done.stderr == "", words  # the code of `plan` tells of changes
        yield " ".join(words), done.stdout
    yield "completion", home.run(**COMPLETED).stdout


if __name__ == "__main__":
    add_field()
    add_kind()
    made = InProcessHome(Path(sys.argv[1]))
    for preparation in (("secrets", "init"), ("db", "upgrade")):
        assert made.run(*preparation).returncode == 0
    sys.stdout.write(json.dumps(dict(look(made))))
