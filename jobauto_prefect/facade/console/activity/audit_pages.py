"""The audit trail: who changed what, with each value before and after."""

import re
from collections.abc import Callable, Mapping
from typing import Any, get_args

from jobauto_prefect.console_addresses import CONSOLE, CONTRACT
from jobauto_prefect.facade.console.records.declared import (
    Column,
    Narrowing,
    Part,
    Record,
    RecordPages,
    code,
    has,
    moment,
    text,
)
from jobauto_prefect.facade.console.records.pages import NOTHING, AnyCell, link, text_cell
from jobauto_prefect.facade.console.visit import Visit
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.formats.html.cell_model import Cell, CellContext, FieldValue
from jobauto_prefect.facade.formats.html.cells import draw_value
from jobauto_prefect.facade.formats.html.page_language import Text
from jobauto_prefect.facade.formats.html.scalars import TONES
from jobauto_prefect.facade.formats.record_links import find_entity_kind
from jobauto_prefect.facade.kinds.audit_entries import ENTITIES, AuditAction
from jobauto_prefect.kinds import KINDS

CONSOLE_PAGES: Mapping[str, str] = {
    "App": "applications",
    "Calendar": "calendars",
    "Company": "companies",
    "Credential": "credentials",
    "CredentialType": "credentialtypes",
    "Event": "events",
    "EventRule": "rules",
    "EventSource": "sources",
    "Job": "jobs",
    "RunTemplate": "runtemplates",
    "Task": "tasks",
    "Topic": "topics",
    "User": "users",
}
"""The collections of the console, by the kind that an entry is about."""


async def _users(visit: Visit) -> list[tuple[str, str]]:
    view = await visit.contract.read("/users")
    return sorted((str(user["id"]), str(user["login"])) for user in view.data.values())


def _action(entry: Record, _view: View, visit: Visit) -> AnyCell:
    action = entry["action"]
    return Cell("badge", visit.translate(action), tone=TONES.get(action, ""))


def _record(entry: Record, _view: View, _visit: Visit) -> AnyCell:
    """Draw what an entry is about, as a link where there is a page of it."""
    kind, number = entry["entity_type"], entry["entity_id"]
    if number is None:
        return text_cell(_spell(kind))
    text = f"{_spell(kind)} {number}"
    if kind in CONSOLE_PAGES:
        return link(text, f"{CONSOLE}/{CONSOLE_PAGES[kind]}/{number}")
    known = find_entity_kind(kind)
    return link(text, f"{CONTRACT}/{known.item}/{number}.html") if known else text_cell(text)


def _spell(kind: str) -> str:
    """Return what people call a kind of records: `RunTemplate` is a run template."""
    return re.sub(r"(?<=[a-z])[A-Z]", lambda begun: f" {begun[0].lower()}", kind)


def _changed(entry: Record, _view: View, _visit: Visit) -> AnyCell:
    fields = ", ".join(name for name in entry["changes"] if name != "id")
    return text_cell(fields if len(fields) < 80 else f"{fields[:79]}…")


def _value(place: int) -> Callable[[tuple[str, Any], View, Visit], AnyCell]:
    """Draw the value before (0) or after (1) a change."""

    def draw(change: tuple[str, Any], view: View, _visit: Visit) -> AnyCell:
        name, pair = change
        values = pair if isinstance(pair, list) and len(pair) == 2 else (None, pair)
        if values[place] is None:
            return NOTHING
        context = CellContext("", view.base, depth=1, names=view.names, languages=view.languages)
        return draw_value(FieldValue(name, values[place], {}, context))

    return draw


class AuditPages(RecordPages):
    """The pages of the audit trail, the newest entry first."""

    kind, folder, parameter, here = KINDS["auditlog"], "audit", "entry", "Audit log"
    columns = (
        Column(Text("When"), moment("created_at")),
        Column(Text("Who"), text("actor")),
        Column(Text("By way of"), code("door")),
        Column(Text("What"), _action),
        Column(Text("Record"), _record),
        Column(Text("Changed fields"), _changed),
        Column(
            Text("Entry"),
            lambda entry, *_: link(f"#{entry['id']}", f"{CONSOLE}/audit/{entry['id']}"),
        ),
    )
    filters = (
        Narrowing("entity_type", Text("Kind"), [(kind, _spell(kind)) for kind in ENTITIES]),
        Narrowing("entity_id", Text("Number of the record")),
        Narrowing(
            "action", Text("What"), [(action, Text(action)) for action in get_args(AuditAction)]
        ),
        Narrowing("user_id", Text("User"), _users),
    )
    empty = Text("Nothing has changed yet.")
    about = (_record,)
    badges = (_action,)
    facts = (
        Column(Text("When"), moment("created_at")),
        Column(Text("Who"), text("actor")),
        Column(Text("By way of"), code("door")),
        Column(Text("From"), code("address"), when=has("address")),
        Column(Text("Program"), text("user_agent"), when=has("user_agent")),
        Column(Text("Request"), code("request_id"), when=has("request_id")),
    )
    tables = (
        Part(
            "changes",
            Text("Changes"),
            lambda entry, _: entry["changes"].items(),
            (
                Column(Text("Field"), lambda change, *_: Cell("code", change[0])),
                Column(Text("Before"), _value(0)),
                Column(Text("After"), _value(1)),
            ),
            Text("No field was changed."),
        ),
    )

    def title(self, record: Record, visit: Visit) -> str:
        """Return the number of an entry."""
        return visit.translate("Entry {number}", number=record["id"])


router = AuditPages().router()
