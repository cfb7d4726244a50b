"""Metrics and health of a jobauto worker at its management port."""

from collections.abc import Callable, Iterator

from jobauto_prefect.monitoring.families import Family, Sample
from jobauto_prefect.monitoring.health import check_answers
from jobauto_prefect.monitoring.monitor import Monitor
from jobauto_prefect.runtime.worker_context import WorkerContext
from jobauto_prefect.settings import Settings


def worker_monitor(settings: Settings, is_polling: Callable[[], bool]) -> Monitor:
    """Build a monitor that checks the facade, Prefect, and whether the worker's loop is running."""

    async def polls() -> str | None:
        return None if is_polling() else "its loop has not polled for runs for a long time"

    monitor = Monitor("worker")
    monitor.signs["loop"] = polls
    monitor.checks["facade"] = check_answers(f"{settings.facade}/api/v1/ping.json")
    monitor.checks["prefect"] = check_answers(f"{settings.prefect_api_url}/health")
    return monitor


def watch_jobs(monitor: Monitor, opened: WorkerContext, limit: int | None) -> None:
    """Add the worker's jobs to its monitor, once there can be any."""

    async def able() -> str | None:
        hindrances = opened.fitness.hindrances
        return (
            None if opened.fitness.is_able else "; ".join(hindrances.values()) or "can't run jobs"
        )

    def families() -> Iterator[Family]:
        running = Sample(len(opened.runner.jobs))
        yield Family("jobauto_worker_jobs", "Jobs this worker runs.", [running])
        yield Family("jobauto_worker_limit", "Limit of concurrent jobs.", [Sample(limit or 0)])
        missing = [Sample(1, (what,)) for what in opened.fitness.hindrances]
        about = "What keeps the worker from working: disk, processes, or an executor."
        yield Family("jobauto_worker_hindrance", about, missing, ("missing",))

    monitor.checks["jobs"] = able
    monitor.read_by(families)
