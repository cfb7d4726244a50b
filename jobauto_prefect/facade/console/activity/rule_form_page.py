"""The forms that change an event rule and make a new one."""

from typing import get_args

from jobauto_prefect.facade.console.activity.event_pages import RULES, read_sources
from jobauto_prefect.facade.console.records.choices import Choices, read_choices
from jobauto_prefect.facade.console.records.forms import FieldGroup, FormField, fields_of, values_of
from jobauto_prefect.facade.console.records.pages import (
    RecordForm,
    add_form_routes,
    require,
)
from jobauto_prefect.facade.console.visit import Visit
from jobauto_prefect.facade.formats.html.page_language import Text
from jobauto_prefect.facade.formats.json_yaml import dump_json
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.kinds.event_rules import EventRule, Operation

HERE = "Events"
ENDS: tuple[str, ...] = get_args(EventRule.model_fields["on"].annotation)
OPERATIONS: tuple[str, ...] = get_args(Operation)
CREATE, UPDATE = "jobs.create", "jobs.update"

router = late_routes.router(include_in_schema=False)


async def _new_form(visit: Visit) -> RecordForm:
    contract, translate, languages = visit.contract, visit.translate, visit.languages
    if not visit.who.rights.anywhere(CREATE):
        require(visit.who, CREATE, None)
    sources = await read_sources(contract, languages)
    templates = await read_choices(contract, "runtemplates", languages)
    groups = _groups(sources, templates)
    return RecordForm(
        title=translate("New event rule"),
        here=HERE,
        action=f"{RULES}/new",
        target="/eventrule/",
        collection="rules",
        groups=groups,
        values=values_of(fields_of(groups), None),
        back=RULES,
        submit=translate("Save"),
    )


async def _edit_form(visit: Visit, rule_id: int) -> RecordForm:
    contract, translate, languages = visit.contract, visit.translate, visit.languages
    rule = (await contract.read(f"/eventrule/{rule_id}")).data
    template = (await contract.read(f"/runtemplate/{rule['runtemplate_id']}")).data
    require(visit.who, UPDATE, template["company_id"])
    sources = await read_sources(contract, languages)
    choices = await read_choices(contract, "runtemplates", languages)
    groups = _groups(sources, choices)
    shown = rule | {"env_mapping": dump_json(rule["env_mapping"]) if rule["env_mapping"] else ""}
    return RecordForm(
        title=translate("Edit the event rule"),
        here=HERE,
        action=f"{RULES}/{rule_id}/edit",
        target=f"/eventrule/{rule_id}.json",
        collection="rules",
        groups=groups,
        values=values_of(fields_of(groups), shown),
        back=f"{RULES}/{rule_id}",
        submit=translate("Save"),
    )


def _groups(sources: Choices, templates: Choices) -> list[FieldGroup]:
    nothing = ("", Text("nothing"))
    ends = [(end, Text(end)) for end in ENDS]
    operations = [(operation, Text(operation)) for operation in OPERATIONS]
    return [
        FieldGroup(
            Text("When a run template ends"),
            [
                FormField(
                    "/runtemplate_source_id",
                    Text("Run template"),
                    "choice",
                    choices=[nothing, *templates],
                ),
                FormField("/on", Text("Which ends"), "choice", choices=ends, default="success"),
            ],
        ),
        FieldGroup(
            Text("Or when an event source changes"),
            [
                FormField(
                    "/event_source_id",
                    Text("Event source"),
                    "choice",
                    choices=[nothing, *sources],
                ),
                FormField(
                    "/evidence",
                    Text("Kind of record"),
                    hint=Text("Empty means: any record."),
                ),
                FormField(
                    "/operation",
                    Text("Which changes"),
                    "choice",
                    choices=operations,
                    default="any",
                ),
            ],
        ),
        FieldGroup(
            Text("Starts"),
            [
                FormField(
                    "/runtemplate_id",
                    Text("Run template"),
                    "choice",
                    choices=templates,
                    is_required=True,
                ),
                FormField(
                    "/env_mapping",
                    Text("Values from the event"),
                    "long",
                    Text("JSON: the key of a value, and where it stands in the event."),
                ),
                FormField("/fan_out", Text("a job for each element of a list"), "flag"),
                FormField("/priority", Text("Priority"), "number", default=0, blank=0),
                FormField("/enabled", Text("enabled"), "flag", default=True),
            ],
        ),
    ]


add_form_routes(router, RULES, "eventrule", _edit_form, _new_form)
