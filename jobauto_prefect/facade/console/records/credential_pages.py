"""Credentials: a list, a page, and a form made of the fields of their types."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from fastapi import Request, Response

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.facade.console.contract import Contract, CurrentContract
from jobauto_prefect.facade.console.records.choices import read_choices, read_permitted_companies
from jobauto_prefect.facade.console.records.form_fields import (
    FieldGroup,
    FormField,
    fields_of,
    values_of,
)
from jobauto_prefect.facade.console.records.page_parts import (
    NOTHING,
    Action,
    AnyCell,
    RecordPage,
    Section,
    link,
    name_of,
    state_badge,
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
    query_ids,
    read_list,
    require,
    respond_with_list,
    respond_with_record,
)
from jobauto_prefect.facade.console.records.variable_fields import credential_fields
from jobauto_prefect.facade.formats.html.cell_model import Cell
from jobauto_prefect.facade.formats.html.page_language import Translator
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.http.addresses import CONTRACT

ADDRESS = f"{CONSOLE}/credentials"
HERE = "Credentials"
FILTERS = ("name", "company_id", "credential_type_id")

router = late_routes.router(include_in_schema=False)


@router.get(ADDRESS)
async def list_credentials(request: Request, contract: CurrentContract) -> Response:
    """List credentials."""
    translate, languages = language_parts(request)
    view = await read_list(contract, "credentials", list_query(request, FILTERS))
    types = await read_choices(contract, "credential_types", languages)
    type_names = dict(types)
    new = Action(translate("New credential"), f"{ADDRESS}/new", is_main=True)
    page = ListPage(
        collection="credentials",
        title=HERE,
        heads=[translate("Name"), translate("Company"), translate("Type")],
        rows=[
            [
                link(record["name"], f"{ADDRESS}/{record['id']}"),
                text_cell(view.names.get("company", {}).get(str(record["company_id"]), "")),
                text_cell(type_names.get(str(record["credential_type_id"]), "")),
            ]
            for record in view.data.values()
        ],
        filters=[
            ListFilter("name", translate("Name")),
            await company_filter(contract, languages, translate),
            ListFilter("credential_type_id", translate("Type"), types),
        ],
        empty=translate("There is no credential yet. Run templates of its company can have it."),
        actions=[new] if contract.who.rights.anywhere("companies.create") else [],
    )
    return respond_with_list(request, contract.who, page, view)


@router.get(f"{ADDRESS}/{{credential:int}}")
async def show_credential(credential: int, request: Request, contract: CurrentContract) -> Response:
    """Show a credential; secret values are masked."""
    translate, languages = language_parts(request)
    record = (await contract.read(f"/credential/{credential}")).data
    kind = (await contract.read(f"/credential_type/{record['credential_type_id']}")).data
    company = (await contract.read(f"/company/{record['company_id']}")).data
    templates = await read_list(contract, "runtemplates", {"credential_id": credential})
    edit = Action(translate("Edit"), f"{ADDRESS}/{credential}/edit")
    limit = "" if record["max_jobs"] is None else str(record["max_jobs"])
    page = RecordPage(
        title=record["name"],
        about=[
            link(company["name"], f"{CONSOLE}/companies/{company['id']}"),
            Cell("text", name_of(kind, languages)),
        ],
        badges=[],
        actions=[edit] if contract.who.rights.may("companies.update", company["id"]) else [],
        facts=[(translate("Jobs that may use it at a time"), text_cell(limit))] if limit else [],
        sections=[
            _values(record, kind, languages, translate),
            Section(
                "templates",
                translate("Run templates that have it"),
                [translate("Name"), translate("State")],
                [
                    [
                        link(template["name"], f"{CONSOLE}/runtemplates/{template['id']}"),
                        state_badge(template, translate),
                    ]
                    for template in templates.data.values()
                ],
                translate("None has it yet: choose it in the form of a run template."),
                f"{CONSOLE}/runtemplates?credential_id={credential}",
            ),
        ],
        contract_href=f"{CONTRACT}/credential/{credential}.html",
        prefect_url=record["prefect_url"],
    )
    return respond_with_record(request, contract.who, page, here=HERE)


async def _new_form(request: Request, contract: Contract) -> RecordForm:
    """Return the form of a new credential; first ask whose it is, and of which type."""
    translate, languages = language_parts(request)
    reference = query_ids(request, "company_id", "credential_type_id")
    company_id, type_id = (reference.get(name) for name in ("company_id", "credential_type_id"))
    if company_id is None or type_id is None:
        return await _chooser(request, contract, company_id)
    require(contract.who, "companies.create", company_id)
    kind = (await contract.read(f"/credential_type/{type_id}")).data
    company = (await contract.read(f"/company/{company_id}")).data
    groups = _groups(kind, languages, translate)
    return RecordForm(
        title=translate("New credential"),
        here=HERE,
        action=f"{ADDRESS}/new?{urlencode(reference)}",
        target="/credential/",
        collection="credentials",
        groups=groups,
        values=values_of(fields_of(groups), None),
        fixed=reference,
        back=ADDRESS,
        submit=translate("Save"),
        facts=_facts(company, kind, languages, translate),
    )


async def _edit_form(request: Request, contract: Contract, credential_id: int) -> RecordForm:
    translate, languages = language_parts(request)
    record = (await contract.read(f"/credential/{credential_id}")).data
    require(contract.who, "companies.update", record["company_id"])
    kind = (await contract.read(f"/credential_type/{record['credential_type_id']}")).data
    company = (await contract.read(f"/company/{record['company_id']}")).data
    groups = _groups(kind, languages, translate)
    address = f"{ADDRESS}/{credential_id}"
    return RecordForm(
        title=translate("Edit {name}", name=record["name"]),
        here=HERE,
        action=f"{address}/edit",
        target=f"/credential/{credential_id}.json",
        collection="credentials",
        groups=groups,
        values=values_of(fields_of(groups), record),
        back=address,
        submit=translate("Save"),
        facts=_facts(company, kind, languages, translate),
    )


async def _chooser(request: Request, contract: Contract, company_id: int | None) -> RecordForm:
    """Return the form that asks whose it is, and of which type: the other fields follow."""
    translate, languages = language_parts(request)
    if not contract.who.rights.anywhere("companies.create"):
        require(contract.who, "companies.create", company_id)
    companies = await read_permitted_companies(contract, "companies.create", languages)
    types = await read_choices(contract, "credential_types", languages)
    fields = [
        FormField("company_id", translate("Company"), "choice", choices=companies),
        FormField("credential_type_id", translate("Type"), "choice", choices=types),
    ]
    return RecordForm(
        title=translate("New credential"),
        here=HERE,
        action=f"{ADDRESS}/new",
        target="",
        collection="credentials",
        groups=[FieldGroup(translate("Whose it is, and of which type"), fields)],
        values={"company_id": company_id},
        back=ADDRESS,
        submit=translate("Continue"),
        method="get",
    )


def _groups(
    kind: Mapping[str, Any], languages: Sequence[str], translate: Translator
) -> list[FieldGroup]:
    fields = [
        FormField("/name", translate("Name"), is_required=True),
        FormField(
            "/max_jobs",
            translate("Jobs that may use it at a time"),
            "number",
            translate("Empty means as many as like."),
        ),
    ]
    values = credential_fields(kind["fields"], languages, translate)
    return [
        FieldGroup(translate("Credential"), fields),
        FieldGroup(translate("Values"), values),
    ]


def _facts(
    company: Mapping[str, Any],
    kind: Mapping[str, Any],
    languages: Sequence[str],
    translate: Translator,
) -> list[tuple[str, AnyCell]]:
    return [
        (translate("Company"), text_cell(company["name"])),
        (translate("Type"), text_cell(name_of(kind, languages))),
    ]


def _values(
    record: Mapping[str, Any],
    kind: Mapping[str, Any],
    languages: Sequence[str],
    translate: Translator,
) -> Section:
    values = record["values"]
    rows: list[Sequence[AnyCell]] = [
        [
            Cell("text", field.label, title=field.key),
            Cell("code", values[field.key]) if values.get(field.key) else NOTHING,
            text_cell(field.hint),
        ]
        for field in credential_fields(kind["fields"], languages, translate)
    ]
    heads = [translate("Name"), translate("Value"), translate("Hint")]
    return Section("values", translate("Values"), heads, rows, translate("Its type has no fields."))


add_form_routes(router, ADDRESS, "credential", _edit_form, _new_form)
