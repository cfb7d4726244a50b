"""Assigns processes to windows, and says what was owed and did not run, or ran and was not owed."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

from jobauto_prefect.compiler import Window
from jobauto_prefect.ledger.records import Task
from jobauto_prefect.ledger.states import LIVE_TASKS, TaskReason, TaskState


@dataclass(slots=True)
class Process:
    """A process that ran, as whoever started it saw it.

    `settled_at` is when the ledger heard of its end; `fulfils`: by its exit code's severity.
    """

    template_id: int
    task_id: int | None
    job_id: int
    started: datetime
    exit_code: int
    fulfils: bool
    ended: datetime | None = None
    settled_at: datetime | None = None
    dead: bool = False


@dataclass(frozen=True, slots=True)
class Outage:
    """A part that was away within `[start, end)`."""

    part: str
    start: datetime
    end: datetime


@dataclass(slots=True)
class Verdict:
    """What is wrong, in words; `states` counts the tasks by state and reason."""

    missed: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    states: Counter[tuple[str, str | None]] = field(default_factory=Counter)
    windows: int = 0
    processes: int = 0


Owed = Mapping[int, Sequence[Window]]


def match(
    owed: Owed,
    tasks: Iterable[Task],
    processes: Sequence[Process],
    outages: Sequence[Outage],
    parallel: set[int],
) -> Verdict:
    """Compare the windows owed by template with what came of them.

    `parallel` are the templates two windows of which may run at once.
    """
    verdict = Verdict(windows=sum(map(len, owed.values())), processes=len(processes))
    windows = {
        (template, window.start): window
        for template, template_windows in owed.items()
        for window in template_windows
    }
    by_task: dict[int | None, list[Process]] = defaultdict(list)
    by_template: dict[int, list[Process]] = defaultdict(list)
    for process in processes:
        by_task[process.task_id].append(process)
        by_template[process.template_id].append(process)
    known = Counter[tuple[int, datetime]]()
    for task in tasks:
        key = (task.runtemplate_id, task.window_start)
        known[key] += 1
        verdict.states[task.state, task.reason] += 1
        window = windows.get(key)
        if window is None or window.end != task.window_end:
            verdict.extra.append(f"task {task.id}: no window of template {key[0]} is {key[1]}")
            continue
        if task.state in LIVE_TASKS:
            verdict.unfinished.append(f"task {task.id} ({task.window_start}) is {task.state}")
            continue
        own = by_task.pop(task.id, [])
        verdict.extra += _too_much(task, own)
        around = by_template[task.runtemplate_id]
        verdict.missed += _unexplained(task, window, own, around, outages)
    verdict.missed += [f"no task for {key}" for key in windows.keys() - known.keys()]
    verdict.extra += [f"{count} tasks for {key}" for key, count in known.items() if count > 1]
    verdict.extra += [
        f"process of job {process.job_id} is owed nothing" for process in by_task[None]
    ]
    for template, ran in by_template.items():
        if template not in parallel:
            verdict.extra += _at_once(ran)
    return verdict


def _too_much(task: Task, own: Sequence[Process]) -> Iterator[str]:
    if len(own) != task.attempts:
        yield f"task {task.id}: {len(own)} processes, {task.attempts} attempts"
    yield from _at_once(own)
    if task.state == TaskState.MISSED and own:
        yield f"task {task.id} is missed, and ran"


def _at_once(processes: Sequence[Process]) -> Iterator[str]:
    for earlier, later in pairwise(sorted(processes, key=lambda process: process.started)):
        if earlier.ended is None or earlier.ended > later.started:
            yield f"the processes of jobs {earlier.job_id} and {later.job_id} ran at once"


def _unexplained(
    task: Task,
    window: Window,
    own: Sequence[Process],
    around: Sequence[Process],
    outages: Sequence[Outage],
) -> Iterator[str]:
    """An end that nothing which happened explains."""
    named = f"task {task.id} ({task.window_start}) is {task.state}, {task.reason}"
    if task.reason is None:
        yield named
    elif task.state == TaskState.MISSED and not _cause(task, window, around, outages):
        yield f"{named}, and nothing stood in its way"
    elif task.state == TaskState.FAILED and not own:
        yield f"{named}, without an attempt"
    elif task.state in (TaskState.FULFILLED, TaskState.FULFILLED_LATE):
        last = max(own, key=lambda process: process.started, default=None)
        if last is None or not last.fulfils or last.dead:
            yield f"{named}, and no process did it"
        elif (last.ended or task.deadline) > task.deadline and task.state == TaskState.FULFILLED:
            yield f"{named}, after its deadline"


def _cause(
    task: Task, window: Window, around: Sequence[Process], outages: Sequence[Outage]
) -> bool:
    if task.reason == TaskReason.MISFIRE:
        parts = ("services", "database")
        return any(
            outage.part in parts and outage.start <= window.launch_at < outage.end
            for outage in outages
        )
    until = max(task.deadline, task.created_at)
    if task.reason == TaskReason.DEADLINE and any(
        outage.start < until and outage.end > window.launch_at for outage in outages
    ):
        return True
    return any(
        process.started <= until
        and (process.settled_at is None or process.settled_at >= window.launch_at)
        and process.task_id != task.id
        for process in around
    )
