"""Companies: a list, a page, and a form for those there are and for new ones."""

from collections.abc import Mapping
from typing import Any

from fastapi import Request, Response

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.definitions.findings import child
from jobauto_prefect.definitions.mask import MASK
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.console.contract import Contract, CurrentContract
from jobauto_prefect.facade.console.records.choices import Choices, read_names
from jobauto_prefect.facade.console.records.common_fields import (
    choice_fields,
    label_field,
    notice_group,
    retention_group,
    shown_with,
    whole_notices,
    whole_retention,
)
from jobauto_prefect.facade.console.records.form_changes import WholeValue
from jobauto_prefect.facade.console.records.form_fields import (
    FieldGroup,
    FormField,
    fields_of,
    values_of,
)
from jobauto_prefect.facade.console.records.member_pages import add_action, members_section
from jobauto_prefect.facade.console.records.page_parts import (
    Action,
    AnyCell,
    RecordPage,
    Section,
    enabled_badge,
    link,
    state_badge,
    text_cell,
)
from jobauto_prefect.facade.console.records.record_views import (
    ListFilter,
    ListPage,
    RecordForm,
    add_form_routes,
    language_parts,
    list_query,
    read_list,
    require,
    respond_with_list,
    respond_with_record,
)
from jobauto_prefect.facade.formats.html.cell_model import Cell
from jobauto_prefect.facade.formats.html.page_language import Translator
from jobauto_prefect.facade.formats.html.scalars import is_picture
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.http.addresses import CONTRACT

ADDRESS = f"{CONSOLE}/companies"
HERE = "Companies"
NEW_VALUES = 3
"""Values with new names that a form takes at a time."""

router = late_routes.router(include_in_schema=False)


@router.get(ADDRESS)
async def list_companies(request: Request, contract: CurrentContract) -> Response:
    """List companies."""
    translate, _ = language_parts(request)
    view = await read_list(contract, "companies", list_query(request, ("name", "enabled")))
    new = Action(translate("New company"), f"{ADDRESS}/new", is_main=True)
    page = ListPage(
        collection="companies",
        title=HERE,
        heads=[translate("Name"), translate("Short name"), translate("Mail"), translate("State")],
        rows=[
            [
                link(company["name"], f"{ADDRESS}/{company['id']}"),
                Cell("code", company["slug"]),
                text_cell(company["email"] or ""),
                enabled_badge(company, translate),
            ]
            for company in view.data.values()
        ],
        filters=[
            ListFilter("name", translate("Name")),
            ListFilter(
                "enabled",
                translate("State"),
                [("true", translate("enabled")), ("false", translate("switched off"))],
            ),
        ],
        empty=translate("There is no company yet. Run templates and credentials belong to one."),
        actions=[new] if contract.who.rights.may("companies.create", None) else [],
    )
    return respond_with_list(request, contract.who, page, view)


@router.get(f"{ADDRESS}/{{company:int}}")
async def show_company(company: int, request: Request, contract: CurrentContract) -> Response:
    """Show a company, with its run templates, credentials and values."""
    translate, _ = language_parts(request)
    record = (await contract.read(f"/company/{company}")).data
    of_company = {"company_id": company}
    templates = await read_list(contract, "runtemplates", of_company)
    credentials = await read_list(contract, "credentials", of_company)
    members = (await contract.read(f"/company/{company}/users")).data
    page = RecordPage(
        title=record["name"],
        about=[Cell("code", record["slug"])],
        badges=[enabled_badge(record, translate)],
        actions=[
            *_actions(contract.who, record, translate),
            *add_action(contract, company, translate),
        ],
        facts=_facts(record, translate),
        sections=[
            Section(
                "templates",
                translate("Run templates"),
                [translate("Name"), translate("State")],
                [
                    [
                        link(template["name"], f"{CONSOLE}/runtemplates/{template['id']}"),
                        state_badge(template, translate),
                    ]
                    for template in templates.data.values()
                ],
                translate("It has none."),
                f"{CONSOLE}/runtemplates?company_id={company}",
            ),
            Section(
                "credentials",
                translate("Credentials"),
                [translate("Name")],
                [
                    [link(credential["name"], f"{CONSOLE}/credentials/{credential['id']}")]
                    for credential in credentials.data.values()
                ],
                translate("It has none."),
                f"{CONSOLE}/credentials?company_id={company}",
            ),
            Section(
                "values",
                translate("Values"),
                [translate("Name"), translate("Value")],
                [[Cell("code", name), text_cell(text)] for name, text in record["env"].items()],
                translate("The company has no values of its own. All its run templates get them."),
            ),
            members_section(contract, company, members, translate),
        ],
        contract_href=f"{CONTRACT}/company/{company}.html",
        prefect_url=record["prefect_url"],
    )
    return respond_with_record(request, contract.who, page, here=HERE)


