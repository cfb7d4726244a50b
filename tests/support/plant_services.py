"""The services of a plant: worked by hand, or in a process."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from sqlalchemy import select

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.outbox_worker import OutboxWorker
from jobauto_prefect.engine.services.window_scheduler import MissingRunMonitor, WindowScheduler
from jobauto_prefect.engine.sync.drift_monitor import DriftMonitor
from jobauto_prefect.ledger.records import Job, RunTemplate, Task
from tests.support.ledger_rows import fetch, fetch_all
from tests.support.paths import JOBAUTO
from tests.support.processes import running
from tests.support.waits import eventually
from tests.support.workers import Plant


class Watch:
    """Keeper, lookout and outbox of a plant, worked by hand at a time the test sets."""

    def __init__(self, plant: Plant) -> None:
        self._plant = plant
        self.ahead = timedelta()
        plant.ledger.clock = lambda: datetime.now(UTC) + self.ahead

    def go_to(self, instant: datetime) -> None:
        """It is so late now; the clock goes on from there."""
        self.ahead = instant - datetime.now(UTC)

    def schedule(self, **members: object) -> None:
        """Give the template a schedule; Prefect knows it."""
        body = {"id": self._plant.template["id"], **members}
        self._plant.rest.post("/runtemplate/", json=body).raise_for_status()
        self.settle()

    def settle(self) -> None:
        """Return when Prefect has been told everything."""

        async def carry(context: EngineContext) -> None:
            await OutboxWorker(context).handle_all()

        self.with_prefect(carry)
        eventually(lambda: self._plant.rest.get("/status").json()["waiting_for_prefect"] == 0)

    def keep(self) -> None:
        """The keeper looks."""
        WindowScheduler(self._plant.ledger).tick()

    def look(self) -> None:
        """The lookout looks."""

        async def look(context: EngineContext) -> None:
            await MissingRunMonitor(context).look()

        self.with_prefect(look)

    def correct(self) -> None:
        """The drift monitor looks."""

        async def check(context: EngineContext) -> None:
            await DriftMonitor(context).check_next()

        self.with_prefect(check)

    def with_prefect(self, work: object) -> None:
        """Let something work that speaks with Prefect."""

        async def run() -> None:
            async with PrefectApi(self._plant.settings.prefect_api_url) as prefect:
                context = EngineContext(self._plant.ledger, prefect, self._plant.settings)
                await work(context)  # type: ignore[operator]

        asyncio.run(run())

    def record(self) -> RunTemplate:
        """The run template of the plant."""
        return fetch(self._plant.ledger, RunTemplate, self._plant.template["id"])

    def tasks(self) -> list[Task]:
        """All tasks, by their windows."""
        return fetch_all(self._plant.ledger, select(Task).order_by(Task.window_start))

    def jobs(self) -> list[Job]:
        """All jobs, the oldest first."""
        return fetch_all(self._plant.ledger, Job)

    def runs(self, *states: str) -> list[dict[str, object]]:
        """The deployment's flow runs in these states."""
        query = {
            "deployments": {"id": {"any_": [self._plant.deployment_id()]}},
            "flow_runs": {"state": {"type": {"any_": list(states)}}},
        }
        answer = self._plant.prefect.post("/flow_runs/filter", json=query)
        runs: list[dict[str, object]] = answer.json()
        return runs


@contextmanager
def services(plant: Plant) -> Iterator[None]:
    """What finds silent workers."""
    environment = plant.environment(
        JOBAUTO_HOME=str(plant.home),
        JOBAUTO_DATABASE_URL=plant.settings.ledger_url,
        JOBAUTO_POOL=plant.pool,
        JOBAUTO_PREFECT_API_URL=plant.settings.prefect_api_url,
        JOBAUTO_LEASE_SECONDS=str(plant.settings.lease_seconds),
    )
    with running([JOBAUTO, "services", "start"], environment, plant.home / "services.log"):
        yield
