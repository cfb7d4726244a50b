"""Event sources: the databases whose changes are events, and whether they can be read."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from fastapi import Request, Response

from jobauto_prefect.definitions.records.source_addresses import USUAL_PORTS
from jobauto_prefect.facade.console.activity.event_pages import SOURCES
from jobauto_prefect.facade.console.contract import Contract, CurrentContract
from jobauto_prefect.facade.console.notifications import redirect_after
from jobauto_prefect.facade.console.records.choices import owner_field
from jobauto_prefect.facade.console.records.form_fields import (
    FieldGroup,
    FormField,
    fields_of,
    values_of,
)
from jobauto_prefect.facade.console.records.page_parts import (
    Action,
    AnyCell,
    RecordPage,
    enabled_badge,
    link,
    moment_cell,
    text_cell,
)
from jobauto_prefect.facade.console.records.record_views import (
    ListFilter,
    ListPage,
    RecordForm,
    add_form_routes,
    company_filter,
    language_parts,
    list_query,
    read_list,
    require,
    respond_with_list,
    respond_with_record,
)
from jobauto_prefect.facade.formats.html.cell_model import Cell
from jobauto_prefect.facade.formats.html.page_language import Translator
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.http.addresses import CONTRACT
from jobauto_prefect.facade.service import CurrentService

HERE = "Events"
DATABASES = ("mysql", "pgsql", "sqlite")

Source = Mapping[str, Any]

router = late_routes.router(include_in_schema=False)


@router.get(SOURCES)
async def list_sources(
    request: Request, contract: CurrentContract, service: CurrentService
) -> Response:
    """List event sources."""
    translate, languages = language_parts(request)
    view = await read_list(contract, "eventsources", list_query(request, ("company_id", "enabled")))
    now = service.ledger.clock()
    new = Action(translate("New event source"), f"{SOURCES}/new", is_main=True)
    page = ListPage(
        collection="sources",
        title="Event sources",
        here=HERE,
        heads=[
            translate("Name"),
            translate("Company"),
            translate("Database"),
            translate("Last poll"),
            translate("State"),
        ],
        rows=[
            [
                link(source["name"], f"{SOURCES}/{source['id']}"),
                text_cell(view.names.get("company", {}).get(str(source["company_id"]), "")),
                Cell("code", source["db_database"]),
                moment_cell(source["polled_at"], now, translate),
                _state(source, translate),
            ]
            for source in view.data.values()
        ],
        filters=[
            await company_filter(contract, languages, translate),
            ListFilter(
                "enabled",
                translate("State"),
                [("true", translate("enabled")), ("false", translate("switched off"))],
            ),
        ],
        empty=translate("There is no event source yet. It is a database that webhooks write into."),
        actions=[new] if contract.who.rights.anywhere("companies.create") else [],
    )
    return respond_with_list(request, contract.who, page, view)


@router.get(f"{SOURCES}/{{eventsource:int}}")
async def show_source(
    eventsource: int, request: Request, contract: CurrentContract, service: CurrentService
) -> Response:
    """Show an event source; its password is nobody's to see."""
    translate, _ = language_parts(request)
    view = await contract.read(f"/eventsource/{eventsource}")
    source, now = view.data, service.ledger.clock()
    page = RecordPage(
        title=source["name"],
        about=[text_cell(view.names.get("company", {}).get(str(source["company_id"]), ""))],
        badges=[_state(source, translate)],
        actions=list(_actions(contract, source, translate)),
        facts=list(_facts(source, now, translate)),
        sections=[],
        contract_href=f"{CONTRACT}/eventsource/{eventsource}.html",
    )
    return respond_with_record(request, contract.who, page, here=HERE)


@router.post(f"{SOURCES}/{{eventsource:int}}/test")
async def try_source(eventsource: int, request: Request, contract: CurrentContract) -> Response:
    """Ask its database whether it answers; its page says what it said."""
    answer = await contract.write("POST", f"/eventsource/{eventsource}/test.json", {})
    address = f"{SOURCES}/{eventsource}"
    if answer["reachable"]:
        return redirect_after(request, address, "reachable")
    return redirect_after(request, address, "unreachable", [answer["message"]])


def _state(source: Source, translate: Translator) -> Cell:
    if source["enabled"] and source["poll_error"]:
        return Cell("badge", translate("can't be read"), tone="bad")
    return enabled_badge(source, translate)


