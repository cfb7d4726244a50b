"""Keeping a worker's token from its jobs."""

import os
from collections.abc import Iterable

from jobauto_prefect.runtime.watchdog import tree


def protect_process(drop: Iterable[str] = ("JOBAUTO_WORKER_TOKEN",)) -> None:
    """Drop variables, close this process's memory and first environment to its user's others.

    Call it as soon as the settings are read, before any job starts. Descendants that lose their
    parent become this process's children, so that it can end them when its watchdog dies.
    """
    for name in drop:
        os.environ.pop(name, None)
    tree.hide_memory()
    tree.adopt_orphans()
