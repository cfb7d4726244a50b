"""The ledger's figures as metrics, and the page of all metrics on the facade's port."""

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from datetime import datetime

from fastapi import Response

from jobauto_prefect.definitions.records.notices import Channel
from jobauto_prefect.errors import Forbidden, JobautoError, NotFound
from jobauto_prefect.facade.auth.identity import CurrentUser
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.service import CurrentService
from jobauto_prefect.ledger.database.engine import database_errors, require_writable
from jobauto_prefect.ledger.database.migration import require_usable
from jobauto_prefect.ledger.figures import Depth, Figures, read_figures
from jobauto_prefect.ledger.states import JobState, TaskState
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.monitoring.families import Family, Sample
from jobauto_prefect.monitoring.health import Check
from jobauto_prefect.settings import Settings

logger = logging.getLogger(__name__)

METRICS_PERMISSION = "system.logs"
"""The permission for figures of all companies; administrators have it."""

REREAD_FACTOR = 20
"""Figures are cached for this many times the duration of reading them: at most a twentieth of the
database's time, however large the ledger is and however many clients scrape it."""

router = late_routes.router(include_in_schema=False)


@router.get("/metrics")
def metrics(who: CurrentUser, service: CurrentService) -> Response:
    """Return all metrics of this facade, and those of the ledger."""
    if not who.rights.may(METRICS_PERMISSION, None):
        raise Forbidden(
            "metrics show numbers of all companies: only administrators read them here; a program"
            " on this machine reads them at the management port (JOBAUTO_MANAGEMENT_PORT)"
        )
    if service.monitor is None:
        raise NotFound("this process serves no facade, so it has no metrics")
    content_type = {"Content-Type": service.monitor.content_type}
    return Response(service.monitor.exposition(), headers=content_type)


def ledger_check(ledger: Ledger) -> Check:
    """Whether the ledger's database answers, accepts writes and has tables for this program."""

    def ask() -> None:
        with ledger.reading() as session:
            require_writable(session)
        with database_errors():
            require_usable(ledger.engine)

    async def check() -> str | None:
        await asyncio.to_thread(ask)
        return None

    return check


class LedgerMetrics:
    """The figures of the ledger as metrics, cached for a short while."""

    def __init__(self, ledger: Ledger, settings: Settings) -> None:
        self._ledger = ledger
        self._settings = settings
        self._lock = threading.Lock()
        self._known: Figures | None = None
        self._until = float("-inf")

    def families(self) -> Iterator[Family]:
        """Yield the ledger's metrics; if it does not answer, only that fact."""
        try:
            figures = self._figures()
        except JobautoError as error:
            logger.warning("no figures of the ledger: %s", error)
            figures = None
        up = [Sample(0 if figures is None else 1)]
        yield Family("jobauto_ledger_up", "Whether the ledger's database answers.", up)
        yield _pool(self._ledger)
        if figures is not None:
            yield from metric_families(figures)

    def _figures(self) -> Figures:
        with self._lock:
            began = time.monotonic()
            if self._known is None or began >= self._until:
                with self._ledger.snapshot() as session:
                    self._known = read_figures(
                        session,
                        self._ledger.clock(),
                        lease_seconds=self._settings.lease_seconds,
                        sign_in_seconds=self._settings.sign_in_window_seconds,
                        pool=self._settings.pool,
                    )
                ended = time.monotonic()
                self._until = ended + REREAD_FACTOR * (ended - began)
            return self._known


def _pool(ledger: Ledger) -> Family:
    pool = ledger.engine.pool
    counts = {"in use": "checkedout", "idle": "checkedin", "kept": "size"}
    samples = [Sample(getattr(pool, name)(), (state,)) for state, name in counts.items()]
    about = "Connections of this process to its database; kept: how many stay open when idle."
    return Family("jobauto_database_pool", about, samples, ("connections",))


def metric_families(figures: Figures) -> Iterator[Family]:
    """Yield the metrics for some figures of the ledger."""
    yield from _jobs(figures)
    yield from _windows(figures)
    yield from _queues(figures)
    yield from _sources(figures)
    yield from _safety(figures)


def _jobs(figures: Figures) -> Iterator[Family]:
    jobs = [Sample(each.number, (each.company, each.state, each.severity)) for each in figures.jobs]
    labels = ("company", "state", "severity")
    yield Family("jobauto_jobs", "Jobs; severity is empty until a job has one.", jobs, labels)
    lost = sum(each.number for each in figures.jobs if each.state == JobState.LOST)
    yield _single("jobauto_lost_attempts", "Attempts whose worker died or fell silent.", lost)
    leases = figures.leases
    yield _single(
        "jobauto_leases", "Jobs that a worker holds a lease for.", leases.number if leases else 0
    )
    about = "Seconds since the longest silent lease was renewed."
    yield _single("jobauto_lease_silence_seconds", about, _age(figures, leases))
    states = ("living", "silent", "hindered")
    workers = [
        Sample(number, (pool, state))
        for pool, numbers in figures.workers.items()
        for state, number in zip(states, numbers, strict=True)
    ]
    about = "Workers by work pool; hindered: living ones that can't do all they should."
    yield Family("jobauto_workers", about, workers, ("pool", "state"))
    due = [Sample(number, key) for key, number in figures.due.items()]
    about = "Jobs that a worker could start now (scheduled) and those that run, by work pool."
    yield Family("jobauto_jobs_due", about, due, ("pool", "state"))