async def _new_form(request: Request, contract: Contract) -> RecordForm:
    translate, _ = language_parts(request)
    require(contract.who, "companies.create", None)
    groups, wholes = await _fields(contract, None, translate)
    return RecordForm(
        title=translate("New company"),
        here=HERE,
        action=f"{ADDRESS}/new",
        target="/company/",
        collection="companies",
        groups=groups,
        values=values_of(fields_of(groups), None),
        wholes=wholes,
        back=ADDRESS,
        submit=translate("Save"),
    )


async def _edit_form(request: Request, contract: Contract, company_id: int) -> RecordForm:
    translate, _ = language_parts(request)
    record = (await contract.read(f"/company/{company_id}")).data
    require(contract.who, "companies.update", company_id)
    groups, wholes = await _fields(contract, record, translate)
    address = f"{ADDRESS}/{company_id}"
    return RecordForm(
        title=translate("Edit {name}", name=record["name"]),
        here=HERE,
        action=f"{address}/edit",
        target=f"/company/{company_id}.json",
        collection="companies",
        groups=groups,
        values=values_of(fields_of(groups), shown_with(record, wholes)),
        wholes=wholes,
        back=address,
        submit=translate("Save"),
    )


async def _fields(
    contract: Contract, record: Mapping[str, Any] | None, translate: Translator
) -> tuple[list[FieldGroup], list[WholeValue]]:
    """Return the fields of a company's form (None: of a new one), and those written as a whole."""
    topics = await read_names(contract, "topics")
    calendars = await read_names(contract, "calendars")
    groups = _groups(record["env"] if record else {}, topics, calendars, translate)
    return groups, [whole_notices(record), whole_retention(record)]


def _groups(
    env: Mapping[str, str],
    topics: Choices,
    calendars: Choices,
    translate: Translator,
) -> list[FieldGroup]:
    fields = [
        FormField("/name", translate("Name"), is_required=True),
        FormField(
            "/slug",
            translate("Short name"),
            hint=translate(
                "Letters, digits, _ and -; it is part of names in Prefect. Empty for one made of "
                "the name."
            ),
        ),
        FormField("/enabled", translate("Enabled"), "flag", default=True),
        FormField("/email", translate("Mail")),
        FormField(
            "/logo",
            translate("Logo"),
            "picture",
            translate("An address, or a file: PNG, JPEG, GIF or WebP up to 700 KB."),
        ),
        FormField("/ic", translate("Registration number")),
        FormField(
            "/customer",
            translate("Customer number"),
            "number",
            translate("What another system knows the company by."),
        ),
        FormField(
            "/timezone",
            translate("Time zone"),
            hint=translate("Such as Europe/Prague; empty means that of the service."),
        ),
    ]
    values = [
        FormField(child("/env", name), name, "secret" if text == MASK else "text")
        for name, text in env.items()
    ]
    new = [FormField(f"/env/+{number}", translate("Name of a new value"), "pair")
           for number in range(NEW_VALUES)]  # fmt: skip
    return [
        FieldGroup(translate("Company"), [*fields, *choice_fields(translate, topics, calendars)]),
        FieldGroup(translate("Values for all its run templates"), [*values, *new]),
        notice_group(translate, of_template=False),
        retention_group(translate, of_template=False),
        FieldGroup(
            translate("Settings and labels for other programs"),
            [
                FormField(
                    "/settings",
                    translate("Settings"),
                    "long",
                    translate("Free text that clients keep here; the service does not read it."),
                ),
                label_field(translate),
            ],
            is_folded=True,
        ),
    ]


def _actions(who: Identity, record: Mapping[str, Any], translate: Translator) -> list[Action]:
    company_id = record["id"]
    query = f"company_id={company_id}"
    wanted = [
        ("companies.update", Action(translate("Edit"), f"{ADDRESS}/{company_id}/edit")),
        (
            "companies.create",
            Action(translate("New credential"), f"{CONSOLE}/credentials/new?{query}"),
        ),
        (
            "companies.update",
            Action(translate("New run template"), f"{CONSOLE}/runtemplates/new?{query}"),
        ),
    ]
    return [action for permission, action in wanted if who.rights.may(permission, company_id)]


def _facts(record: Mapping[str, Any], translate: Translator) -> list[tuple[str, AnyCell]]:
    named = [
        (translate("Mail"), record["email"]),
        (translate("Registration number"), record["ic"]),
        (translate("Customer number"), record["customer"]),
        (translate("Time zone"), record["timezone"]),
        (translate("Topics"), ", ".join(record["topics"])),
        (translate("Calendars"), ", ".join(record["calendars"])),
    ]
    logo = record["logo"] or ""
    label = translate("Logo")
    picture = [(label, Cell("image", label, href=logo))] if is_picture(logo) else []
    return [*picture, *((label, Cell("text", str(value))) for label, value in named if value)]


add_form_routes(router, ADDRESS, "company", _edit_form, _new_form)
