"""Output on its way to Prefect's log."""

import asyncio
from uuid import uuid4

import httpx

from jobauto_prefect.clock import utc_now
from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.worker.log_shipper import LogShipper
from jobauto_prefect.runtime.protocol import OutputLines


class Slow(httpx.AsyncHTTPTransport):
    """Keeps each request for a moment."""

    def __init__(self) -> None:
        super().__init__()
        self.has_one = asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.has_one.set()
        await asyncio.sleep(0.3)
        return await super().handle_async_request(request)


async def test_lines_that_are_being_sent_when_a_job_ends_arrive(prefect_server: str) -> None:
    transport, run = Slow(), uuid4()
    async with PrefectApi(prefect_server, transport=transport) as api:
        logs = LogShipper(api)
        async with logs.sending():
            for seq, text in enumerate(("early", "late"), 1):
                lines = OutputLines(seq=seq, stream="stdout", texts=[text], at=utc_now())
                logs.add(run, lines)
                await transport.has_one.wait()
        found = await api.post("/logs/filter", {"logs": {"flow_run_id": {"any_": [str(run)]}}})
    assert sorted(line["message"] for line in found) == ["early", "late"]
