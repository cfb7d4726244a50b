"""The forms that change a run template and make a new one."""

from urllib.parse import urlencode

from fastapi import Request, Response

from jobauto_prefect.facade.console.contract import Contract, CurrentContract
from jobauto_prefect.facade.console.forms import SentForm
from jobauto_prefect.facade.console.records.form_fields import (
    FieldGroup,
    FormField,
    fields_of,
    values_of,
)
from jobauto_prefect.facade.console.records.page_parts import name_of, text_cell
from jobauto_prefect.facade.console.records.record_views import (
    RecordForm,
    language_parts,
    read_choices,
    read_names,
    require,
    respond_with_form,
    save,
)
from jobauto_prefect.facade.console.run_templates.template_fields import (
    attempt_fields,
    choice_groups,
    name_field,
    operated_fields,
    place_fields,
    schedule_fields,
    value_fields,
)
from jobauto_prefect.facade.console.run_templates.template_list_page import ADDRESS
from jobauto_prefect.facade.console.run_templates.template_records import (
    TemplateRecords,
    read_new_template,
    read_template,
)
from jobauto_prefect.facade.console.run_templates.value_sources import resolve_values
from jobauto_prefect.facade.formats.html.cell_model import Cell
from jobauto_prefect.facade.http import late_routes

EDIT = f"{ADDRESS}/{{runtemplate:int}}/edit"
NEW = f"{ADDRESS}/new"
CONFIGURE = "companies.update"

router = late_routes.router(include_in_schema=False)


@router.get(EDIT)
async def show_template_form(
    runtemplate: int, request: Request, contract: CurrentContract
) -> Response:
    """Show the form of a run template."""
    form = await _read_form(runtemplate, request, contract)
    return respond_with_form(request, contract.who, form)


@router.post(EDIT)
async def change_template(
    runtemplate: int, request: Request, contract: CurrentContract, sent: SentForm
) -> Response:
    """Write what was changed."""
    form = await _read_form(runtemplate, request, contract)
    return await save(request, contract, form, sent)


@router.get(NEW)
async def show_new_template_form(
    request: Request,
    contract: CurrentContract,
    company_id: int | None = None,
    app_id: int | None = None,
) -> Response:
    """Show the form of a new run template; first ask for whom, and which application."""
    if company_id is None or app_id is None:
        form = await _chooser(request, contract, company_id, app_id)
    else:
        form = await _new_form(request, contract, company_id, app_id)
    return respond_with_form(request, contract.who, form)


@router.post(NEW)
async def make_template(
    request: Request,
    contract: CurrentContract,
    sent: SentForm,
    company_id: int,
    app_id: int,
) -> Response:
    """Make a run template."""
    form = await _new_form(request, contract, company_id, app_id)
    return await save(request, contract, form, sent)


async def _read_form(template_id: int, request: Request, contract: Contract) -> RecordForm:
    translate, _ = language_parts(request)
    records = await read_template(contract, template_id)
    template = records.template
    require(contract.who, "jobs.update", template["company_id"])
    address = f"{ADDRESS}/{template_id}"
    groups = await _groups(request, contract, records)
    return RecordForm(
        title=translate("Edit {name}", name=template["name"]),
        here="Run templates",
        action=f"{address}/edit",
        target=f"/runtemplate/{template_id}.json",
        collection="runtemplates",
        groups=groups,
        values=values_of(fields_of(groups), template),
        back=address,
        submit=translate("Save"),
        facts=_facts(request, records),
    )


async def _new_form(
    request: Request, contract: Contract, company_id: int, app_id: int
) -> RecordForm:
    translate, _ = language_parts(request)
    require(contract.who, CONFIGURE, company_id)
    records = await read_new_template(contract, company_id, app_id)
    reference = {"company_id": company_id, "app_id": app_id}
    groups = await _groups(request, contract, records)
    return RecordForm(
        title=translate("New run template"),
        here="Run templates",
        action=f"{NEW}?{urlencode(reference)}",
        target="/runtemplate/",
        collection="runtemplates",
        groups=groups,
        values=values_of(fields_of(groups), None),
        fixed=reference,
        back=ADDRESS,
        submit=translate("Save"),
        facts=_facts(request, records),
    )


def _facts(request: Request, records: TemplateRecords) -> list[tuple[str, Cell]]:
    translate, languages = language_parts(request)
    return [
        (translate("Company"), text_cell(records.company["name"])),
        (translate("Application"), text_cell(name_of(records.app, languages))),
    ]


async def _groups(
    request: Request, contract: Contract, records: TemplateRecords
) -> list[FieldGroup]:
    """Return the fields that the visitor may change."""
    translate, languages = language_parts(request)
    company_id = records.company["id"]
    operated = FieldGroup(translate("State"), operated_fields(translate))
    if not contract.who.rights.may(CONFIGURE, company_id):
        return [operated]
    inherited = resolve_values(records.definition, records.sources[:-1])
    values = value_fields(inherited, records.template["env"], languages, translate)
    of_company = {"company_id": company_id}
    credentials = await read_choices(contract, "credentials", languages, of_company)
    topics = await read_names(contract, "topics")
    calendars = await read_names(contract, "calendars")
    named = [name_field(translate), *schedule_fields(translate)]
    attempts = attempt_fields(translate)
    return [
        FieldGroup(translate("Name and schedule"), named),
        FieldGroup(translate("Values"), values),
        *choice_groups(translate, credentials, topics, calendars),
        FieldGroup(translate("Attempts and windows"), attempts, is_folded=True),
        FieldGroup(translate("Where it runs"), place_fields(translate), is_folded=True),
        operated,
    ]


async def _chooser(
    request: Request, contract: Contract, company_id: int | None, app_id: int | None
) -> RecordForm:
    """Return the form that asks for whom, and which application: the other fields follow."""
    translate, languages = language_parts(request)
    if not contract.who.rights.anywhere(CONFIGURE):
        require(contract.who, CONFIGURE, company_id)
    companies = [
        choice
        for choice in await read_choices(contract, "companies", languages)
        if contract.who.rights.may(CONFIGURE, int(choice[0]))
    ]
    apps = await read_choices(contract, "apps", languages, {"enabled": "true"})
    fields = [
        FormField("company_id", translate("Company"), "choice", choices=companies),
        FormField("app_id", translate("Application"), "choice", choices=apps),
    ]
    return RecordForm(
        title=translate("New run template"),
        here="Run templates",
        action=NEW,
        target="",
        collection="runtemplates",
        groups=[FieldGroup(translate("What is run, and for whom"), fields)],
        values={"company_id": company_id, "app_id": app_id},
        back=ADDRESS,
        submit=translate("Continue"),
        method="get",
    )
