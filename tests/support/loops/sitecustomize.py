"""Python imports it when a process starts: parts of the service have their event loops watched."""

import os
import sys
from pathlib import Path

is_part = "start" in sys.orig_argv and "worker" not in sys.orig_argv  # whose loop is its own

if is_part and "WATCHED_LOOPS" in os.environ:
    from watcher import LoopWatch  # type: ignore[import-not-found]

    LoopWatch(Path(os.environ["WATCHED_LOOPS"])).start()
