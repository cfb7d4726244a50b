"""The form that runs a run template, with values that can be changed for one job."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fastapi import Response

from jobauto_prefect.console_addresses import page_of
from jobauto_prefect.definitions.findings import child
from jobauto_prefect.facade.console.records.cells import link_to
from jobauto_prefect.facade.console.records.fields import variable_field
from jobauto_prefect.facade.console.records.forms import FieldGroup, FormField, SentForm
from jobauto_prefect.facade.console.records.pages import RecordForm, respond_with_form, save
from jobauto_prefect.facade.console.run_templates.pages import PAGES
from jobauto_prefect.facade.console.run_templates.values import (
    SourcedValue,
    TemplateRecords,
    read_template,
)
from jobauto_prefect.facade.console.visit import CurrentVisit, Visit
from jobauto_prefect.facade.formats.html.page_language import Text
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.ledger.queries.lookup import get_record
from jobauto_prefect.ledger.records import Job

PATH = f"{PAGES.item_path}/run"

router = late_routes.router(include_in_schema=False)


@router.get(PATH)
async def show_run_form(runtemplate: int, visit: CurrentVisit, job: int | None = None) -> Response:
    """Show the form, filled in with the values that were set for `job`."""
    return respond_with_form(visit, await _read_form(visit, runtemplate, job))


@router.post(PATH)
async def run(runtemplate: int, visit: CurrentVisit, sent: SentForm) -> Response:
    """Create a job with the changed values."""
    return await save(visit, await _read_form(visit, runtemplate, None), sent)


async def _read_form(visit: Visit, template_id: int, job_id: int | None) -> RecordForm:
    records = await read_template(visit, template_id)
    visit.require("jobs.create", records.company["id"])
    values = records.values
    prefilled: Mapping[str, str] = {}
    note = Text("Changes apply to this job only.")
    if job_id is not None:
        prefilled = await _own_values(visit, template_id, job_id)
        note = Text(
            "The values are those of job {number}. Enter its secrets again.",
            number=job_id,
        )
    address = page_of("runtemplate", template_id)
    company = records.company
    return RecordForm(
        title=Text("Run {name}", name=records.template["name"]),
        action=f"{address}/run",
        target="/job/",
        kind="job",
        groups=_groups(visit, records, values),
        values={child("/env", value.key): value.text for value in values},
        fixed={"runtemplate_id": template_id},
        prefilled=prefilled,
        back=address,
        submit=Text("Run"),
        facts=[(Text("Company"), link_to("company", company["id"], company["name"]))],
        note=note,
        done="started",
    )


async def _own_values(visit: Visit, template_id: int, job_id: int) -> dict[str, str]:
    """Return the values that were set for a job of this run template, by pointer.

    Raises:
        ContractError: it does not exist, or the visitor may not see it.
    """
    if (await visit.get(f"/job/{job_id}"))["runtemplate_id"] != template_id:
        return {}
    overrides = await visit.query(lambda session: dict(get_record(session, Job, job_id).overrides))
    return {child("/env", key): text for key, text in overrides.items()}


def _groups(
    visit: Visit, records: TemplateRecords, values: Sequence[SourcedValue]
) -> list[FieldGroup]:
    nothing = visit.translate("nothing")
    variables = [
        replace(
            variable_field(
                value.variable,
                visit.languages,
                visit.translate,
                blank="",
                empty_label=None if value.text else nothing,
            ),
            is_required=value.variable.required,
            is_removable=False,
        )
        for value in values
        if value.variable is not None
    ]
    template = records.template
    zone = template["timezone"] or records.company["timezone"] or visit.zone.key
    hint = Text("In the time zone {zone}. Leave empty to start now.", zone=zone)
    others = [
        FormField("/scheduled", Text("Start time"), "time", hint, zone=zone),
        FormField("/note", Text("Note"), "long"),
    ]
    names = list(dict.fromkeys([template["executor"], *template["executors"]]))
    if len(names) > 1:
        choices = [(name, name) for name in names]
        others.append(FormField("/executor", Text("Executor"), "choice", choices=choices))
    return [FieldGroup(Text("Values"), variables), FieldGroup(Text("This job"), others)]
