"""The forms that change a run template and make a new one."""

from collections.abc import Mapping
from urllib.parse import urlencode

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
from jobauto_prefect.facade.console.visit import Visit
from jobauto_prefect.facade.formats.html.cell_model import Cell
from jobauto_prefect.facade.formats.html.page_language import Text
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.writes.assignments import BLOCKS_PERMISSION as NAME_BLOCKS

NEW = f"{ADDRESS}/new"
CONFIGURE = "companies.update"

router = late_routes.router(include_in_schema=False)


async def _edit_form(visit: Visit, template_id: int) -> RecordForm:
    contract, translate = visit.contract, visit.translate
    records = await read_template(contract, template_id)
    template = records.template
    require(visit.who, "jobs.update", template["company_id"])
    address = f"{ADDRESS}/{template_id}"
    may_configure = visit.who.rights.may(CONFIGURE, template["company_id"])
    paths = await read_template_paths(visit.request, visit.who) if may_configure else {}
    groups = await _groups(visit, records)
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
        facts=_facts(visit, records),
    )


async def _new_form(visit: Visit) -> RecordForm:
    """Return the form of a new run template; first ask for whom, and which application."""
    contract, translate = visit.contract, visit.translate
    reference = query_ids(visit.request, "company_id", "app_id")
    company_id, app_id = (reference.get(name) for name in ("company_id", "app_id"))
    if company_id is None or app_id is None:
        return await _chooser(visit, company_id, app_id)
    require(visit.who, CONFIGURE, company_id)
    records = await read_new_template(contract, company_id, app_id)
    paths = await read_template_paths(visit.request, visit.who)
    groups = await _groups(visit, records)
    executors = _executors(visit, records)
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
        facts=_facts(visit, records),
    )


def _wholes(template: Record | None, paths: Mapping[str, str]) -> list[WholeValue]:
    return [
        whole_settings(template),
        *whole_actions(template, paths),
        whole_notices(template),
        whole_retention(template),
    ]


def _executors(visit: Visit, records: TemplateRecords) -> list[str]:
    return possible_executors(records.app, may_any=visit.who.rights.system_wide)


def _facts(visit: Visit, records: TemplateRecords) -> list[tuple[str, Cell]]:
    translate, languages = visit.translate, visit.languages
    return [
        (translate("Company"), text_cell(records.company["name"])),
        (translate("Application"), text_cell(name_of(records.app, languages))),
    ]


async def _groups(visit: Visit, records: TemplateRecords) -> list[FieldGroup]:
    """Return the fields that the visitor may change."""
    contract, translate, languages = visit.contract, visit.translate, visit.languages
    rights, company_id = visit.who.rights, records.company["id"]
    if not rights.may(CONFIGURE, company_id):
        return [OPERATED]
    inherited = resolve_values(records.definition, records.sources[:-1])
    values = value_fields(inherited, records.template["env"], languages, translate)
    of_company = {"company_id": company_id}
    credentials = await read_choices(contract, "credentials", languages, of_company)
    topics = await read_names(contract, "topics")
    calendars = await read_names(contract, "calendars")
    apps = await read_choices(contract, "apps", languages, {"enabled": "true"})
    executors = _executors(visit, records)
    placed = [*executor_fields(executors), *QUEUE]
    return [
        NAMED,
        FieldGroup(Text("Values"), values),
        *choice_groups(credentials, topics, calendars),
        OPERATED,
        ATTEMPTS,
        *action_groups(apps),
        notice_group(of_template=True),
        FieldGroup(Text("Where it runs"), placed, is_folded=True),
        *setting_groups(translate, executors),
        retention_group(of_template=True),
        *([BLOCKS] if rights.may(NAME_BLOCKS, None) else []),
        FieldGroup(Text("Settings and labels for other programs"), [LABELS], is_folded=True),
    ]


async def _chooser(visit: Visit, company_id: int | None, app_id: int | None) -> RecordForm:
    """Return the form that asks for whom, and which application: the other fields follow."""
    contract, translate, languages = visit.contract, visit.translate, visit.languages
    if not visit.who.rights.anywhere(CONFIGURE):
        require(visit.who, CONFIGURE, company_id)
    companies = await read_permitted_companies(contract, CONFIGURE, languages)
    apps = await read_choices(contract, "apps", languages, {"enabled": "true"})
    fields = [
        FormField("company_id", Text("Company"), "choice", choices=companies),
        FormField("app_id", Text("Application"), "choice", choices=apps),
    ]
    return RecordForm(
        title=translate("New run template"),
        here="Run templates",
        action=NEW,
        target="",
        collection="runtemplates",
        groups=[FieldGroup(Text("What is run, and for whom"), fields)],
        values={"company_id": company_id, "app_id": app_id},
        back=ADDRESS,
        submit=translate("Continue"),
        method="get",
    )


add_form_routes(router, ADDRESS, "runtemplate", _edit_form, _new_form)
