"""TCP ports of this machine that nobody uses at the moment."""

import contextlib
import itertools
import os
import random
import socket

from jobauto_prefect.settings import MANAGEMENT_PORTS

_FIRST, _EACH, _PROCESSES = 11_000, 1_500, 6
"""Below what `free_range` gives and the ports from which the kernel takes those of connections."""

_process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _PROCESSES
_own = range(_FIRST + _process * _EACH, _FIRST + (_process + 1) * _EACH)
_next = itertools.cycle(random.sample(_own, _EACH))


def free_port() -> int:
    """One of them; each process of pytest-xdist gives its own, and none again soon.

    Who asked may listen there much later.
    """
    for port in itertools.islice(_next, _EACH):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError(f"no port from {_own.start} to {_own.stop - 1} is free")


def free_range() -> int:
    """The first of as many in a row as the parts of a host may have."""
    while True:
        first = random.randrange(20_000, 32_000)
        try:
            for port in range(first, first + MANAGEMENT_PORTS):
                socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return first