def _windows(figures: Figures) -> Iterator[Family]:
    by_state = [Sample(figures.windows.get(state, 0), (state,)) for state in TaskState]
    yield Family("jobauto_windows", "Windows by the state of their task.", by_state, ("state",))
    opened = sum(figures.windows.values())
    yield _single("jobauto_windows_opened", "Windows that were opened.", opened)
    lately = [Sample(figures.late_windows.get(state, 0), (state,)) for state in TaskState]
    about = "Windows whose deadline was within the last hour, by the state of their task."
    yield Family("jobauto_windows_last_hour", about, lately, ("state",))


def _queues(figures: Figures) -> Iterator[Family]:
    label = ("kind",)
    items = figures.outbox.items()
    depths = [Sample(depth.number, (kind,)) for kind, depth in items]
    yield Family("jobauto_outbox", "Messages that Prefect has not got yet.", depths, label)
    failing = [Sample(depth.failing, (kind,)) for kind, depth in items]
    yield Family(
        "jobauto_outbox_failing",
        "Messages that Prefect has not got yet and that failed before.",
        failing,
        label,
    )
    ages = [Sample(_age(figures, depth), (kind,)) for kind, depth in items]
    about = "Age of the oldest message that Prefect has not got yet."
    yield Family("jobauto_outbox_age_seconds", about, ages, label)
    dead = [Sample(number, (kind,)) for kind, number in figures.dead_actions.items()]
    webhook = [] if "webhook" in figures.dead_actions else [Sample(0, ("webhook",))]
    about = "Actions of events that were given up; webhook: it was not accepted for a day."
    yield Family("jobauto_dead_actions", about, [*dead, *webhook], label)
    failing = [Sample(figures.failing_notices.get(channel, 0), (channel,)) for channel in Channel]
    about = "Notices that wait because they were not accepted."
    yield Family("jobauto_notices_failing", about, failing, ("channel",))
    about = "Deliveries of events to rules that started no job, and will not."
    yield _single("jobauto_dead_deliveries", about, figures.dead_deliveries)


def _sources(figures: Figures) -> Iterator[Family]:
    label = ("source",)
    names = [(source, (f"{source.id} {source.name}",)) for source in figures.sources]
    polled = [
        Sample(_since(figures, source.polled_at), name)
        for source, name in names
        if source.polled_at is not None
    ]
    about = "Seconds since an event source was last read."
    yield Family("jobauto_event_source_look_age_seconds", about, polled, label)
    failing = [Sample(source.failing, name) for source, name in names]
    yield Family(
        "jobauto_event_source_failing",
        "Whether an event source's last reading failed.",
        failing,
        label,
    )
    lags = [Sample(_age(figures, source.waiting), name) for source, name in names]
    ends = Sample(_age(figures, figures.ends), ("ends of jobs",))
    about = "Age of the oldest event of a source that Prefect has not got yet."
    yield Family("jobauto_event_lag_seconds", about, [*lags, ends], label)


def _safety(figures: Figures) -> Iterator[Family]:
    about = "Failed sign-ins that count against somebody now (JOBAUTO_SIGN_IN_WINDOW_SECONDS)."
    yield _single("jobauto_sign_in_failures", about, figures.sign_in_failures)
    yield _single("jobauto_audit_seals", "Seals of the audit trail.", figures.seals)
    unsealed = figures.unsealed
    about = "Audit entries that no seal covers yet."
    yield _single("jobauto_audit_unsealed", about, unsealed.number if unsealed else 0)
    about = "Age of the oldest audit entry that no seal covers yet."
    yield _single("jobauto_audit_unsealed_age_seconds", about, _age(figures, unsealed))
    about = "Facades, services and Prefect servers that run, by version."
    parts = [Sample(number, part) for part, number in figures.parts.items()]
    yield Family("jobauto_parts", about, parts, ("kind", "version"))
    if figures.services_seen_at is not None:
        about = "Seconds since the services gave their last sign of life."
        age = _since(figures, figures.services_seen_at)
        yield _single("jobauto_services_silence_seconds", about, age)


def _single(name: str, about: str, value: float) -> Family:
    return Family(name, about, [Sample(value)])


def _age(figures: Figures, depth: Depth | None) -> float:
    return 0.0 if depth is None else _since(figures, depth.oldest)


def _since(figures: Figures, instant: datetime) -> float:
    return max(0.0, (figures.at - instant).total_seconds())
