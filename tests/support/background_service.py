"""A service that runs beside a test, in a loop of its own."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from tests.support.waits import PATIENCE


@contextlib.contextmanager
def beside(service: Callable[[], Coroutine[Any, Any, None]]) -> Iterator[None]:
    """Run it until the block ends, then cancel it."""

    async def run(stopped: threading.Event) -> None:
        work = asyncio.create_task(service())
        await asyncio.to_thread(stopped.wait)
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work

    stopped = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(run(stopped)), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(PATIENCE)
