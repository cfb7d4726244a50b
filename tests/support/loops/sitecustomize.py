"""Python imports it when a process starts: parts of the service have their event loops watched."""

import os
import sys
from pathlib import Path

if "start" in sys.orig_argv and "WATCHED_LOOPS" in os.environ:
    from watcher import LoopWatch  # type: ignore[import-not-found]

    LoopWatch(Path(os.environ["WATCHED_LOOPS"])).start()
