"""What can be broken on purpose: processes, and the way between two of them."""

import contextlib
import os
import signal
import socket
import subprocess
import threading
from pathlib import Path
from typing import Self


class Part:
    """One process of the installation; it can be killed and started again."""

    def __init__(self, name: str, argv: list[str], environment: dict[str, str], log: Path) -> None:
        self.name, self._argv, self._environment, self._log = name, argv, environment, log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Begin; not whether it is ready."""
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._argv,
                env=self._environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """As the kernel does when memory is short: the process alone, without a word."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        """Kill it, and let it come back."""
        self.kill()
        self.start()

    def end(self) -> None:
        """It and its children are gone."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGCONT)
            os.killpg(self._process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(15)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class Relay:
    """A TCP relay on loopback to a port; while it is cut, nobody gets through."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._cut = False
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Let nobody through any more."""
        self._cut = True
        for one in list(self._open):
            _close(one)

    def mend(self) -> None:
        """Let everybody through again."""
        self._cut = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        _close(self._listener)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                inner, _ = self._listener.accept()
                threading.Thread(target=self._join, args=(inner,), daemon=True).start()

    def _join(self, inner: socket.socket) -> None:
        if self._cut:
            _close(inner)
            return
        try:
            outer = socket.create_connection(("127.0.0.1", self._to_port), 5)
        except OSError:
            _close(inner)
            return
        self._open |= {inner, outer}
        for source, target in ((inner, outer), (outer, inner)):
            threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while not self._cut and (data := source.recv(65536)):
                target.sendall(data)
        for one in (source, target):
            self._open.discard(one)
            _close(one)


def _close(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