def _actions(contract: Contract, source: Source, translate: Translator) -> Iterator[Action]:
    if contract.who.rights.may("companies.update", source["company_id"]):
        address = f"{SOURCES}/{source['id']}"
        yield Action(translate("Edit"), f"{address}/edit", is_main=True)
        yield Action(translate("Test connection"), f"{address}/test", posts=True)


def _facts(source: Source, now: datetime, translate: Translator) -> Iterator[tuple[str, AnyCell]]:
    yield translate("Writes the changes"), text_cell(source["adapter_type"])
    yield translate("Database"), Cell("code", f"{source['db_connection']} {source['db_database']}")
    if source["db_connection"] != "sqlite":
        yield translate("Host"), Cell("code", f"{source['db_host']}:{source['db_port']}")
        yield translate("Database user"), text_cell(source["db_username"] or "")
    yield translate("Last poll"), moment_cell(source["polled_at"], now, translate)
    yield translate("Poll interval (seconds)"), Cell("number", str(source["poll_interval"]))
    yield translate("Last change read"), Cell("number", str(source["last_processed_id"]))
    if source["poll_error"]:
        yield translate("Why"), text_cell(source["poll_error"])


async def _new_form(request: Request, contract: Contract) -> RecordForm:
    translate, languages = language_parts(request)
    if not contract.who.rights.anywhere("companies.create"):
        require(contract.who, "companies.create", None)
    owner = await owner_field(contract, "companies.create", languages, translate)
    groups = _groups(translate, owner)
    return RecordForm(
        title=translate("New event source"),
        here=HERE,
        action=f"{SOURCES}/new",
        target="/eventsource/",
        collection="sources",
        groups=groups,
        values=values_of(fields_of(groups), None),
        back=SOURCES,
        submit=translate("Save"),
    )


async def _edit_form(request: Request, contract: Contract, source_id: int) -> RecordForm:
    translate, _ = language_parts(request)
    source = (await contract.read(f"/eventsource/{source_id}")).data
    require(contract.who, "companies.update", source["company_id"])
    groups = _groups(translate)
    address = f"{SOURCES}/{source_id}"
    return RecordForm(
        title=translate("Edit {name}", name=source["name"]),
        here=HERE,
        action=f"{address}/edit",
        target=f"/eventsource/{source_id}.json",
        collection="sources",
        groups=groups,
        values=values_of(fields_of(groups), source | {"db_port": _unusual_port(source)}),
        back=address,
        submit=translate("Save"),
    )


def _unusual_port(source: Source) -> str:
    """Return the port; "" where it is the usual one, which follows the kind."""
    port = str(source["db_port"] or "")
    return "" if port == USUAL_PORTS.get(source["db_connection"]) else port


def _groups(translate: Translator, *first: FormField) -> list[FieldGroup]:
    """Return the fields of an event source; `first` are those of a new one alone."""
    databases = [(name, name) for name in DATABASES]
    return [
        FieldGroup(
            translate("Event source"),
            [
                *first,
                FormField("/name", translate("Name"), is_required=True),
                FormField("/enabled", translate("Enabled"), "flag", default=True),
                FormField(
                    "/poll_interval", translate("Poll interval (seconds)"), "number", default=60
                ),
                FormField(
                    "/consume",
                    translate("After reading"),
                    "choice",
                    choices=[
                        ("delete", translate("delete the changes")),
                        ("keep", translate("keep the changes")),
                    ],
                    default="delete",
                ),
            ],
        ),
        FieldGroup(
            translate("Database"),
            [
                FormField(
                    "/db_connection",
                    translate("Kind"),
                    "choice",
                    choices=databases,
                    default="mysql",
                ),
                FormField(
                    "/db_database",
                    translate("Name of the database, or path of its file"),
                    is_required=True,
                ),
                FormField("/db_host", translate("Host"), default="localhost"),
                FormField(
                    "/db_port",
                    translate("Port"),
                    hint=translate("Empty means the usual one: 3306 for mysql, 5432 for pgsql."),
                    blank="",
                ),
                FormField("/db_username", translate("Database user")),
                FormField("/db_password", translate("Password"), "secret"),
            ],
        ),
    ]


add_form_routes(router, SOURCES, "eventsource", _edit_form, _new_form)
