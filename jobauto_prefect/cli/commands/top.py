"""`jobauto top`: running jobs, the queue and the workers, live."""

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.options import Json, Url
from jobauto_prefect.cli.output.terminal import (
    console,
    format_duration,
    format_time,
    make_table,
    print_json,
)
from jobauto_prefect.cli.records.lists import Names, template_column

if TYPE_CHECKING:
    from rich.console import Group

    from jobauto_prefect.cli.connection.client import Client

SHOWN = 50  # running and waiting jobs to fetch
NAMES_SECONDS = 30.0
"""How long names of companies and run templates are cached."""


def top(
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=0.2, help="Refresh interval.")
    ] = 2.0,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Show the running jobs, the queue and the workers, until Ctrl-C.

    With --json or without a terminal, it prints once.

    Example: jobauto top --interval 1
    """
    from jobauto_prefect.cli.connection.client import Client, call_facade

    once = as_json or not sys.stdout.isatty()

    async def work(client: Client) -> None:
        look = Snapshotter(client)
        if as_json:
            print_json(await look.snapshot())
        elif once:
            console().print(_make_screen(await look.snapshot(), await look.names(), None))
        else:
            await _watch(look, interval)

    try:
        call_facade(url, work)
    except KeyboardInterrupt:
        return


class Snapshotter:
    """Reads the state of the service from the facade."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._names: Names = {}
        self._asked_at = float("-inf")

    async def snapshot(self) -> dict[str, Any]:
        """Read the current state; `pools` is None if Prefect does not answer."""
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
        """Read the records that jobs refer to."""
        now = time.monotonic()
        if now - self._asked_at > NAMES_SECONDS:
            self._names = {
                name: await self._client.list(name) for name in ("companies", "runtemplates")
            }
            self._asked_at = now
        return self._names


async def _watch(look: Snapshotter, interval: float) -> None:
    import asyncio

    from rich.live import Live

    from jobauto_prefect.errors import Unavailable

    with Live(console=console(), screen=True, auto_refresh=False) as live:
        while True:
            try:
                snapshot = await look.snapshot()
                live.update(
                    _make_screen(snapshot, await look.names(), console().height), refresh=True
                )
            except Unavailable as error:
                live.update(f"{error}; retrying", refresh=True)
            await asyncio.sleep(interval)


def _make_screen(snapshot: Mapping[str, Any], names: Names, height: int | None) -> "Group":
    """Lay out a snapshot; `height` is the terminal's, in lines; None: no limit."""
    from rich.console import Group
    from rich.text import Text

    workers = _worker_rows(snapshot["pools"], snapshot["workers"])
    room = SHOWN if height is None else max(2, (height - len(workers) - 9) // 2)
    title = template_column("runtemplate_id")
    states = "  ".join(f"{name} {count}" for name, count in snapshot["states"].items())
    head = f"{format_time(snapshot['timestamp'])}   {states or 'no jobs yet'}"
    if snapshot["waiting_for_prefect"]:
        head += f"   {snapshot['waiting_for_prefect']} changes wait for Prefect"
    if snapshot["maintenance"]:
        head += f"   FROZEN: {snapshot['maintenance']['reason'] or 'maintenance'}"
    return Group(
        Text(head, style="bold"),
        Text(f"\nRunning ({snapshot['states'].get('running', 0)})", style="cyan"),
        make_table(
            ("job", "run template", "worker", "for"),
            [
                (
                    job["id"],
                    title(job, names),
                    job["worker"],
                    format_duration(job["begin"], snapshot["timestamp"]),
                )
                for job in snapshot["running"][:room]
            ],
        ),
        Text(f"\nQueue ({snapshot['states'].get('scheduled', 0)})", style="cyan"),
        make_table(
            ("job", "run template", "due", "note"),
            [
                (job["id"], title(job, names), format_time(job["schedule"]), job["note"])
                for job in snapshot["queue"][:room]
            ],
        ),
        Text("\nWorkers", style="cyan"),
        make_table(("work pool", "worker", "is", "last seen"), workers),
    )


def _worker_rows(
    pools: Mapping[str, Any] | None, workers: Mapping[str, Any]
) -> list[tuple[Any, ...]]:
    """Make the rows of workers from those known to Prefect and to the ledger."""
    if pools is None:
        return [("Prefect does not answer", "", "", "")]
    rows: list[tuple[Any, ...]] = []
    for name, pool in pools.items():
        paused = " (paused)" if pool["paused"] else ""
        for worker in pool["workers"]:
            state = "online" if worker["online"] else "offline"
            known = workers.get(worker["name"])
            if known is not None and known["state"] != "lost" and known["hindrances"]:
                state = f"can't work: {'; '.join(known['hindrances'].values())}"
            rows.append(
                (name + paused, worker["name"], state, format_time(worker["last_heartbeat"]))
            )
        if not pool["workers"]:
            rows.append(
                (name + paused, "", "no worker" if pool["exists"] else "does not exist", "")
            )
    return rows
