"""What can be broken on purpose: processes, and the way between two of them."""

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit


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

    @property
    def pid(self) -> int | None:
        """Its process; None: it was not started."""
        return self._process.pid if self._process else None

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
    """A TCP relay on loopback to a port, whose connections can be cut, hung and delayed."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = listener.getsockname()[1]
        self._begin(listener)

    def _connect(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self._to_port), 5)
        connection.settimeout(None)  # what is connected may be silent for long
        return connection

    def _begin(self, listener: socket.socket) -> None:
        self._listener = listener
        self.delay_seconds = 0.0
        self._cut = False
        self._flows, self._answers = threading.Event(), threading.Event()
        self._flows.set()
        self._answers.set()
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Close all connections, and let nobody through any more."""
        self._cut = True
        for connection in list(self._open):
            _close(connection)
        self._flows.set()
        self._answers.set()

    def hang(self) -> None:
        """Leave all connections open, and let nothing through any more."""
        self._flows.clear()

    def hang_answers(self) -> None:
        """Let what is asked through, and nothing that is answered."""
        self._answers.clear()

    def mend(self) -> None:
        """Let everybody through again; what hung arrives now."""
        self._cut = False
        self._flows.set()
        self._answers.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        _close(self._listener)

    def asked(self, client: socket.socket, data: bytes) -> None:
        """What somebody asks, before it is passed on."""

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                inner, _ = self._listener.accept()
                threading.Thread(target=self._join, args=(inner,), daemon=True).start()

    def _join(self, inner: socket.socket) -> None:
        self._flows.wait()
        if self._cut:
            _close(inner)
            return
        try:
            outer = self._connect()
        except OSError:
            _close(inner)
            return
        self._open |= {inner, outer}
        ways = ((inner, outer, self._flows), (outer, inner, self._answers))
        for way in ways:
            threading.Thread(target=self._pump, args=way, daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, flows: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while not self._cut and (data := source.recv(65536)):
                time.sleep(self.delay_seconds)
                self._flows.wait()
                if flows is self._flows:
                    self.asked(source, data)
                flows.wait()
                target.sendall(data)
        for connection in (source, target):
            self._open.discard(connection)
            _close(connection)


class SocketRelay(Relay):
    """The same between two sockets that have paths; it makes the first."""

    def __init__(self, path: Path, to_path: str) -> None:
        self._to_path = to_path
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen()
        self._begin(listener)

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._to_path)
        return connection


def _close(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def hang_up(url: str, headers: dict[str, str], body: bytes) -> None:
    """Send the beginning of a POST whose body is said to be longer, and leave."""
    parts = urlsplit(url)
    lines = [f"POST {parts.path} HTTP/1.1", f"Host: {parts.netloc}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += ["Content-Type: application/json", f"Content-Length: {len(body) + 100}", "", ""]
    with socket.create_connection((str(parts.hostname), parts.port or 80), timeout=20) as peer:
        peer.sendall("\r\n".join(lines).encode() + body)
