"""Collecting garbage beside an event loop instead of in it."""

import gc
import threading
import time

PAUSE_SECONDS = 1.0


def collect_aside() -> None:
    """From now on, collect this process's garbage in a thread of its own.

    Python collects in whichever thread happens to allocate. In the event loop of Prefect's server
    on SQLite that stops everything for up to a minute: the collector closes the cursor of a
    statement that had failed, waits for its connection, which waits for a lock that is held by a
    transaction whose end the event loop has to run. See docs/decisions/0005-garbage.md.
    """
    gc.disable()
    threading.Thread(target=_collect, name="garbage collector", daemon=True).start()


def _collect() -> None:
    while True:
        time.sleep(PAUSE_SECONDS)
        due = [
            generation
            for generation, (count, threshold) in enumerate(
                zip(gc.get_count(), gc.get_threshold(), strict=True)
            )
            if count > threshold
        ]
        if due:
            gc.collect(due[-1])
