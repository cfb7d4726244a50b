"""The list of tasks: the windows of run templates, narrowed by its address."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from fastapi import Request, Response

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.facade.console.contract import CurrentContract
from jobauto_prefect.facade.console.records.choices import read_only_template
from jobauto_prefect.facade.console.records.pages import (
    Action,
    AnyCell,
    ListFilter,
    ListPage,
    company_filter,
    language_parts,
    link,
    list_query,
    read_list,
    respond_with_list,
    text_cell,
)
from jobauto_prefect.facade.console.tasks.windows import badge_of, tell_state, tell_window
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.formats.html.cell_model import Cell
from jobauto_prefect.facade.formats.html.page_language import Translator
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.service import CurrentService
from jobauto_prefect.ledger.states import LIVE_TASKS, UNFULFILLED, TaskState

TASKS = f"{CONSOLE}/tasks"
CALENDAR = f"{TASKS}/calendar"
FILTERS = ("state", "runtemplate", "runtemplate_id", "company_id", "from", "to")

router = late_routes.router(include_in_schema=False)


@router.get(TASKS)
async def list_tasks(
    request: Request, contract: CurrentContract, service: CurrentService
) -> Response:
    """List the tasks that the query asks for."""
    translate, languages = language_parts(request)
    query = list_query(request, FILTERS)
    view = await read_list(contract, "tasks", {"order": "-window_start", **query})
    zone = ZoneInfo(service.settings.timezone)
    only = await read_only_template(contract, query.get("runtemplate_id", ""))
    page = ListPage(
        collection="tasks",
        title=translate("Tasks"),
        heads=[
            translate("Window"),
            translate("State"),
            translate("Run template"),
            translate("Company"),
            translate("Attempts"),
            translate("Message"),
        ],
        rows=[_row(task, view, zone, translate) for task in view.data.values()],
        filters=[
            ListFilter(
                "state",
                translate("State"),
                [
                    (",".join(UNFULFILLED), translate("failed or missed")),
                    (",".join(LIVE_TASKS), translate("owed")),
                    *((state, tell_state(state, translate)) for state in TaskState),
                ],
            ),
            ListFilter("runtemplate", translate("Run template, a part of its name")),
            *([ListFilter("runtemplate_id", translate("Only this one"), only)] if only else []),
            await company_filter(contract, languages, translate),
            ListFilter("from", translate("Begins from (UTC)")),
            ListFilter("to", translate("Begins before (UTC)")),
        ],
        empty=translate("No window has been due yet. Give a run template a schedule."),
        actions=[Action(translate("Calendar of windows"), CALENDAR)],
    )
    return respond_with_list(request, contract.who, page, view)


def _row(
    task: Mapping[str, Any], view: View, zone: ZoneInfo, translate: Translator
) -> list[AnyCell]:
    start, end = (datetime.fromisoformat(task[f"window_{side}"]) for side in ("start", "end"))
    badge = badge_of(task, translate)
    return [
        link(tell_window(start, end, zone, translate), f"{TASKS}/{task['id']}"),
        Cell("badge", badge.text, tone=badge.tone),
        link(
            view.named(task, "runtemplate_id"),
            f"{CONSOLE}/runtemplates/{task['runtemplate_id']}",
        ),
        text_cell(view.named(task, "company_id")),
        Cell("number", str(task["attempts"])),
        text_cell(task["excuse"] or task["message"] or ""),
    ]
