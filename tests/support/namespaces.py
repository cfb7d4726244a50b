"""A network namespace: a machine of its own, on a wire that can be cut."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from typing import Self


class Wire:
    """A namespace from which one port of this machine's loopback is reached, over a wire."""

    def __init__(self) -> None:
        self._name = f"jobauto{os.getpid()}"
        self._near, self._far = (f"{end}{os.getpid()}" for end in ("near", "far"))
        network = f"10.201.{os.getpid() % 256}"
        self.near, self.far = f"{network}.1", f"{network}.2"
        self.prefix = ("ip", "netns", "exec", self._name)
        """Runs a command there."""

    def __enter__(self) -> Self:
        _run("ip", "netns", "add", self._name)
        try:
            ends = ("type", "veth", "peer", "name", self._far, "netns", self._name)
            _run("ip", "link", "add", self._near, *ends)
            _run("ip", "address", "add", f"{self.near}/30", "dev", self._near)
            _run("ip", "link", "set", self._near, "up")
            inside = ("ip", "-n", self._name)
            _run(*inside, "address", "add", f"{self.far}/30", "dev", self._far)
            for device in ("lo", self._far):
                _run(*inside, "link", "set", device, "up")
            _run(*self.prefix, "iptables", "-t", "nat", "-L")
            _run(*self.prefix, "sysctl", "-q", "-w", "net.ipv4.conf.all.route_localnet=1")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        _run("ip", "netns", "delete", self._name)  # with both ends of the wire

    def carry(self, port: int) -> None:
        """Lead a port of the loopback there to that of this machine's end of the wire."""
        rules = (*self.prefix, "iptables", "-t", "nat", "-A")
        to_here = ("-j", "DNAT", "--to-destination", self.near)
        _run(*rules, "OUTPUT", "-d", "127.0.0.0/8", "-p", "tcp", "--dport", str(port), *to_here)
        _run(*rules, "POSTROUTING", "-o", self._far, "-j", "MASQUERADE")

    def cut(self) -> None:
        """Drop all packets in both directions; no connection is closed."""
        _run("ip", "link", "set", self._near, "down")

    def mend(self) -> None:
        """Let packets through again."""
        _run("ip", "link", "set", self._near, "up")


@contextlib.contextmanager
def wire_if_allowed() -> Iterator[Wire | None]:
    """A wire; None where this machine lets us make no namespace, or has no iptables."""
    with contextlib.ExitStack() as stack:
        wire: Wire | None = None
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            wire = stack.enter_context(Wire())
        yield wire


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True)
