"""Event sources: the databases whose changes are events, with a connection test."""

from fastapi import Response

from jobauto_prefect.definitions.records.source_addresses import USUAL_PORTS
from jobauto_prefect.facade.console.notifications import redirect_after
from jobauto_prefect.facade.console.records.cells import (
    COMPANY,
    AnyCell,
    Column,
    Record,
    code,
    company,
    enabled,
    moment,
    name,
    number,
    text,
)
from jobauto_prefect.facade.console.records.forms import FieldGroup
from jobauto_prefect.facade.console.records.pages import (
    BY_COMPANY,
    BY_STATE,
    Action,
    RecordPages,
)
from jobauto_prefect.facade.console.visit import CurrentVisit, Visit
from jobauto_prefect.facade.formats.html.cells import Cell
from jobauto_prefect.facade.formats.html.page_language import Text
from jobauto_prefect.kinds import KINDS


def _state(source: Record, visit: Visit) -> AnyCell:
    if source["enabled"] and source["poll_error"]:
        return Cell("badge", visit.translate("can't be read"), tone="bad")
    return enabled(source, visit)


def _is_served(source: Record) -> bool:
    return bool(source["db_connection"] != "sqlite")


class SourcePages(RecordPages):
    """The pages of event sources; passwords are never shown."""

    kind, new = KINDS["eventsource"], Text("New event source")
    columns = (
        name("eventsource"),
        COMPANY,
        Column(Text("Database"), code("db_database")),
        "polled_at",
        Column(Text("State"), _state),
    )
    filters = (BY_COMPANY, BY_STATE)
    empty = Text(
        "There are no event sources yet. An event source is a database into which "
        "webhooks write changes."
    )
    about = (company,)
    badges = (_state,)
    facts = (
        "adapter_type",
        Column(
            Text("Database"),
            lambda source, _: Cell("code", f"{source['db_connection']} {source['db_database']}"),
        ),
        Column(
            Text("Host"),
            lambda source, _: Cell("code", f"{source['db_host']}:{source['db_port']}"),
            when=_is_served,
        ),
        Column(Text("Database user"), text("db_username"), when=_is_served),
        Column(Text("Last poll"), moment("polled_at")),
        Column(Text("Poll interval (seconds)"), number("poll_interval")),
        Column(Text("Last change read"), number("last_processed_id")),
        "poll_error",
    )
    form = (
        FieldGroup(Text("Event source"), ("name", "enabled", "poll_interval", "consume")),
        FieldGroup(
            Text("Database"),
            ("db_connection", "db_database", "db_host", "db_port", "db_username", "db_password"),
        ),
    )

    def actions(self, visit: Visit, record: Record) -> list[Action]:
        edits = super().actions(visit, record)
        if not edits:
            return []
        test = f"{self.address}/{record['id']}/test"
        return [*edits, Action(Text("Test connection"), test, posts=True)]

    def values(self, record: Record) -> Record:
        """Return a source's values; its port is left empty if it is the default of its database."""
        port = str(record["db_port"] or "")
        is_usual = port == USUAL_PORTS.get(record["db_connection"])
        return {**record, "db_port": "" if is_usual else port}


PAGES = SourcePages()
router = PAGES.router()


@router.post(f"{PAGES.item_path}/test")
async def try_source(eventsource: int, visit: CurrentVisit) -> Response:
    """Test the connection to the source's database and show the result on its page."""
    answer = await visit.contract.write("POST", f"/eventsource/{eventsource}/test.json", {})
    address = f"{PAGES.address}/{eventsource}"
    if answer["reachable"]:
        return redirect_after(visit.request, address, "reachable")
    return redirect_after(visit.request, address, "unreachable", [answer["message"]])
