"""What a worker hears of Prefect's event stream."""

import asyncio
import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import httpx
import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from jobauto_prefect.engine.worker import listener
from jobauto_prefect.engine.worker.listener import Announcement, listen
from tests.support.breakable import LossyRelay
from tests.support.waits import until

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
            await _announce(prefect, events, heard)
        listening.cancel()
    assert heard.runs == [told]


OUT = "/events/out"
OTHERS_PING = 20  # seconds between the pings of Prefect's client


@pytest.fixture
def relay(prefect_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[LossyRelay]:
    """The way to Prefect, whose answers are waited for a second."""
    for name in ("PING_SECONDS", "PONG_SECONDS"):
        monkeypatch.setattr(listener, name, 1)
    with LossyRelay(urlsplit(prefect_server).port or 0) as relay:
        url = f"http://127.0.0.1:{relay.port}/api"
        with temporary_settings({PREFECT_API_URL: url}):
            yield relay


async def test_a_stream_whose_server_no_longer_answers_is_opened_again(
    prefect_server: str, relay: LossyRelay
) -> None:
    pool, told = uuid4(), uuid4()
    heard = Heard()
    listening = asyncio.create_task(listen(pool, heard, lambda: datetime.now(UTC)))
    await until(heard.connected.is_set)
    relay.strand()
    await until(lambda: relay.count(OUT) > 1, OTHERS_PING - 5)
    async with asyncio.timeout(60), httpx.AsyncClient(base_url=prefect_server) as prefect:
        await _announce(prefect, [_scheduled(pool, told, datetime.now(UTC))], heard)
    listening.cancel()
    assert heard.runs == [told]


async def _announce(
    prefect: httpx.AsyncClient, events: list[dict[str, object]], heard: Heard
) -> None:
    """Send events until one is heard.

    What comes just before a stream subscribes, but is not stored yet, is not on the stream; after
    a new connection a worker polls. Prefect's client passes on each event once.
    """
    while not heard.any.is_set():
        (await prefect.post("/events", json=events)).raise_for_status()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2):
                await heard.any.wait()


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
