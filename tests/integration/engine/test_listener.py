"""What a worker hears of Prefect's event stream."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import httpx
from prefect.settings import PREFECT_API_URL, temporary_settings

from jobauto_prefect.engine.worker.listener import Announcement, listen

MINUTE = timedelta(minutes=1)


class Heard:
    """Notes the runs that were announced."""

    def __init__(self) -> None:
        self.runs: list[UUID] = []
        self.connected, self.any = asyncio.Event(), asyncio.Event()

    def on_connected(self) -> None:
        self.connected.set()

    def on_disconnected(self) -> None: ...

    def on_limits_changed(self) -> None: ...

    def on_cancelling(self, flow_run_id: UUID) -> None: ...

    def on_scheduled(self, announcement: Announcement) -> None:
        self.runs.append(announcement.flow_run_id)
        self.any.set()


async def test_prefects_stream_begins_a_minute_before_the_time_it_is_given(
    prefect_server: str,
) -> None:
    # By itself it begins a minute before this host's time, which may be hours ahead.
    pool, told, before = uuid4(), uuid4(), uuid4()
    now = datetime.now(UTC)
    given = now - 10 * MINUTE
    events = [_scheduled(pool, before, given - 2 * MINUTE), _scheduled(pool, told, given)]
    heard = Heard()
    with temporary_settings({PREFECT_API_URL: prefect_server}):
        listening = asyncio.create_task(listen(pool, heard, lambda: given))
        async with asyncio.timeout(60), httpx.AsyncClient(base_url=prefect_server) as prefect:
            await heard.connected.wait()
            (await prefect.post("/events", json=events)).raise_for_status()
            await heard.any.wait()
        listening.cancel()
    assert heard.runs == [told]


def _scheduled(pool: UUID, run: UUID, at: datetime) -> dict[str, object]:
    related = {
        "prefect.resource.id": f"prefect.work-pool.{pool}",
        "prefect.resource.role": "work-pool",
    }
    return {
        "id": str(uuid4()),
        "event": "prefect.flow-run.Scheduled",
        "occurred": at.isoformat(),
        "resource": {"prefect.resource.id": f"prefect.flow-run.{run}"},
        "related": [related],
        "payload": {},
    }
