"""Calls to Prefect that are on their way until the test says so."""

import asyncio
import re

import httpx


class HeldTransport(httpx.AsyncHTTPTransport):
    """The ordinary transport; calls of a kind arrive only once it is told to go on."""

    def __init__(self, method: str = "POST", path: str = "/api/deployments/") -> None:
        super().__init__()
        self._method, self._path = method, re.compile(path)
        self.go_on = asyncio.Event()
        self.held = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == self._method and self._path.fullmatch(request.url.path):
            self.held += 1
            await self.go_on.wait()
        return await super().handle_async_request(request)
