"""The form that runs a run template: its values as they are, to be changed for one job."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.definitions.findings import child
from jobauto_prefect.facade.console.contract import Contract, CurrentContract
from jobauto_prefect.facade.console.records.fields import variable_field
from jobauto_prefect.facade.console.records.forms import FieldGroup, FormField, SentForm
from jobauto_prefect.facade.console.records.pages import (
    RecordForm,
    language_parts,
    link,
    require,
    respond_with_form,
    save,
)
from jobauto_prefect.facade.console.run_templates.template_list_page import ADDRESS
from jobauto_prefect.facade.console.run_templates.template_records import (
    TemplateRecords,
    read_template,
)
from jobauto_prefect.facade.console.run_templates.value_sources import SourcedValue
from jobauto_prefect.facade.formats.html.page_language import Translator
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.ledger.queries.lookup import get_record
from jobauto_prefect.ledger.records import Job

PATH = f"{ADDRESS}/{{runtemplate:int}}/run"

router = late_routes.router(include_in_schema=False)


@router.get(PATH)
async def show_run_form(
    runtemplate: int,
    request: Request,
    contract: CurrentContract,
    service: CurrentService,
    job: int | None = None,
) -> Response:
    """Show the form; `job` is one whose own values are filled in."""
    form = await _read_form(runtemplate, request, contract, service, job)
    return respond_with_form(request, contract.who, form)


@router.post(PATH)
async def run(
    runtemplate: int,
    request: Request,
    contract: CurrentContract,
    service: CurrentService,
    sent: SentForm,
) -> Response:
    """Create a job with the values that were changed."""
    form = await _read_form(runtemplate, request, contract, service, None)
    return await save(request, contract, form, sent)


async def _read_form(
    template_id: int, request: Request, contract: Contract, service: Service, job_id: int | None
) -> RecordForm:
    translate, languages = language_parts(request)
    records = await read_template(contract, template_id)
    require(contract.who, "jobs.create", records.company["id"])
    values = records.values
    prefilled: Mapping[str, str] = {}
    note = translate("What you change counts for this one job.")
    if job_id is not None:
        prefilled = await _own_values(contract, service, template_id, job_id)
        note = translate(
            "The values are those of job {number}. Secrets it was given are to be given again.",
            number=job_id,
        )
    address = f"{ADDRESS}/{template_id}"
    return RecordForm(
        title=translate("Run {name}", name=records.template["name"]),
        here="Run templates",
        action=f"{address}/run",
        target="/job/",
        collection="jobs",
        groups=_groups(records, values, languages, translate, service.settings.timezone),
        values={child("/env", value.key): value.text for value in values},
        fixed={"runtemplate_id": template_id},
        prefilled=prefilled,
        back=address,
        submit=translate("Run"),
        facts=[
            (
                translate("Company"),
                link(records.company["name"], f"{CONSOLE}/companies/{records.company['id']}"),
            )
        ],
        note=note,
        done="started",
    )


async def _own_values(
    contract: Contract, service: Service, template_id: int, job_id: int
) -> dict[str, str]:
    """Return the values a job of this run template was asked to run with, by their pointers.

    Raises:
        ContractError: there is no such job that the visitor may see.
    """
    job = (await contract.read(f"/job/{job_id}")).data
    if job["runtemplate_id"] != template_id:
        return {}

    def read() -> dict[str, str]:
        with service.ledger.reading() as session:
            return dict(get_record(session, Job, job_id).overrides)

    overrides = await run_in_threadpool(read)
    return {child("/env", key): text for key, text in overrides.items()}


def _groups(
    records: TemplateRecords,
    values: Sequence[SourcedValue],
    languages: Sequence[str],
    translate: Translator,
    service_zone: str,
) -> list[FieldGroup]:
    nothing = translate("nothing")
    variables = [
        replace(
            variable_field(
                value.variable,
                languages,
                translate,
                blank="",
                empty_label=None if value.text else nothing,
            ),
            is_required=value.variable.required,
            is_removable=False,
        )
        for value in values
        if value.variable is not None
    ]
    zone = records.template["timezone"] or records.company["timezone"] or service_zone
    others = [
        FormField(
            "/scheduled",
            translate("When"),
            "time",
            translate("By the clock of {zone}; empty means now.", zone=zone),
            zone=zone,
        ),
        FormField("/note", translate("Note"), "long"),
    ]
    names = list(dict.fromkeys([records.template["executor"], *records.template["executors"]]))
    if len(names) > 1:
        choices = [(name, name) for name in names]
        others.append(FormField("/executor", translate("Executor"), "choice", choices=choices))
    return [FieldGroup(translate("Values"), variables), FieldGroup(translate("This job"), others)]
