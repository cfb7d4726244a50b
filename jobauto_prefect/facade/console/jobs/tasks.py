"""Tasks: the windows of run templates, with their results, attempts and actions."""

from collections.abc import Sequence
from datetime import datetime, time
from zoneinfo import ZoneInfo

from fastapi import Response

from jobauto_prefect.console_addresses import list_address, page_of
from jobauto_prefect.facade.console.contract import ContractError
from jobauto_prefect.facade.console.jobs.job_actions import (
    AllowedActions,
    JobAction,
    excuse_task,
)
from jobauto_prefect.facade.console.jobs.job_page import Refusal
from jobauto_prefect.facade.console.jobs.labels import line_of
from jobauto_prefect.facade.console.notifications import redirect_after
from jobauto_prefect.facade.console.records.cells import (
    Column,
    Record,
    link_to,
    number,
    referred,
    text_cell,
)
from jobauto_prefect.facade.console.records.forms import Form, SentForm
from jobauto_prefect.facade.console.records.pages import BY_COMPANY, Action, Filter, RecordPages
from jobauto_prefect.facade.console.success_chart import MONTHS
from jobauto_prefect.facade.console.visit import CurrentVisit, Visit
from jobauto_prefect.facade.formats.html.cells import TONES, Cell
from jobauto_prefect.facade.formats.html.page_language import Text, Translator
from jobauto_prefect.kinds import KINDS
from jobauto_prefect.ledger.states import LIVE_TASKS, UNFULFILLED, TaskState

CALENDAR = f"{list_address('task')}/calendar"
TO = " \N{EN DASH} "


def tell_window(start: datetime, end: datetime, zone: ZoneInfo, translate: Translator) -> str:
    """Format a window in a time zone; whole days are shown without hours."""
    start, end = start.astimezone(zone), end.astimezone(zone)
    if start.time() == end.time() == time():
        last = datetime.fromtimestamp(end.timestamp() - 1, zone)
        days = [tell_day(day, translate) for day in (start, last)]
        return days[0] if start.date() == last.date() else TO.join(days)
    first = f"{tell_day(start, translate)} {start:%H:%M}"
    if start.date() == end.date():
        return f"{first}{TO}{end:%H:%M}"
    return f"{first}{TO}{tell_day(end, translate)} {end:%H:%M}"


def tell_day(day: datetime, translate: Translator) -> str:
    """Format a day: `23 Nov 2026`."""
    month = translate(MONTHS[day.month - 1])
    return f"{translate('{day} {month}', day=day.day, month=month)} {day.year}"


def tell_state(state: str, translate: Translator) -> str:
    """Format a state: `fulfilled late`."""
    return translate(state).replace("_", " ")


def badge_of(task: Record, visit: Visit) -> Cell:
    """Draw the state of a task; an excused one has no colour."""
    text = tell_state(task["state"], visit.translate)
    if task["excuse"]:
        return Cell("badge", visit.translate("{state}, excused", state=text))
    return Cell("badge", text, tone=TONES.get(task["state"], ""))


def window_of(task: Record, visit: Visit) -> str:
    """Format the window of a task."""
    start, end = (datetime.fromisoformat(task[f"window_{side}"]) for side in ("start", "end"))
    return tell_window(start, end, visit.zone, visit.translate)


async def _states(visit: Visit) -> list[tuple[str, str]]:
    return [
        (",".join(UNFULFILLED), visit.translate("failed or missed")),
        (",".join(LIVE_TASKS), visit.translate("owed")),
        *((state, tell_state(state, visit.translate)) for state in TaskState),
    ]


class TaskPages(RecordPages):
    """The pages of tasks, the newest window first."""

    kind, parameter, order = KINDS["task"], "task_id", "-window_start"
    columns = (
        Column(
            Text("Window"), lambda task, visit: link_to("task", task["id"], window_of(task, visit))
        ),
        Column(Text("State"), badge_of),
        Column(Text("Run template"), referred("runtemplate_id")),
        Column(Text("Company"), lambda task, visit: text_cell(visit.named(task, "company_id"))),
        Column(Text("Attempts"), number("attempts")),
        Column(Text("Message"), lambda task, _: text_cell(task["excuse"] or task["message"] or "")),
    )
    filters = (
        Filter("state", Text("State"), _states),
        Filter("runtemplate", Text("Part of the run template's name")),
        Filter("runtemplate_id", Text("Run template"), lambda visit: visit.only_template()),
        BY_COMPANY,
        Filter("from", Text("Begins from (UTC)")),
        Filter("to", Text("Begins before (UTC)")),
    )
    empty = Text("No window has been due yet. Give a run template a schedule.")

    def filters_of(self, visit: Visit) -> Sequence[Filter]:
        """Return the filters of the list; the run template's id only where it is in use."""
        is_narrowed = visit.asked("runtemplate_id")
        return [each for each in self.filters if is_narrowed or each.name != "runtemplate_id"]

    def list_actions(self, _visit: Visit) -> list[Action]:
        """Return the link to the calendar."""
        return [Action(Text("Calendar of windows"), CALENDAR)]

    async def show_record(self, visit: CurrentVisit) -> Response:
        return await respond_with_task(visit, visit.request.path_params[self.parameter])


PAGES = TaskPages()
router = PAGES.router()


@router.post(f"{PAGES.item_path}/{JobAction.RETRY}")
async def retry(task_id: int, visit: CurrentVisit) -> Response:
    """Start another attempt and redirect to its job."""
    try:
        made = await visit.contract.write("POST", f"/task/{task_id}/retry.json")
    except ContractError as error:
        return await respond_with_task(visit, task_id, Refusal(JobAction.RETRY, error, Form([])))
    return redirect_after(visit.request, page_of("job", made["id"]), "retried")


@router.post(f"{PAGES.item_path}/{JobAction.EXCUSE}")
async def excuse(task_id: int, form: SentForm, visit: CurrentVisit) -> Response:
    """Excuse the failed or missed window."""
    try:
        await excuse_task(visit.contract, task_id, form.get("why", ""))
    except ContractError as error:
        return await respond_with_task(visit, task_id, Refusal(JobAction.EXCUSE, error, form))
    return redirect_after(visit.request, page_of("task", task_id), "excused")


async def respond_with_task(visit: Visit, task_id: int, refusal: Refusal | None = None) -> Response:
    """Send the page of a task; a refused form is shown as it was sent, with the reason."""
    task: Record = await visit.get(f"/task/{task_id}")
    window = window_of(task, visit)
    is_owed = task["state"] in UNFULFILLED
    return visit.respond(
        "tasks/task.html",
        f"{visit.named(task, 'runtemplate_id')} · {window}",
        status=refusal.error.status if refusal else 200,
        task=task,
        visit=visit,
        window=window,
        zone=visit.zone.key,
        badge=badge_of(task, visit),
        actions=AllowedActions(
            retry=is_owed and visit.who.rights.may("jobs.execute", task["company_id"]),
            excuse=is_owed and visit.who.rights.may("jobs.update", task["company_id"]),
        ),
        attempts=[line_of(job, visit) for job in task["jobs"]],
        refusal=refusal,
        contract_page=PAGES.contract_page(task_id),
    )
