"""The start page: what an operator wants to know first, with one click to each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from fastapi import Request, Response

from jobauto_prefect.facade.auth.identity import CurrentUser
from jobauto_prefect.facade.console.overview import BAD, NOTEWORTHY, Overview, read_overview
from jobauto_prefect.facade.console.page_response import language_of, respond_with_page
from jobauto_prefect.facade.console.success_chart import draw_success
from jobauto_prefect.facade.console.texts import TEXTS, Texts
from jobauto_prefect.facade.console.visitor_sessions import START
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.formats.html.scalars import TONES
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.http.addresses import CONTRACT
from jobauto_prefect.facade.service import CurrentService
from jobauto_prefect.ledger.records import Job, Task
from jobauto_prefect.ledger.states import JobState, TaskState

MAX_NOTE = 240  # characters of a message
MAX_WORKERS = 8
WORKER_TONES: Mapping[str, str] = {
    "working": "good",
    "hindered": "warn",
    "frozen": "warn",
    "silent": "bad",
}

router = late_routes.router(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure and where its records are; `alarming` where it is no good sign."""

    label: str
    figure: str
    href: str
    tone: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A job, a window or a worker; `moment` is the instant `when` tells of.

    `note` is what the service says of it, in the contract's language.
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


@dataclass(frozen=True, slots=True)
class Section:
    """Some records, and where all of them are; `empty` is said where there are none."""

    key: str
    title: str
    href: str
    lines: Sequence[Line]
    empty: str


@router.get(START)
def show_start(request: Request, who: CurrentUser, service: CurrentService) -> Response:
    """Show the start page."""
    language = language_of(request)
    texts = TEXTS[language]
    overview = read_overview(service, who)
    view = View(
        title=texts.start,
        item="",
        data={},
        user=who.actor.name,
        language=language,
        session=who.in_session,
    )
    return respond_with_page(
        "start.html",
        view,
        here="start",
        tiles=_tiles(overview, texts),
        troubles=_troubles(overview, texts, service.settings.pool),
        work=_work(overview, texts),
        chart=draw_success(overview.days, texts),
        zone=service.settings.timezone,
        frozen=overview.frozen,
        at=overview.at,
    )


def _list_address(collection: str, **query: str) -> str:
    return f"{CONTRACT}/{collection}.html?{urlencode(query)}"


RUNNING = _list_address("jobs", state=JobState.RUNNING)
WAITING = _list_address("jobs", state=JobState.SCHEDULED, order="schedule")
MISSED = _list_address("tasks", state=TaskState.MISSED, order="-deadline")
WORKERS = f"{CONTRACT}/workers.html"


def _ended_address(overview: Overview, states: Sequence[JobState]) -> str:
    """Address the list of the most frequent of these states: lists have one at a time."""
    most = max(states, key=lambda state: overview.ended[state])
    return _list_address("jobs", state=most, order="-end")


def _tiles(overview: Overview, texts: Texts) -> list[Tile]:
    working = sum(worker["state"] == "working" for worker in overview.workers)
    known = sum(worker["state"] != "lost" for worker in overview.workers)
    failed = sum(overview.ended[state] for state in BAD)
    warned = overview.ended[JobState.WARNING]
    missed = overview.missed.total or 0
    return [
        Tile(texts.running, str(overview.running.total), RUNNING, "live"),
        Tile(texts.waiting, str(overview.waiting.total), WAITING),
        Tile(
            texts.failed,
            str(failed),
            _ended_address(overview, BAD),
            "bad" if failed else "",
            texts.since,
        ),
        Tile(
            texts.warnings,
            str(warned),
            _ended_address(overview, [JobState.WARNING]),
            "warn" if warned else "",
            texts.since,
        ),
        Tile(texts.missed, str(missed), MISSED, "bad" if missed else "", texts.since),
        Tile(texts.workers, f"{working}/{known}", WORKERS, "bad" if working < known else ""),
    ]


