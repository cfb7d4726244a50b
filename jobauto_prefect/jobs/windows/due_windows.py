"""Windows that are due: each is opened with its task, and the job that starts it.

Everyone who opens windows holds their run template's row: the window scheduler, a claim that comes
before it, and a write that changes the schedule.
"""

import itertools
import logging
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from jobauto_prefect.compiler.scheduling.closures import ClosedTime
from jobauto_prefect.compiler.scheduling.deadlines import deadline_of
from jobauto_prefect.compiler.scheduling.misfire import Opening, WindowDisposition, windows_to_open
from jobauto_prefect.compiler.scheduling.prefect_schedule import schedule_for_prefect
from jobauto_prefect.compiler.scheduling.schedule import Schedule, schedule_of, zone_of
from jobauto_prefect.compiler.scheduling.windows import next_window
from jobauto_prefect.definitions import Overlap
from jobauto_prefect.errors import JobautoError
from jobauto_prefect.jobs.isolation import apart
from jobauto_prefect.jobs.windows import tasks
from jobauto_prefect.jobs.windows.closed_time import closed_times
from jobauto_prefect.ledger.audit.trail import SERVICE, WritingSession
from jobauto_prefect.ledger.jobs import windows
from jobauto_prefect.ledger.jobs.attempts import is_active, new_job
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.records import Job, RunTemplate, Task
from jobauto_prefect.ledger.states import TaskReason, TaskState
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.monitoring import tracing
from jobauto_prefect.settings import Settings

logger = logging.getLogger(__name__)

SPREAD = timedelta(seconds=0.1)
"""Interval between the starts of windows that are caught up."""


def keep_windows(
    session: WritingSession, template: RunTemplate, settings: Settings, *, closed_anew: bool = False
) -> None:
    """Adjust the windows of a template to its current schedule.

    `closed_anew`: its closed time was changed, or how its windows react to it.

    Windows that have already opened are owed by the previous schedule. A template that is switched
    off starts nothing more; one that is switched on begins with its next boundary. A template that
    is about to be inserted has no windows yet, and nobody else can know of it: it is not locked.
    """
    is_new = template in session.new
    if not is_new:
        session.flush()
        windows.lock_windows(session, template)
    now = session.clock()
    schedule = None
    if is_active(template):
        zone = template.zone_name(settings.timezone)
        schedule = schedule_of(template.interv, template.cron, zone, template.delay)
    kept = None
    if schedule is not None:
        seconds = round(schedule.delay.total_seconds())
        kept = f"{schedule.cron}|{schedule.zone.key}|{seconds}"
    if kept != template.kept_schedule:
        if template.kept_schedule is not None:
            open_windows(session, [template], now)
        template.kept_schedule = kept
        template.next_window = template.next_schedule = None
        if schedule is not None:
            following = next_window(schedule, now)
            template.next_window = following.start
            template.next_schedule = following.launch_at
    elif closed_anew:
        recheck_closed_time(session, [template])
    if not is_new and not is_active(template):
        tasks.deactivate(session, template, "its run template was switched off")


def follow_zone(ledger: Ledger, settings: Settings) -> None:
    """Move templates to the service's time zone, which may have changed during downtime."""
    with ledger.reading() as session:
        moved = [each.id for each in windows.templates_of_other_zone(session, settings.timezone)]
    for template_id in moved:
        with apart(f"run template {template_id}"), ledger.writing(SERVICE) as session:
            template = session.get_one(RunTemplate, template_id)
            keep_windows(session, template, settings)
            enqueue(session, OutboxKind.APPLY_TEMPLATE, template.id)


def open_until(session: WritingSession, template: RunTemplate, until: datetime) -> None:
    """Open the windows of one template that are due at an instant."""
    windows.lock_windows(session, template)
    open_windows(session, [template], until)


def open_windows(session: WritingSession, held: Sequence[RunTemplate], now: datetime) -> int:
    """Open the due windows of locked templates; return how many were opened.

    The number of statements does not depend on the number of templates.
    """
    closed = closed_times(session, held, min(_launches(held), default=now))
    due = [each for template in held for each in _due(template, now, closed[template.id])]
    opened = windows.opened_windows(session, [template.id for template in held], due_since(due))
    new = [each for each in due if (each[0].id, each[2].window.start) not in opened]
    skipping = [template.id for template in held if template.overlap == Overlap.SKIP]
    busy = windows.busy_templates(session, skipping) if skipping else set()
    starts = (now + SPREAD * number for number in itertools.count())
    made = [_obligation(*each, starts, busy) for each in new]
    session.add_all(task for task, _, _ in made)
    session.add_all(job for _, job, _ in made if job is not None)
    session.flush()
    for task, job, by_prefect in made:
        if task.state == TaskState.MISSED and task.excuse is None:
            enqueue(session, OutboxKind.TELL_TASK, task.id)
        if job is not None and not by_prefect:
            enqueue(session, OutboxKind.CREATE_RUN, job.id)
    session.flush()
    return len(new)


