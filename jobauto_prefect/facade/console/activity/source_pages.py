"""Event sources: the databases whose changes are events, and whether they can be read."""

from fastapi import Response

from jobauto_prefect.definitions.records.source_addresses import USUAL_PORTS
from jobauto_prefect.facade.console.notifications import redirect_after
from jobauto_prefect.facade.console.records.declared import (
    BY_COMPANY,
    BY_STATE,
    COMPANY,
    Column,
    Record,
    RecordPages,
    code,
    company,
    enabled,
    has,
    moment,
    record_link,
    text,
)
from jobauto_prefect.facade.console.records.forms import FieldGroup, FormField
from jobauto_prefect.facade.console.records.pages import Action, AnyCell, text_cell
from jobauto_prefect.facade.console.visit import CurrentVisit, Visit
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.formats.html.cell_model import Cell
from jobauto_prefect.facade.formats.html.page_language import Text
from jobauto_prefect.kinds import KINDS

DATABASES = ("mysql", "pgsql", "sqlite")


def _state(source: Record, view: View, visit: Visit) -> AnyCell:
    if source["enabled"] and source["poll_error"]:
        return Cell("badge", visit.translate("can't be read"), tone="bad")
    return enabled(source, view, visit)


def _is_served(source: Record) -> bool:
    return bool(source["db_connection"] != "sqlite")


class SourcePages(RecordPages):
    """The pages of event sources; their passwords are nobody's to see."""

    kind, folder, here = KINDS["eventsource"], "sources", "Events"
    new = Text("New event source")
    columns = (
        Column(Text("Name"), record_link("sources")),
        COMPANY,
        Column(Text("Database"), code("db_database")),
        Column(Text("Last poll"), moment("polled_at")),
        Column(Text("State"), _state),
    )
    filters = (BY_COMPANY, BY_STATE)
    empty = Text("There is no event source yet. It is a database that webhooks write into.")
    about = (company,)
    badges = (_state,)
    facts = (
        Column(Text("Writes the changes"), text("adapter_type")),
        Column(
            Text("Database"),
            lambda source, *_: Cell("code", f"{source['db_connection']} {source['db_database']}"),
        ),
        Column(
            Text("Host"),
            lambda source, *_: Cell("code", f"{source['db_host']}:{source['db_port']}"),
            when=_is_served,
        ),
        Column(Text("Database user"), text("db_username"), when=_is_served),
        Column(Text("Last poll"), moment("polled_at")),
        Column(
            Text("Poll interval (seconds)"),
            lambda source, *_: Cell("number", str(source["poll_interval"])),
        ),
        Column(
            Text("Last change read"),
            lambda source, *_: Cell("number", str(source["last_processed_id"])),
        ),
        Column(
            Text("Why"),
            lambda source, *_: text_cell(source["poll_error"]),
            when=has("poll_error"),
        ),
    )
    form = (
        FieldGroup(
            Text("Event source"),
            [
                FormField("/name", Text("Name"), is_required=True),
                FormField("/enabled", Text("Enabled"), "flag", default=True),
                FormField("/poll_interval", Text("Poll interval (seconds)"), "number", default=60),
                FormField(
                    "/consume",
                    Text("After reading"),
                    "choice",
                    choices=[
                        ("delete", Text("delete the changes")),
                        ("keep", Text("keep the changes")),
                    ],
                    default="delete",
                ),
            ],
        ),
        FieldGroup(
            Text("Database"),
            [
                FormField(
                    "/db_connection",
                    Text("Kind"),
                    "choice",
                    choices=[(name, name) for name in DATABASES],
                    default="mysql",
                ),
                FormField(
                    "/db_database",
                    Text("Name of the database, or path of its file"),
                    is_required=True,
                ),
                FormField("/db_host", Text("Host"), default="localhost"),
                FormField(
                    "/db_port",
                    Text("Port"),
                    hint=Text("Empty means the usual one: 3306 for mysql, 5432 for pgsql."),
                    blank="",
                ),
                FormField("/db_username", Text("Database user")),
                FormField("/db_password", Text("Password"), "secret"),
            ],
        ),
    )

    def actions(self, visit: Visit, record: Record) -> list[Action]:
        """Return what the visitor may do to a source."""
        edits = super().actions(visit, record)
        if not edits:
            return []
        test = f"{self.address}/{record['id']}/test"
        return [*edits, Action(visit.translate("Test connection"), test, posts=True)]

    def values(self, record: Record) -> Record:
        """Return a source; without the usual port, which follows the kind of its database."""
        port = str(record["db_port"] or "")
        is_usual = port == USUAL_PORTS.get(record["db_connection"])
        return {**record, "db_port": "" if is_usual else port}


PAGES = SourcePages()
router = PAGES.router()


@router.post(f"{PAGES.address}/{{eventsource:int}}/test")
async def try_source(eventsource: int, visit: CurrentVisit) -> Response:
    """Ask its database whether it answers; its page says what it said."""
    answer = await visit.contract.write("POST", f"/eventsource/{eventsource}/test.json", {})
    address = f"{PAGES.address}/{eventsource}"
    if answer["reachable"]:
        return redirect_after(visit.request, address, "reachable")
    return redirect_after(visit.request, address, "unreachable", [answer["message"]])
