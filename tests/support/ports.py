"""TCP ports of this machine that nobody uses at the moment."""

import random
import socket

from jobauto_prefect.settings import MANAGEMENT_PORTS


def free_port() -> int:
    """One of them."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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
