"""The audit trail: who changed what, with each value before and after."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, get_args

from fastapi import Request, Response

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.facade.console.contract import CurrentContract
from jobauto_prefect.facade.console.records.page_parts import (
    NOTHING,
    AnyCell,
    RecordPage,
    Section,
    link,
    moment_cell,
    text_cell,
)
from jobauto_prefect.facade.console.records.record_views import (
    ListFilter,
    ListPage,
    language_parts,
    list_query,
    read_list,
    respond_with_list,
    respond_with_record,
)
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.formats.html.cell_model import Cell, CellContext, FieldValue
from jobauto_prefect.facade.formats.html.cells import draw_value
from jobauto_prefect.facade.formats.html.page_language import Translator
from jobauto_prefect.facade.formats.html.scalars import TONES
from jobauto_prefect.facade.formats.record_links import find_entity_kind
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.http.addresses import CONTRACT
from jobauto_prefect.facade.kinds.audit_entries import ENTITIES, AuditAction
from jobauto_prefect.facade.service import CurrentService

ADDRESS = f"{CONSOLE}/audit"
FILTERS = ("entity_type", "entity_id", "action", "user_id")

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

Entry = Mapping[str, Any]

router = late_routes.router(include_in_schema=False)


@router.get(ADDRESS)
async def list_entries(
    request: Request, contract: CurrentContract, service: CurrentService
) -> Response:
    """List entries, the newest first."""
    translate, _ = language_parts(request)
    view = await read_list(contract, "auditlog", list_query(request, FILTERS))
    now = service.ledger.clock()
    page = ListPage(
        collection="audit",
        title="Audit log",
        heads=[
            translate("When"),
            translate("Who"),
            translate("By way of"),
            translate("What"),
            translate("Record"),
            translate("Changed fields"),
            translate("Entry"),
        ],
        rows=[_row(entry, now, translate) for entry in view.data.values()],
        filters=[
            ListFilter(
                "entity_type", translate("Kind"), [(kind, _words(kind)) for kind in ENTITIES]
            ),
            ListFilter("entity_id", translate("Number of the record")),
            ListFilter(
                "action",
                translate("What"),
                [(action, translate(action)) for action in get_args(AuditAction)],
            ),
            ListFilter("user_id", translate("User"), await _users(contract)),
        ],
        empty=translate("Nothing has changed yet."),
    )
    return respond_with_list(request, contract.who, page, view)


@router.get(f"{ADDRESS}/{{entry:int}}")
async def show_entry(
    entry: int, request: Request, contract: CurrentContract, service: CurrentService
) -> Response:
    """Show an entry with each value before and after."""
    translate, _ = language_parts(request)
    view = await contract.read(f"/auditlog/{entry}")
    shown = view.data
    now = service.ledger.clock()
    page = RecordPage(
        title=translate("Entry {number}", number=entry),
        about=[_record(shown)],
        badges=[_action(shown, translate)],
        actions=[],
        facts=list(_facts(shown, now, translate)),
        sections=[
            Section(
                "changes",
                translate("Changes"),
                [translate("Field"), translate("Before"), translate("After")],
                [_change(name, pair, view) for name, pair in shown["changes"].items()],
                translate("No field was changed."),
            )
        ],
        contract_href=f"{CONTRACT}/auditlog/{entry}.html",
    )
    return respond_with_record(request, contract.who, page, here="Audit log")


async def _users(contract: CurrentContract) -> list[tuple[str, str]]:
    view = await contract.read("/users")
    return sorted((str(user["id"]), str(user["login"])) for user in view.data.values())


def _row(entry: Entry, now: datetime, translate: Translator) -> list[AnyCell]:
    fields = ", ".join(name for name in entry["changes"] if name != "id")
    return [
        moment_cell(entry["created_at"], now, translate),
        text_cell(entry["actor"]),
        Cell("code", entry["door"]),
        _action(entry, translate),
        _record(entry),
        text_cell(fields if len(fields) < 80 else f"{fields[:79]}…"),
        link(f"#{entry['id']}", f"{ADDRESS}/{entry['id']}"),
    ]


def _action(entry: Entry, translate: Translator) -> Cell:
    return Cell("badge", translate(entry["action"]), tone=TONES.get(entry["action"], ""))


def _record(entry: Entry) -> Cell:
    """Return what an entry is about, as a link where there is a page of it."""
    kind, number = entry["entity_type"], entry["entity_id"]
    if number is None:
        return text_cell(_words(kind))
    text = f"{_words(kind)} {number}"
    if kind in CONSOLE_PAGES:
        return link(text, f"{CONSOLE}/{CONSOLE_PAGES[kind]}/{number}")
    known = find_entity_kind(kind)
    return link(text, f"{CONTRACT}/{known.item}/{number}.html") if known else text_cell(text)


def _words(kind: str) -> str:
    """Return what people call a kind of records: `RunTemplate` is a run template."""
    return re.sub(r"(?<=[a-z])[A-Z]", lambda begun: f" {begun[0].lower()}", kind)


def _facts(entry: Entry, now: datetime, translate: Translator) -> Iterator[tuple[str, AnyCell]]:
    yield (
        translate("When"),
        moment_cell(entry["created_at"], now, translate),
    )
    yield translate("Who"), text_cell(entry["actor"])
    yield translate("By way of"), Cell("code", entry["door"])
    if entry["address"]:
        yield translate("From"), Cell("code", entry["address"])
    if entry["user_agent"]:
        yield translate("Program"), text_cell(entry["user_agent"])
    if entry["request_id"]:
        yield translate("Request"), Cell("code", entry["request_id"])


def _change(name: str, pair: Any, view: View) -> list[AnyCell]:
    place = CellContext("", view.base, depth=1, names=view.names, languages=view.languages)
    before, after = pair if isinstance(pair, list) and len(pair) == 2 else (None, pair)
    return [
        Cell("code", name),
        *(
            NOTHING if value is None else draw_value(FieldValue(name, value, {}, place))
            for value in (before, after)
        ),
    ]
