"""Run templates: find one, and see at once how each of them does."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from fastapi import Request, Response

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.facade.console.contract import Contract, CurrentContract
from jobauto_prefect.facade.console.records.choices import read_choices, read_names
from jobauto_prefect.facade.console.records.pages import (
    NOTHING,
    Action,
    AnyCell,
    ListFilter,
    ListPage,
    company_filter,
    language_parts,
    link,
    list_query,
    moment_cell,
    read_list,
    respond_with_list,
    state_badge,
    text_cell,
)
from jobauto_prefect.facade.console.run_templates.job_strips import draw_strip, read_activity
from jobauto_prefect.facade.console.run_templates.schedules import describe_schedule
from jobauto_prefect.facade.formats.html.cell_model import Cell
from jobauto_prefect.facade.formats.html.page_language import Translator
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.service import CurrentService
from jobauto_prefect.ledger.queries.jobs import LastJob

FILTERS = ("name", "company_id", "app_id", "topic", "credential_id", "active")
ADDRESS = f"{CONSOLE}/runtemplates"

router = late_routes.router(include_in_schema=False)


@router.get(ADDRESS)
async def list_run_templates(
    request: Request, contract: CurrentContract, service: CurrentService
) -> Response:
    """List run templates with their last jobs."""
    translate, languages = language_parts(request)
    view = await read_list(contract, "runtemplates", list_query(request, FILTERS))
    records = list(view.data.values())
    ids = [record["id"] for record in records]
    jobs, launches = await read_activity(service, contract.who, ids)
    now = service.ledger.clock()
    page = ListPage(
        collection="runtemplates",
        title="Run templates",
        heads=[
            translate("Name"),
            translate("Company"),
            translate("Application"),
            translate("Last jobs"),
            translate("Next"),
            translate("Schedule"),
        ],
        rows=[
            _row(record, view.names, jobs[record["id"]], launches.get(record["id"]), now, translate)
            for record in records
        ],
        filters=[
            *await _filters(contract, languages, translate),
            *await _only_credential(request, contract, translate),
        ],
        empty=translate("There is no run template yet. It says how a company runs an application."),
        actions=new_action(contract, translate),
    )
    return respond_with_list(request, contract.who, page, view)


def new_action(contract: Contract, translate: Translator) -> list[Action]:
    """Return the link to a new run template, for those who may make one somewhere."""
    if not contract.who.rights.anywhere("companies.update"):
        return []
    return [Action(translate("New run template"), f"{ADDRESS}/new", is_main=True)]


async def _filters(
    contract: Contract, languages: Sequence[str], translate: Translator
) -> list[ListFilter]:
    apps = await read_choices(contract, "apps", languages)
    topics = await read_names(contract, "topics")
    return [
        ListFilter("name", translate("Name")),
        await company_filter(contract, languages, translate),
        ListFilter("app_id", translate("Application"), apps),
        ListFilter("topic", translate("Topic"), topics),
        ListFilter(
            "active",
            translate("State"),
            [("true", translate("active")), ("false", translate("paused"))],
        ),
    ]


async def _only_credential(
    request: Request, contract: Contract, translate: Translator
) -> list[ListFilter]:
    """Return the filter by the credential that the list is narrowed to; its page leads here."""
    given = request.query_params.get("credential_id", "")
    if not given:
        return []
    names = {str(number): name for number, name, _ in await contract.names("credentials")}
    choices = [(given, names.get(given, given))]
    return [ListFilter("credential_id", translate("Credential"), choices)]


def _row(
    record: Mapping[str, Any],
    names: Mapping[str, Mapping[str, str]],
    jobs: Sequence[LastJob],
    starts: datetime | None,
    now: datetime,
    translate: Translator,
) -> list[AnyCell]:
    app, company = str(record["app_id"]), str(record["company_id"])
    schedule = describe_schedule(record["interv"], record["cron"], translate)
    upcoming: Cell = NOTHING if starts is None else moment_cell(starts, now, translate)
    return [
        link(record["name"], f"{ADDRESS}/{record['id']}"),
        text_cell(names.get("company", {}).get(company, company)),
        text_cell(names.get("app", {}).get(app, app)),
        draw_strip(jobs, now, translate),
        upcoming if record["active"] else state_badge(record, translate),
        text_cell(schedule),
    ]
