"""What can be broken on purpose: processes, and the way between two of them."""

import contextlib
import os
import re
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
                cwd=self._log.parent,  # `python -m` looks for modules there first
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

    def stop(self, patience: float = 60) -> None:
        """Stop it as its supervisor would, which waits so many seconds."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(patience)

    def replace(self, patience: float = 60, **variables: str | None) -> None:
        """Stop it as its supervisor would, and start it with other variables; None: without it."""
        self.stop(patience)
        changed = {**self._environment, **variables}
        self._environment = {name: text for name, text in changed.items() if text is not None}
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
        self._stranded: set[socket.socket] = set()
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

    def strand(self) -> None:
        """Leave the connections that are open, and let nothing through them any more.

        As a proxy in front of several servers, of which one was stopped.
        """
        self._stranded |= self._open

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

    def loses_answer(self, client: socket.socket) -> bool:
        """Whether this client's connection breaks where an answer should come."""
        return False

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
                if source in self._stranded:
                    continue
                self._flows.wait()
                if flows is self._flows:
                    self.asked(source, data)
                flows.wait()
                if flows is self._answers and self.loses_answer(target):
                    break
                target.sendall(data)
        for connection in (source, target):
            self._open.discard(connection)
            _close(connection)


class LossyRelay(Relay):
    """A relay of HTTP that keeps what is called, may hold calls, and lose answers to them.

    What is lost has been answered: the server did what was asked.
    """

    def __init__(self, to_port: int) -> None:
        self.calls: list[str] = []
        self.lost = 0
        self._losing: tuple[str, int] = ("", 0)
        self._unlucky = set[socket.socket]()
        self._late: list[threading.Thread] = []
        self._late_path = ""
        self._late_go_on = threading.Event()
        self._held: dict[str, threading.Event] = {}
        super().__init__(to_port)

    def lose(self, path: str, times: int = 1) -> None:
        """Lose the answers to so many calls whose path ends so."""
        self._losing = path, times

    def hold(self, *paths: str) -> None:
        """Pass on no call whose path ends like one of these, until `go_on`."""
        self._held |= {path: threading.Event() for path in paths}

    def delay(self, path: str) -> None:
        """Break the connection of the next call whose path ends so; it arrives by `arrive`."""
        self._late_go_on.clear()
        self._late_path = path

    def arrive(self) -> None:
        """Pass on the delayed calls, and return when the server has answered all of them."""
        self._late_go_on.set()
        while self._late:
            self._late.pop().join()

    def go_on(self, *paths: str) -> None:
        """Pass on what was held by these paths, without any by all, and whatever comes."""
        for path in paths or tuple(self._held):
            self._held.pop(path).set()

    def count(self, ending: str) -> int:
        """How many calls end like this."""
        return sum(call.endswith(ending) for call in self.calls)

    def asked(self, client: socket.socket, data: bytes) -> None:
        """Keep the call, hold it, and note that its answer is to be lost."""
        head = re.match(rb"([A-Z]+) (?:/api)?(\S+) HTTP/1.1\r\n", data)
        if head is None:
            return
        path = head[2].decode()
        self.calls.append(f"{head[1].decode()} {path}")
        if self._late_path and path.endswith(self._late_path):
            self._late_path = ""
            late = threading.Thread(target=self._pass_on_late, args=(_whole(client, data),))
            self._late.append(late)
            late.start()
            raise ConnectionAbortedError
        for ending, passed in tuple(self._held.items()):
            if path.endswith(ending):
                passed.wait()
        losing, times = self._losing
        if times and path.endswith(losing):
            self._losing = losing, times - 1
            self._unlucky.add(client)

    def _pass_on_late(self, data: bytes) -> None:
        self._late_go_on.wait()
        with self._connect() as server:
            server.sendall(data)
            assert server.recv(65536).startswith(b"HTTP/1.1 2")

    def loses_answer(self, client: socket.socket) -> bool:
        """Whether the last call of this client was to have no answer."""
        is_lost = client in self._unlucky
        self._unlucky.discard(client)
        self.lost += is_lost
        return is_lost


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


def _whole(client: socket.socket, data: bytes) -> bytes:
    """A request, of which its body may still be on its way."""
    length = re.search(rb"(?i)content-length: (\d+)", data)
    head, _, body = data.partition(b"\r\n\r\n")
    while length is not None and len(body) < int(length[1]):
        body += client.recv(65536)
    return head + b"\r\n\r\n" + body


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