def _troubles(overview: Overview, texts: Texts, pool: str) -> list[Section]:
    return [
        Section(
            "ended",
            texts.ended,
            _ended_address(overview, NOTEWORTHY),
            [_ended(job, overview, texts) for job in overview.newest_ended.records],
            texts.no_ended,
        ),
        Section(
            "missed",
            texts.missed,
            MISSED,
            [_missed(task, overview, texts) for task in overview.missed.records],
            texts.no_missed,
        ),
        Section(
            "workers",
            texts.workers,
            WORKERS,
            [_worker(worker, texts) for worker in _most_wanted(overview.workers)],
            texts.no_workers.format(pool=pool),
        ),
    ]


def _work(overview: Overview, texts: Texts) -> list[Section]:
    return [
        Section(
            "waiting",
            texts.waiting,
            WAITING,
            [_waiting(job, overview, texts) for job in overview.waiting.records],
            texts.no_waiting,
        ),
        Section(
            "running",
            texts.running,
            RUNNING,
            [_running(job, overview, texts) for job in overview.running.records],
            texts.no_running,
        ),
    ]


def _job(job: Job, overview: Overview, **members: Any) -> Line:
    return Line(
        name=overview.template_names.get(str(job.runtemplate_id), f"#{job.id}"),
        href=f"{CONTRACT}/job/{job.id}.html",
        company=overview.company_names.get(str(job.company_id), ""),
        **members,
    )


def _running(job: Job, overview: Overview, texts: Texts) -> Line:
    begin = job.begin or job.schedule
    lasting = texts.lasting.format(time=format_span(overview.at - begin))
    return _job(job, overview, when=lasting, moment=begin, aside=job.worker or "")


def _waiting(job: Job, overview: Overview, texts: Texts) -> Line:
    left = job.schedule - overview.at
    is_due = left <= timedelta(0)
    when = (texts.overdue if is_due else texts.in_time).format(time=format_span(abs(left)))
    why = overview.wait_reasons.get(job.id, "")
    aside = texts.any_moment if is_due and not why else ""
    return _job(job, overview, when=when, moment=job.schedule, note=_clip(why), aside=aside)


def _ended(job: Job, overview: Overview, texts: Texts) -> Line:
    end = job.end or job.schedule
    code = "" if job.exitcode is None else texts.exit_code.format(code=job.exitcode)
    return _job(
        job,
        overview,
        when=texts.ago.format(time=format_span(overview.at - end)),
        moment=end,
        state=texts.states.get(job.state, job.state),
        tone=TONES[job.state],
        note=_clip(job.message or ""),
        aside=code,
    )


def _missed(task: Task, overview: Overview, texts: Texts) -> Line:
    return Line(
        name=overview.template_names.get(str(task.runtemplate_id), f"#{task.id}"),
        href=f"{CONTRACT}/task/{task.id}.html",
        company=overview.company_names.get(str(task.runtemplate.company_id), ""),
        when=texts.ago.format(time=format_span(overview.at - task.deadline)),
        moment=task.deadline,
        note=_clip(task.message or ""),
    )


def _most_wanted(workers: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Choose some workers, those that do not work first."""
    known = [worker for worker in workers if worker["state"] != "lost"]
    return sorted(known, key=lambda worker: worker["state"] == "working")[:MAX_WORKERS]


def _worker(worker: Mapping[str, Any], texts: Texts) -> Line:
    limit, free, state = worker["limit"], worker["free"], worker["state"]
    busy = len(worker["jobs"]) if limit is None else limit - free
    load = str(busy) if limit is None else texts.free_of.format(running=busy, limit=limit)
    hindrances = "; ".join(str(why) for why in worker["hindrances"].values())
    return Line(
        name=worker["name"],
        href=WORKERS,
        company=worker["pool"],
        state=texts.states.get(state, state),
        tone=WORKER_TONES.get(state, ""),
        note=_clip(hindrances),
        aside=load,
        share=min(100, 100 * busy // limit) if limit else None,
    )


def format_span(span: timedelta) -> str:
    """Format a time in its largest unit: `40 s`, `5 min`, `3 h`, `2 d`."""
    seconds = max(0, int(span.total_seconds()))
    for unit, size in (("d", 2 * 86400), ("h", 2 * 3600), ("min", 60)):
        if seconds >= size:
            whole = {"d": 86400, "h": 3600, "min": 60}[unit]
            return f"{seconds // whole} {unit}"
    return f"{seconds} s"


def _clip(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_NOTE else f"{line[: MAX_NOTE - 1]}…"
