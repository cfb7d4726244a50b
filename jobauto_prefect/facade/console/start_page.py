"""The start page: what an operator checks first, with links to the records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from fastapi import Response
from fastapi.responses import RedirectResponse

from jobauto_prefect.console_addresses import CONSOLE, list_address, page_of
from jobauto_prefect.facade.auth.identity import CurrentUser
from jobauto_prefect.facade.auth.visitor_sessions import START
from jobauto_prefect.facade.console.jobs.workers import TONES as WORKER_TONES
from jobauto_prefect.facade.console.jobs.workers import (
    count_jobs,
    sort_by_state,
    tell_hindrances,
    tell_load,
    worker_address,
)
from jobauto_prefect.facade.console.moments import format_span
from jobauto_prefect.facade.console.overview import BAD, NOTEWORTHY, Overview, read_overview
from jobauto_prefect.facade.console.success_chart import draw_success
from jobauto_prefect.facade.console.visit import CurrentVisit
from jobauto_prefect.facade.formats.html.cells import TONES
from jobauto_prefect.facade.formats.html.page_language import Translator
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.ledger.queries.jobs import EndedGroup
from jobauto_prefect.ledger.records import Job
from jobauto_prefect.ledger.states import JobState, TaskState

MAX_NOTE = 240  # characters of a message
MAX_WORKERS = 8

router = late_routes.router(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure with a link to its records."""

    label: str
    figure: str
    href: str
    tone: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A job, a window or a worker; `when` is the time `moment` as text.

    `note` is the service's message, in English. The line stands for the newest of `count` records,
    which are listed at `all_href`.
    """

    name: str
    href: str
    company: str = ""
    when: str = ""
    moment: datetime | None = None
    state: str = ""
    tone: str = ""
    note: str = ""
    aside: str = ""
    share: int | None = None
    count: int = 1
    all_href: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """Some records, with a link to all of them; `empty` is the text if there are none."""

    key: str
    title: str
    href: str
    lines: Sequence[Line]
    empty: str


@router.get(CONSOLE)
@router.get(f"{CONSOLE}/")
def lead_to_start(_: CurrentUser) -> Response:
    """Redirect to the start page: people shorten the addresses of the other pages to this one."""
    return RedirectResponse(START, 303)


@router.get(START)
def show_start(visit: CurrentVisit) -> Response:
    translate, service = visit.translate, visit.service
    overview = read_overview(service, visit.who)
    return visit.respond(
        "start.html",
        translate("Start"),
        here="Start",
        tiles=_tiles(overview, translate),
        troubles=_troubles(overview, translate, service.settings.pool),
        work=_work(overview, translate),
        chart=draw_success(overview.days, translate),
        zone=service.settings.timezone,
        frozen=overview.frozen,
        is_nowhere=visit.who.rights.companies_with("jobs.read") == frozenset(),
        is_live=True,
        at=overview.at,
    )


def _list_of(kind: str, **query: str) -> str:
    return f"{list_address(kind)}?{urlencode(query, safe=',')}"


WORKERS = list_address("worker")
RUNNING = _list_of("job", state=JobState.RUNNING)
WAITING = _list_of("job", state=JobState.SCHEDULED, order="schedule")
MISSED = _list_of("task", state=TaskState.MISSED)


def _ended_address(states: Sequence[JobState]) -> str:
    """Return the address of the list of jobs that ended in these states since yesterday."""
    return _list_of("job", state=",".join(states), since="yesterday", order="-end")


def _tiles(overview: Overview, translate: Translator) -> list[Tile]:
    working = sum(worker["state"] == "working" for worker in overview.workers)
    known = sum(worker["state"] != "lost" for worker in overview.workers)
    failed = sum(overview.ended[state] for state in BAD)
    warned = overview.ended[JobState.WARNING]
    missed = overview.missed.total or 0
    return [
        Tile(
            translate("Running"),
            str(overview.running.total),
            RUNNING,
            "live" if overview.running.total else "",
        ),
        Tile(translate("Waiting"), str(overview.waiting.total), WAITING),
        Tile(
            translate("Failed"),
            str(failed),
            _ended_address(BAD),
            "bad" if failed else "",
            translate("since yesterday"),
        ),
        Tile(
            translate("Warnings"),
            str(warned),
            _ended_address([JobState.WARNING]),
            "warn" if warned else "",
            translate("since yesterday"),
        ),
        Tile(
            translate("Missed windows"),
            str(missed),
            MISSED,
            "bad" if missed else "",
            translate("since yesterday"),
        ),
        Tile(translate("Workers"), f"{working}/{known}", WORKERS, "bad" if working < known else ""),
    ]


def _troubles(overview: Overview, translate: Translator, pool: str) -> list[Section]:
    known = [worker for worker in overview.workers if worker["state"] != "lost"]
    return [
        Section(
            "ended",
            translate("Failures and warnings since yesterday"),
            _ended_address(NOTEWORTHY),
            [_ended(group, overview, translate) for group in overview.newest_ended],
            translate("No failures and no warnings."),
        ),
        Section(
            "missed",
            translate("Missed windows"),
            MISSED,
            [
                Line(
                    name=overview.template_names.get(str(task.runtemplate_id), f"#{task.id}"),
                    href=page_of("task", task.id),
                    company=overview.company_names.get(str(task.runtemplate.company_id), ""),
                    when=translate("{time} ago", time=format_span(overview.at - task.deadline)),
                    moment=task.deadline,
                    note=_clip(task.message or ""),
                )
                for task in overview.missed.records
            ],
            translate("No window was missed since yesterday."),
        ),
        Section(
            "workers",
            translate("Workers"),
            WORKERS,
            [_worker(worker, translate) for worker in sort_by_state(known)[:MAX_WORKERS]],
            translate(
                "No worker has reported. Start one: jobauto worker start --pool {pool}", pool=pool
            ),
        ),
    ]


def _work(overview: Overview, translate: Translator) -> list[Section]:
    return [
        Section(
            "waiting",
            translate("Waiting"),
            WAITING,
            [_waiting(job, overview, translate) for job in overview.waiting.records],
            translate("No job is waiting."),
        ),
        Section(
            "running",
            translate("Running"),
            RUNNING,
            [_running(job, overview, translate) for job in overview.running.records],
            translate("No job is running."),
        ),
    ]


def _job(job: Job, overview: Overview, **members: Any) -> Line:
    return Line(
        name=overview.template_names.get(str(job.runtemplate_id), f"#{job.id}"),
        href=page_of("job", job.id),
        company=overview.company_names.get(str(job.company_id), ""),
        **members,
    )


def _running(job: Job, overview: Overview, translate: Translator) -> Line:
    begin = job.begin or job.schedule
    lasting = translate("for {time}", time=format_span(overview.at - begin))
    return _job(job, overview, when=lasting, moment=begin, aside=job.worker or "")


def _waiting(job: Job, overview: Overview, translate: Translator) -> Line:
    left = job.schedule - overview.at
    is_due = left <= timedelta(0)
    when = translate("due {time} ago" if is_due else "in {time}", time=format_span(abs(left)))
    why = overview.wait_reasons.get(job.id, "")
    aside = translate("It may start at any moment.") if is_due and not why else ""
    return _job(job, overview, when=when, moment=job.schedule, note=_clip(why), aside=aside)


def _ended(group: EndedGroup, overview: Overview, translate: Translator) -> Line:
    """Return the newest job of a group, with the number of jobs in it."""
    job = group.newest
    end = job.end or job.schedule
    code = "" if job.exitcode is None else translate("exit code {code}", code=job.exitcode)
    return _job(
        job,
        overview,
        when=translate("{time} ago", time=format_span(overview.at - end)),
        moment=end,
        state=translate(job.state),
        tone=TONES[job.state],
        note=_clip(job.message or ""),
        aside=code,
        count=group.count,
        all_href=f"{_ended_address([JobState(job.state)])}&runtemplate_id={job.runtemplate_id}",
    )


def _worker(worker: Mapping[str, Any], translate: Translator) -> Line:
    limit, state = worker["limit"], worker["state"]
    return Line(
        name=worker["name"],
        href=worker_address(worker["name"]),
        company=worker["pool"],
        state=translate(state),
        tone=WORKER_TONES[state],
        note=_clip(tell_hindrances(worker)),
        aside=tell_load(worker, translate),
        share=min(100, 100 * count_jobs(worker) // limit) if limit else None,
    )


def _clip(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_NOTE else f"{line[: MAX_NOTE - 1]}…"
