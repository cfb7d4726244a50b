"""Python imports it when a process starts: parts of the service have their event loops watched."""

import os
import sys
from pathlib import Path

is_part = "start" in sys.orig_argv and "worker" not in sys.orig_argv  # whose loop is its own

if is_part and os.environ.get("WATCHED_PREFIX") == sys.prefix:
    from watcher import LoopWatch  # type: ignore[import-not-found]

    sys.modules["uvloop"] = None  # type: ignore[assignment]
    LoopWatch(Path(os.environ["WATCHED_LOOPS"])).start()
