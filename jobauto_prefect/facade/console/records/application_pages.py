"""Applications: a list, and a page of what the definition says and of who runs it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from fastapi import Request, Response

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.definitions import Definition, Variable, parse, pick_text, to_text
from jobauto_prefect.definitions.mask import MASK
from jobauto_prefect.facade.console.contract import CurrentContract
from jobauto_prefect.facade.console.records.page_parts import (
    NOTHING,
    Action,
    AnyCell,
    RecordPage,
    Section,
    enabled_badge,
    link,
    moment_cell,
    name_of,
    state_badge,
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
from jobauto_prefect.facade.console.records.variable_fields import variable_field
from jobauto_prefect.facade.formats.html.cell_model import Cell, clip
from jobauto_prefect.facade.formats.html.page_language import Translator
from jobauto_prefect.facade.formats.html.scalars import TONES
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.http.addresses import CONTRACT
from jobauto_prefect.facade.service import CurrentService

ADDRESS = f"{CONSOLE}/applications"
HERE = "Applications"

router = late_routes.router(include_in_schema=False)


@router.get(ADDRESS)
async def list_applications(request: Request, contract: CurrentContract) -> Response:
    """List applications."""
    translate, languages = language_parts(request)
    view = await read_list(contract, "apps", list_query(request, ("name", "enabled")))
    page = ListPage(
        collection="applications",
        title=HERE,
        heads=[
            translate("Name"),
            translate("Version"),
            translate("Description"),
            translate("State"),
        ],
        rows=[
            [
                link(name_of(app, languages), f"{ADDRESS}/{app['id']}"),
                text_cell(str(app.get("version") or "")),
                text_cell(clip(pick_text(app["description"], *languages))),
                enabled_badge(app, translate),
            ]
            for app in view.data.values()
        ],
        filters=[
            ListFilter("name", translate("Name")),
            ListFilter(
                "enabled",
                translate("State"),
                [("true", translate("enabled")), ("false", translate("switched off"))],
            ),
        ],
        empty=translate("There is no application yet. Import one: jobauto app import FILE"),
    )
    return respond_with_list(request, contract.who, page, view)


@router.get(f"{ADDRESS}/{{app:int}}")
async def show_application(
    app: int, request: Request, contract: CurrentContract, service: CurrentService
) -> Response:
    """Show what an application is, what it takes, and its run templates."""
    translate, languages = language_parts(request)
    record = (await contract.read(f"/app/{app}")).data
    templates = await read_list(contract, "runtemplates", {"app_id": app})
    versions = (await contract.read(f"/app/{app}/versions")).data
    definition = parse(record)
    now = service.ledger.clock()
    new = Action(translate("New run template"), f"{CONSOLE}/runtemplates/new?app_id={app}")
    page = RecordPage(
        title=name_of(record, languages),
        about=[Cell("text", pick_text(definition.description, *languages))],
        badges=[enabled_badge(record, translate)],
        actions=[new] if contract.who.rights.anywhere("companies.update") else [],
        facts=_facts(definition, record, translate),
        sections=[
            Section(
                "templates",
                translate("Run templates"),
                [translate("Name"), translate("Company"), translate("State")],
                [
                    [
                        link(template["name"], f"{CONSOLE}/runtemplates/{template['id']}"),
                        text_cell(
                            templates.names.get("company", {}).get(str(template["company_id"]), "")
                        ),
                        state_badge(template, translate),
                    ]
                    for template in templates.data.values()
                ],
                translate("Nobody runs it yet."),
                f"{CONSOLE}/runtemplates?app_id={app}",
            ),
            Section(
                "fields",
                translate("Values it takes"),
                [translate("Name"), translate("Key"), translate("Type"), translate("Default")],
                [
                    _field_row(variable, languages, translate)
                    for variable in definition.environment.values()
                ],
                translate("The application takes no values."),
            ),
            _exit_codes(definition, languages, translate),
            Section(
                "versions",
                translate("Former versions"),
                [translate("Version"), translate("Replaced"), translate("By")],
                [_version_row(version, now, translate) for version in _listed(versions)],
                translate("Its definition has not changed yet."),
                f"{CONTRACT}/app/{app}/versions.html",
            ),
        ],
        contract_href=f"{CONTRACT}/app/{app}.html",
        prefect_url=record["prefect_url"],
    )
    return respond_with_record(request, contract.who, page, here=HERE)


def _facts(
    definition: Definition, record: Mapping[str, Any], translate: Translator
) -> list[tuple[str, AnyCell]]:
    named = [
        (translate("Version"), definition.version),
        (translate("Category"), definition.category),
        (translate("Program"), definition.executable),
        (translate("Image"), definition.oci_image),
        (translate("Required credentials"), ", ".join(definition.requirements)),
        (translate("Topics"), ", ".join(record.get("topics", ()))),
    ]
    return [(label, Cell("text", str(value))) for label, value in named if value]


def _field_row(
    variable: Variable, languages: Sequence[str], translate: Translator
) -> list[AnyCell]:
    field = variable_field(variable, languages, translate)
    default = MASK if variable.secret and variable.default else to_text(variable.default)
    label = translate("{name} (required)", name=field.label) if variable.required else field.label
    return [
        Cell("text", label, title=field.hint),
        Cell("code", variable.key),
        text_cell(str(variable.type)),
        Cell("code", default) if default else NOTHING,
    ]


def _exit_codes(definition: Definition, languages: Sequence[str], translate: Translator) -> Section:
    rows: list[Sequence[AnyCell]] = [
        [
            Cell("number", str(code)),
            text_cell(pick_text(exit_code.description, *languages)),
            Cell("badge", translate(exit_code.severity), tone=TONES.get(exit_code.severity, "")),
            text_cell(translate("yes") if exit_code.retry else translate("no")),
        ]
        for code, exit_code in definition.exit_codes.items()
    ]
    heads = [translate("Code"), translate("Meaning"), translate("State"), translate("Tried again")]
    nothing = translate("It declares none: 0 is a success, all others are failures.")
    return Section("codes", translate("Exit codes"), heads, rows, nothing)


def _listed(versions: Any) -> list[Mapping[str, Any]]:
    return list(versions.values()) if isinstance(versions, Mapping) else list(versions)


def _version_row(version: Mapping[str, Any], now: datetime, translate: Translator) -> list[AnyCell]:
    replaced = version["replaced_at"]
    moment = datetime.fromisoformat(replaced) if isinstance(replaced, str) else replaced
    return [
        text_cell(str(version["version"] or version["number"])),
        moment_cell(moment, now, translate),
        text_cell(str(version["replaced_by"])),
    ]
