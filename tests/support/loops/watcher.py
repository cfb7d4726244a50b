"""Watches the callbacks of asyncio's event loops in this process.

A callback is slow by the processor time of its thread: how busy the machine is does not matter. A
thread looks at what runs for long meanwhile, so that its name can be told.
"""

import asyncio
import atexit
import contextlib
import gc
import os
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

SLOW_SECONDS = 0.05
READ_AGAIN_SECONDS = 0.002
"""A thread's processor time is read at most so often: each time is a call of the system."""
LOOK_SECONDS = 0.02
PACKAGE = "/jobauto_prefect/"
ONCE = (
    "<frozen importlib._bootstrap>",
    "uvicorn/config.py:",
    "uvicorn/lifespan/on.py:",
    "jinja2/environment.py:Environment.compile",
    "LateRoute.examine",
    "openapi/schemas.py:component_schemas",
)
"""What a process does once: it loads modules, templates and routes, and starts an application."""

ROOT = str(Path(__file__).parents[3])
TESTS = "/tests/"
OTHERS = (
    "/jobauto_prefect/engine/worker/",
    "/jobauto_prefect/runtime/",
    "/jobauto_prefect/cli/",
)
"""A test's own coroutine, a worker and a command, whose loops nobody else waits for."""


@dataclass(slots=True)
class _Running:
    began: float
    stacks: list[tuple[str, ...]] = field(default_factory=list)
    collecting: float = 0.0
    collected: float = 0.0


class LoopWatch:
    """Writes a line for each slow callback of the service to a file of its own in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[int, _Running] = {}

    def start(self) -> None:
        """Watch from now on, until this process ends."""
        run = asyncio.Handle._run
        running, judge = self._running, self._judge
        processor = threading.local()

        def watched(handle: asyncio.Handle) -> None:
            began = time.monotonic()
            if began - getattr(processor, "read_at", -1.0) > READ_AGAIN_SECONDS:
                processor.read_at, processor.time = began, time.thread_time()
            thread = threading.get_ident()
            running[thread] = current = _Running(began)
            try:
                run(handle)
            finally:
                running.pop(thread, None)
                if time.monotonic() - began > SLOW_SECONDS:
                    spent = time.thread_time() - processor.time - current.collected
                    if spent > SLOW_SECONDS:
                        judge(current, spent)

        asyncio.Handle._run = watched  # type: ignore[assignment,method-assign]
        gc.callbacks.append(self._leave_out_garbage)
        ends = threading.Event()
        atexit.register(ends.set)  # a thread that goes on has nothing to call any more
        threading.Thread(target=self._look, args=[ends], name="loop watch", daemon=True).start()

    def _leave_out_garbage(self, phase: str, _info: dict[str, int]) -> None:
        """Count what looking for garbage takes: that of all tests is found in any thread."""
        current = self._running.get(threading.get_ident())
        if current is not None and phase == "start":
            current.collecting = time.thread_time()
        elif current is not None:
            current.collected += time.thread_time() - current.collecting

    def _look(self, ends: threading.Event) -> None:
        while not ends.wait(LOOK_SECONDS):
            now = time.monotonic()
            for thread, current in list(self._running.items()):
                if now - current.began > SLOW_SECONDS / 2:
                    frame = sys._current_frames().get(thread)
                    current.stacks.append(tuple(_places(frame)))

    def _judge(self, current: _Running, spent: float) -> None:
        """Write down what was slow, without what happens once and what is a test's own."""
        ours = [stack for stack in current.stacks if _is_ours(stack)]
        if not ours or spent * len(ours) / len(current.stacks) < SLOW_SECONDS:
            return
        middle = ours[len(ours) // 2]
        shown = [*middle[:3], *(place for place in middle[3:] if PACKAGE in place)]
        test = os.environ.get("PYTEST_CURRENT_TEST", "")  # or during which this process began
        line = f"{spent * 1000:.0f} ms in {test}: {' < '.join(shown)}\n"
        file = Path(self._folder, str(os.getpid()))
        with contextlib.suppress(FileNotFoundError), file.open("a") as findings:  # or it is over
            findings.write(line)


def _places(frame: FrameType | None) -> list[str]:
    """Name what runs, the innermost first, up to the callback of the loop."""
    places = []
    while frame is not None and frame.f_code.co_name != "watched":
        code = frame.f_code
        path = code.co_filename.rpartition("/site-packages")[2].removeprefix(ROOT)
        places.append(f"{path}:{code.co_qualname}:{frame.f_lineno}")
        frame = frame.f_back
    return places


def _is_ours(stack: tuple[str, ...]) -> bool:
    return (
        any(PACKAGE in place for place in stack)
        and not any(once in place for place in stack for once in ONCE)
        and not any(place.startswith(TESTS) for place in stack)
        and not any(other in place for place in stack for other in OTHERS)
    )
