"""The audit trail: who changed what, with each value before and after."""

import re
from typing import Any, get_args

from jobauto_prefect.console_addresses import CONTRACT
from jobauto_prefect.facade.console.records.cells import (
    NOTHING,
    AnyCell,
    Column,
    Draw,
    Record,
    badge,
    link_to,
    moment,
    text_cell,
)
from jobauto_prefect.facade.console.records.pages import Filter, RecordPages, Table
from jobauto_prefect.facade.console.visit import Choices, Visit
from jobauto_prefect.facade.formats.html.cells import (
    TONES,
    Cell,
    CellContext,
    FieldValue,
    draw_value,
)
from jobauto_prefect.facade.formats.html.page_language import Text
from jobauto_prefect.facade.formats.record_links import find_entity_kind
from jobauto_prefect.facade.kinds.audit_entries import ENTITIES, AuditAction
from jobauto_prefect.kinds import KINDS


async def _users(visit: Visit) -> Choices:
    users = (await visit.get("/users")).values()
    return sorted((str(user["id"]), str(user["login"])) for user in users)


def _record(entry: Record, _visit: Visit) -> AnyCell:
    """Draw the record of an entry, as a link if it has a page."""
    entity, number = entry["entity_type"], entry["entity_id"]
    if number is None:
        return text_cell(_spell(entity))
    text, kind = f"{_spell(entity)} {number}", find_entity_kind(entity)
    return link_to(kind.item, number, text) if kind else text_cell(text)


def _spell(kind: str) -> str:
    """Return the name of a kind for people: `RunTemplate` becomes `Run template`."""
    return re.sub(r"(?<=[a-z])[A-Z]", lambda begun: f" {begun[0].lower()}", kind)


def _changed(entry: Record, _visit: Visit) -> AnyCell:
    fields = ", ".join(name for name in entry["changes"] if name != "id")
    return text_cell(fields if len(fields) < 80 else f"{fields[:79]}…")


def _value(place: int) -> Draw:
    """Draw the value before (0) or after (1) a change."""

    def draw(change: tuple[str, Any], visit: Visit) -> AnyCell:
        name, pair = change
        values = pair if isinstance(pair, list) and len(pair) == 2 else (None, pair)
        if values[place] is None:
            return NOTHING
        context = CellContext("", CONTRACT, depth=1, names=visit.names, languages=visit.languages)
        return draw_value(FieldValue(name, values[place], {}, context))

    return draw


WHEN = Column(Text("Time"), moment("created_at"))
ACTION = badge("action", TONES)


class AuditPages(RecordPages):
    """The pages of the audit trail, the newest entry first."""

    kind, parameter = KINDS["auditlog"], "entry"
    columns = (
        WHEN,
        "actor",
        "door",
        Column(Text("Action"), ACTION),
        Column(Text("Record"), _record),
        Column(Text("Changed fields"), _changed),
        Column(Text("Entry"), lambda entry, _: link_to("auditlog", entry["id"])),
    )
    filters = (
        Filter("entity_type", Text("Kind"), [(kind, _spell(kind)) for kind in ENTITIES]),
        Filter("entity_id", Text("Record id")),
        Filter("action", Text("Action"), [(each, Text(each)) for each in get_args(AuditAction)]),
        Filter("user_id", Text("User"), _users),
    )
    empty = Text("There are no entries yet.")
    about = (_record,)
    badges = (ACTION,)
    facts = (WHEN, "actor", "door", "address", "user_agent", "request_id")
    tables = (
        Table(
            "changes",
            Text("Changes"),
            lambda entry, _: entry["changes"].items(),
            (
                Column(Text("Field"), lambda change, _: Cell("code", change[0])),
                Column(Text("Before"), _value(0)),
                Column(Text("After"), _value(1)),
            ),
            Text("No field was changed."),
        ),
    )

    def title(self, record: Record, visit: Visit) -> str:
        return visit.translate("Entry {number}", number=record["id"])


router = AuditPages().router()
