"""What a jobauto worker tells of itself at its management port."""

from collections.abc import Callable, Iterator

from jobauto_prefect.monitoring.families import Family, Sample
from jobauto_prefect.monitoring.health import answering
from jobauto_prefect.monitoring.monitor import Monitor
from jobauto_prefect.runtime.opening import OpenWorker
from jobauto_prefect.settings import Settings


def worker_monitor(settings: Settings, is_polling: Callable[[], bool]) -> Monitor:
    """A monitor that knows the neighbours of a worker, and whether its loop turns."""

    async def polls() -> str | None:
        return None if is_polling() else "its loop has not looked for runs for long"

    monitor = Monitor("worker")
    monitor.signs["loop"] = polls
    monitor.checks["facade"] = answering(f"{settings.url}/api/v1/ping.json")
    monitor.checks["prefect"] = answering(f"{settings.prefect_api_url}/health")
    return monitor


def watch_jobs(monitor: Monitor, opened: OpenWorker, limit: int | None) -> None:
    """Have it tell of the jobs too, once there can be any."""

    async def able() -> str | None:
        hindrances = opened.fitness.hindrances
        return None if opened.fitness.is_able else "; ".join(hindrances.values()) or "of no use"

    def families() -> Iterator[Family]:
        running = Sample(len(opened.runner.jobs))
        yield Family("jobauto_worker_jobs", "Jobs this worker runs.", [running])
        yield Family("jobauto_worker_limit", "Jobs it runs at once at most.", [Sample(limit or 0)])
        missing = [Sample(1, (what,)) for what in opened.fitness.hindrances]
        about = "What keeps it from working: disk, processes, or an executor."
        yield Family("jobauto_worker_hindrance", about, missing, ("missing",))

    monitor.checks["jobs"] = able
    monitor.read_by(families)
