"""`jobauto top`: what runs, what waits, and who works, as it changes."""

import sys
import time
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.listing import Names, Record, template_title
from jobauto_prefect.cli.options import Json, Url

if TYPE_CHECKING:
    from rich.console import Group

    from jobauto_prefect.cli.client import Client

SHOWN = 50  # running jobs, and waiting ones, that are asked for
NAMES_SECONDS = 30.0
"""How long names of companies and run templates are remembered."""


def top(
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=0.2, help="How often to look.")
    ] = 2.0,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Show the running jobs, the queue and the workers, until Ctrl-C.

    With --json, or without a terminal, one look.

    Example: jobauto top --interval 1
    """
    from jobauto_prefect.cli.client import Client, speak
    from jobauto_prefect.cli.show import console, print_json

    once = as_json or not sys.stdout.isatty()

    async def work(client: Client) -> None:
        look = Look(client)
        if as_json:
            print_json(await look.snapshot())
        elif once:
            console().print(_screen(await look.snapshot(), await look.names(), None))
        else:
            await _watch(look, interval)

    try:
        speak(url, work)
    except KeyboardInterrupt:
        return


class Look:
    """Asks the facade how things are."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._names: Names = {}
        self._asked_at = float("-inf")

    async def snapshot(self) -> dict[str, Any]:
        """How things are now; `pools` is None where Prefect does not answer."""
        import asyncio

        counted, status, running, queue, workers, pools = await asyncio.gather(
            self._client.get("/jobs/status.json"),
            self._client.get("/status"),
            self._client.get("/jobs.json", state="running", limit=SHOWN),
            self._client.get("/jobs.json", state="scheduled", order="schedule", limit=SHOWN),
            self._client.get("/workers.json"),
            self._pools(),
        )
        return {
            "timestamp": counted["timestamp"],
            "states": counted["states"],
            "waiting_for_prefect": status["waiting_for_prefect"],
            "maintenance": status["maintenance"],
            "running": list(running.values()),
            "queue": list(queue.values()),
            "pools": pools,
            "workers": workers,
        }

    async def _pools(self) -> Any:
        from jobauto_prefect.errors import Unavailable

        try:
            return await self._client.get("/pools.json")
        except Unavailable:
            return None

    async def names(self) -> Names:
        """What jobs refer to."""
        now = time.monotonic()
        if now - self._asked_at > NAMES_SECONDS:
            self._names = {
                name: await self._client.list(name) for name in ("companies", "runtemplates")
            }
            self._asked_at = now
        return self._names


async def _watch(look: Look, interval: float) -> None:
    import asyncio

    from rich.live import Live

    from jobauto_prefect.cli.show import console
    from jobauto_prefect.errors import Unavailable

    with Live(console=console(), screen=True, auto_refresh=False) as live:
        while True:
            try:
                snapshot = await look.snapshot()
                live.update(_screen(snapshot, await look.names(), console().height), refresh=True)
            except Unavailable as error:
                live.update(f"{error}; asking again", refresh=True)
            await asyncio.sleep(interval)


def _screen(snapshot: Mapping[str, Any], names: Names, height: int | None) -> "Group":
    """`height` is that of the terminal in lines; None: as long as it gets."""
    from rich.console import Group
    from rich.text import Text

    from jobauto_prefect.cli.show import moment, table_of

    workers = _workers(snapshot["pools"], snapshot["workers"])
    room = SHOWN if height is None else max(2, (height - len(workers) - 9) // 2)
    now = datetime.fromisoformat(snapshot["timestamp"])
    states = "  ".join(f"{name} {count}" for name, count in snapshot["states"].items())
    head = f"{moment(snapshot['timestamp'])}   {states or 'no jobs yet'}"
    if snapshot["waiting_for_prefect"]:
        head += f"   {snapshot['waiting_for_prefect']} changes wait for Prefect"
    if snapshot["maintenance"]:
        head += f"   FROZEN: {snapshot['maintenance']['reason'] or 'maintenance'}"
    return Group(
        Text(head, style="bold"),
        Text(f"\nRunning ({snapshot['states'].get('running', 0)})", style="cyan"),
        table_of(
            ("job", "run template", "worker", "for"),
            [_running(job, names, now) for job in snapshot["running"][:room]],
        ),
        Text(f"\nQueue ({snapshot['states'].get('scheduled', 0)})", style="cyan"),
        table_of(
            ("job", "run template", "due", "note"),
            [_queued(job, names) for job in snapshot["queue"][:room]],
        ),
        Text("\nWorkers", style="cyan"),
        table_of(("work pool", "worker", "is", "last heard of"), workers),
    )


def _running(job: Record, names: Names, now: datetime) -> tuple[Any, ...]:
    from jobauto_prefect.cli.show import duration

    took = duration(job["begin"], now.isoformat())
    return job["id"], template_title("runtemplate_id")(job, names), job["worker"], took


def _queued(job: Record, names: Names) -> tuple[Any, ...]:
    from jobauto_prefect.cli.show import moment

    title = template_title("runtemplate_id")(job, names)
    return job["id"], title, moment(job["schedule"]), job["note"]


def _workers(pools: Mapping[str, Any] | None, known: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """`pools` are as Prefect knows them, `known` the workers as the ledger does."""
    from jobauto_prefect.cli.show import moment

    if pools is None:
        return [("Prefect does not answer", "", "", "")]
    rows: list[tuple[Any, ...]] = []
    for name, pool in pools.items():
        paused = " (paused)" if pool["paused"] else ""
        for worker in pool["workers"]:
            state = _hindered(known.get(worker["name"])) or (
                "online" if worker["online"] else "offline"
            )
            rows.append((name + paused, worker["name"], state, moment(worker["last_heartbeat"])))
        if not pool["workers"]:
            rows.append((name + paused, "", "no worker" if pool["exists"] else "not there", ""))
    return rows


def _hindered(worker: Mapping[str, Any] | None) -> str | None:
    if worker is None or worker["state"] == "lost" or not worker["hindrances"]:
        return None
    return f"can't work: {'; '.join(worker['hindrances'].values())}"
