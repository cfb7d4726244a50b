"""The forms that change a run template and make a new one."""

from collections.abc import Mapping
from urllib.parse import urlencode

from fastapi import Request

from jobauto_prefect.facade.console.contract import Contract
from jobauto_prefect.facade.console.records.choices import (
    read_choices,
    read_names,
    read_permitted_companies,
)
from jobauto_prefect.facade.console.records.fields import (
    LABELS,
    notice_group,
    retention_group,
    shown_with,
    whole_notices,
    whole_retention,
)
from jobauto_prefect.facade.console.records.forms import (
    FieldGroup,
    FormField,
    WholeValue,
    fields_of,
    values_of,
)
from jobauto_prefect.facade.console.records.pages import (
    RecordForm,
    add_form_routes,
    language_parts,
    name_of,
    query_ids,
    require,
    text_cell,
)
from jobauto_prefect.facade.console.run_templates.form_fields import (
    ATTEMPTS,
    BLOCKS,
    NAMED,
    OPERATED,
    QUEUE,
    TEMPLATES,
    action_groups,
    choice_groups,
    executor_fields,
    possible_executors,
    setting_groups,
    value_fields,
    whole_actions,
    whole_settings,
)
from jobauto_prefect.facade.console.run_templates.template_list_page import ADDRESS
from jobauto_prefect.facade.console.run_templates.template_records import (
    Record,
    TemplateRecords,
    read_new_template,
    read_template,
    read_template_paths,
)
from jobauto_prefect.facade.console.run_templates.value_sources import resolve_values
from jobauto_prefect.facade.formats.html.cell_model import Cell
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.writes.assignments import BLOCKS_PERMISSION as NAME_BLOCKS

NEW = f"{ADDRESS}/new"
CONFIGURE = "companies.update"

router = late_routes.router(include_in_schema=False)


async def _edit_form(request: Request, contract: Contract, template_id: int) -> RecordForm:
    translate, _ = language_parts(request)
    records = await read_template(contract, template_id)
    template = records.template
    require(contract.who, "jobs.update", template["company_id"])
    address = f"{ADDRESS}/{template_id}"
    may_configure = contract.who.rights.may(CONFIGURE, template["company_id"])
    paths = await read_template_paths(request, contract.who) if may_configure else {}
    groups = await _groups(request, contract, records)
    wholes = _wholes(template, paths)
    return RecordForm(
        title=translate("Edit {name}", name=template["name"]),
        here="Run templates",
        action=f"{address}/edit",
        target=f"/runtemplate/{template_id}.json",
        collection="runtemplates",
        groups=groups,
        values=values_of(fields_of(groups), shown_with(template, wholes)),
        wholes=wholes,
        offers={TEMPLATES: paths.values()},
        back=address,
        submit=translate("Save"),
        facts=_facts(request, records),
    )


async def _new_form(request: Request, contract: Contract) -> RecordForm:
    """Return the form of a new run template; first ask for whom, and which application."""
    translate, _ = language_parts(request)
    reference = query_ids(request, "company_id", "app_id")
    company_id, app_id = (reference.get(name) for name in ("company_id", "app_id"))
    if company_id is None or app_id is None:
        return await _chooser(request, contract, company_id, app_id)
    require(contract.who, CONFIGURE, company_id)
    records = await read_new_template(contract, company_id, app_id)
    paths = await read_template_paths(request, contract.who)
    groups = await _groups(request, contract, records)
    executors = _executors(contract, records)
    return RecordForm(
        title=translate("New run template"),
        here="Run templates",
        action=f"{NEW}?{urlencode(reference)}",
        target="/runtemplate/",
        collection="runtemplates",
        groups=groups,
        values=values_of(fields_of(groups), None),
        prefilled={"/executor": executors[0]} if "Native" not in executors else {},
        wholes=_wholes(None, {}),
        offers={TEMPLATES: paths.values()},
        fixed=reference,
        back=ADDRESS,
        submit=translate("Save"),
        facts=_facts(request, records),
    )


def _wholes(template: Record | None, paths: Mapping[str, str]) -> list[WholeValue]:
    return [
        whole_settings(template),
        *whole_actions(template, paths),
        whole_notices(template),
        whole_retention(template),
    ]


def _executors(contract: Contract, records: TemplateRecords) -> list[str]:
    return possible_executors(records.app, may_any=contract.who.rights.system_wide)


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
    rights, company_id = contract.who.rights, records.company["id"]
    if not rights.may(CONFIGURE, company_id):
        return [OPERATED]
    inherited = resolve_values(records.definition, records.sources[:-1])
    values = value_fields(inherited, records.template["env"], languages, translate)
    of_company = {"company_id": company_id}
    credentials = await read_choices(contract, "credentials", languages, of_company)
    topics = await read_names(contract, "topics")
    calendars = await read_names(contract, "calendars")
    apps = await read_choices(contract, "apps", languages, {"enabled": "true"})
    executors = _executors(contract, records)
    placed = [*executor_fields(executors), *QUEUE]
    return [
        NAMED,
        FieldGroup(translate("Values"), values),
        *choice_groups(credentials, topics, calendars),
        OPERATED,
        ATTEMPTS,
        *action_groups(apps),
        notice_group(of_template=True),
        FieldGroup(translate("Where it runs"), placed, is_folded=True),
        *setting_groups(translate, executors),
        retention_group(of_template=True),
        *([BLOCKS] if rights.may(NAME_BLOCKS, None) else []),
        FieldGroup(translate("Settings and labels for other programs"), [LABELS], is_folded=True),
    ]


async def _chooser(
    request: Request, contract: Contract, company_id: int | None, app_id: int | None
) -> RecordForm:
    """Return the form that asks for whom, and which application: the other fields follow."""
    translate, languages = language_parts(request)
    if not contract.who.rights.anywhere(CONFIGURE):
        require(contract.who, CONFIGURE, company_id)
    companies = await read_permitted_companies(contract, CONFIGURE, languages)
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


add_form_routes(router, ADDRESS, "runtemplate", _edit_form, _new_form)
