"""A stand-in for the facade that records the wire."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

STORY = {"state": "COMPLETED", "message": "recorded"}


class Request(NamedTuple):
    """A request that came."""

    method: str
    path: str
    query: dict[str, str]
    token: str | None
    body: Any


class Recorder:
    """Listens on one port; may go away and come back. `answers` overrule the usual ones."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.answers: dict[str, Callable[[Request], tuple[int, Any]]] = {}
        self.left_over: list[dict[str, Any]] = []
        self.lease_seconds = 6.0
        self.ahead = timedelta()
        self._port = 0
        self.start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._port}"

    def now(self) -> str:
        """The time that counts; `ahead` is how far it is from this host's."""
        return (datetime.now(UTC) + self.ahead).isoformat()

    def start(self) -> None:
        """Listen from now on, on the same port as before."""
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # head and body are two writes: 40 ms else

            def handle_any(self) -> None:
                content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, answer = recorder.answer(self.command, self.path, self.headers, content)
                body = b"" if answer is None else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_PUT = do_GET = handle_any  # noqa: N815

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._server.daemon_threads = True
        self._port = self._server.server_port
        Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """No answers any more; idle connections are answered with 503."""
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method: str, target: str, headers: Any, content: bytes) -> tuple[int, Any]:
        """Record a request; its status and body."""
        if self._server.socket.fileno() < 0:  # stopped, but this connection is still open
            return 503, {"message": "away"}
        split = urlsplit(target)
        body = json.loads(content) if "json" in headers.get("Content-Type", "") else content
        path = split.path.removeprefix("/internal/v1/")
        request = Request(
            method, path, dict(parse_qsl(split.query)), headers["Authorization"], body
        )
        self.requests.append(request)
        for pattern, answer in self.answers.items():
            if re.fullmatch(pattern, path):
                return answer(request)
        return self._usual(path)

    def _usual(self, path: str) -> tuple[int, Any]:
        kind = path.rpartition("/")[2]
        if kind == "workers":
            return 200, {
                "now": self.now(),
                "lease_seconds": self.lease_seconds,
                "left_over": self.left_over,
            }
        if kind == "renewals":
            return 200, {"now": self.now()}
        if kind == "report":
            return 200, {"recorded": True, "story": STORY}
        return 204, None

    def bodies(self, pattern: str) -> list[Any]:
        """The bodies of requests to matching paths."""
        return [request.body for request in self.requests if re.fullmatch(pattern, request.path)]

    def lines(self, job: int) -> list[tuple[int, str, str]]:
        """The output of a job, as (seq, stream, text)."""
        return [
            (seq, lines["stream"], text)
            for body in self.bodies(f"jobs/{job}/output")
            for lines in body["output"]
            for seq, text in enumerate(lines["texts"], start=lines["seq"])
        ]

    def reports(self, job: int) -> list[Any]:
        """The reports of a job's end."""
        return self.bodies(f"jobs/{job}/report")


def texts(facade: Recorder, job: int = 1) -> list[str]:
    """The lines of a job's output, of both its streams."""
    return [text for _, _, text in facade.lines(job)]
