"""Which of pytest-xdist's processes runs which files, so that few of them start the same servers.

A plugin of pytest. With `--dist loadfile` any process may get any file, and each one that gets a
file with a Prefect server, or with the service of the acceptance tests, starts one of its own.
"""

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xdist.scheduler import LoadFileScheduling

PREFECT = tuple(
    f"tests/integration/{folder}/"
    for folder in ("costs", "engine", "facade/gateway", "workers", "cli/files", "backup")
)
"""Folders most of whose files use the session's Prefect server."""

PROCESSES_WITH_PREFECT = 2
"""So many processes do these first, and the others do them last."""

ACCEPTANCE = "tests/acceptance/"
OWN_SERVICE = frozenset(
    f"{ACCEPTANCE}test_{name}.py"
    for name in ("backup", "docs", "former_homes", "monitoring", "move", "traces", "up")
)
"""The files that start services of their own; all others share one, in one process."""
WATCHED = frozenset(f"{ACCEPTANCE}test_{name}.py" for name in ("monitoring", "traces"))
"""The two of them that share one."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> "LoadFileScheduling | None":
    """Give the files out by what they use; None: with other options, as xdist does itself."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class BySubject(LoadFileScheduling):  # type: ignore[misc]
        """Gives each process files that use what it has."""

        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return scope_of(file)

        def _assign_work_unit(self, node: Any) -> None:
            with_prefect = self.nodes.index(node) < PROCESSES_WITH_PREFECT
            first = next_scope(list(self.workqueue), with_prefect=with_prefect)
            self.workqueue.move_to_end(first, last=False)
            super()._assign_work_unit(node)

    return BySubject(config, log)


def scope_of(file: str) -> str:
    """Return what of a run is done by one process: a file, or all that share a service."""
    if file in WATCHED:
        return f"{ACCEPTANCE}watched"
    shares = file.startswith(ACCEPTANCE) and file not in OWN_SERVICE
    return ACCEPTANCE if shares else file


def next_scope(waiting: list[str], *, with_prefect: bool) -> str:
    """Return what a process does next: what it has servers for, else what comes first."""
    suits = (scope for scope in waiting if scope.startswith(PREFECT) == with_prefect)
    return next(suits, waiting[0])