Due = tuple[RunTemplate, Schedule, Opening, datetime]


def due_since(due: Sequence[Due]) -> datetime | None:
    """Return when the first of these windows began; None if there are none."""
    return min((opening.window.start for _, _, opening, _ in due), default=None)


def recheck_closed_time(session: WritingSession, held: Iterable[RunTemplate]) -> None:
    """Make the window scheduler check locked templates whose closed time has changed.

    It checks when the next window is due, or at once, and finds out whether the window moves.
    """
    for template in held:
        schedule = schedule_kept(template)
        if schedule is not None and template.next_window is not None:
            template.next_schedule = template.next_window + schedule.delay
    session.flush()


def _launches(held: Sequence[RunTemplate]) -> Iterator[datetime]:
    """Yield when the first windows that are not yet opened were due."""
    for template in held:
        schedule = schedule_kept(template)
        if schedule is not None and template.next_window is not None:
            yield template.next_window + schedule.delay


def _due(template: RunTemplate, now: datetime, closed: ClosedTime) -> Iterator[Due]:
    """Yield the template's windows that open now; its mark moves behind them."""
    if template.kept_schedule is None or template.next_window is None:
        return
    try:
        schedule = _from_text(template.kept_schedule)
        opened = windows_to_open(schedule, template.next_window, now, template.misfire, closed)
        deadlines = [
            deadline_of(template.deadline_offset, schedule, opening.window)
            for opening in opened.openings
        ]
    except (JobautoError, ValueError):
        # A system update may remove a zone: the other templates still get their windows.
        logger.exception("run template %s has no windows until it is saved again", template.id)
        template.next_schedule = None
        return
    template.next_window, template.next_schedule = opened.following.start, opened.opens_at
    for opening, deadline in zip(opened.openings, deadlines, strict=True):
        yield template, schedule, opening, deadline


def _obligation(
    template: RunTemplate,
    schedule: Schedule,
    opening: Opening,
    deadline: datetime,
    starts: Iterator[datetime],
    busy: set[int],
) -> tuple[Task, Job | None, bool]:
    """Return a window's task, its job, and whether Prefect's own schedule creates its flow run.

    The job is None if the window has none now.
    """
    window = opening.window
    task = Task(
        runtemplate_id=template.id,
        window_start=window.start,
        window_end=window.end,
        deadline=deadline,
        state=TaskState.OPEN,
    )
    if opening.disposition is WindowDisposition.EXCUSED and opening.closed is not None:
        _miss(task, TaskReason.CLOSED, opening.closed)
        task.excuse, task.excused_by = opening.closed, SERVICE.name
        return task, None, False
    if opening.disposition is WindowDisposition.MISSED:
        _miss(task, TaskReason.MISFIRE, "it passed unattended")
        return task, None, False
    if template.id in busy:
        _miss(task, TaskReason.OVERLAP, "the previous attempt was still running")
        return task, None, False
    if opening.disposition is WindowDisposition.QUEUED:
        task.catch_up = True
        return task, None, False
    start = window.launch_at
    if opening.disposition is WindowDisposition.CATCH_UP:
        start = next(starts)
        task.deadline = start + (window.end - window.start)
    job = new_job(template, schedule=start, schedule_type="scheduled")
    job.task = task
    opened: tracing.Attributes = {
        "jobauto.runtemplate_id": template.id,
        "jobauto.window": window.start.isoformat(),
    }
    job.traceparent = tracing.note("window", attributes=opened)
    by_prefect = opening.disposition is WindowDisposition.RUN and template.applied_paused is False
    return task, job, by_prefect and is_left_to_prefect(template, schedule)


def _miss(task: Task, reason: TaskReason, message: str) -> None:
    task.state, task.reason, task.message = TaskState.MISSED, reason, message


def is_left_to_prefect(template: RunTemplate, schedule: Schedule) -> bool:
    """Whether Prefect's scheduler creates the runs: the deployment has the schedule."""
    return template.applied_schedule is not False and schedule_for_prefect(schedule) is not None


def schedule_kept(template: RunTemplate) -> Schedule | None:
    """Return the schedule that determines a template's windows; None if it has no usable one."""
    try:
        return _from_text(template.kept_schedule) if template.kept_schedule else None
    except (JobautoError, ValueError):
        return None


def _from_text(kept: str) -> Schedule:
    cron, zone, seconds = kept.split("|")
    return Schedule(cron, zone_of(zone), timedelta(seconds=int(seconds)))
