"""A receiver of webhooks on a real port, for tests."""

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True)
class Received:
    """One request."""

    path: str
    headers: Mapping[str, str]
    content: bytes

    @property
    def body(self) -> Any:
        """What it says."""
        return json.loads(self.content)


@dataclass(slots=True)
class Receiver:
    """What came, and what is answered: `statuses` one by one, then 204; `hangs` until it is set."""

    url: str
    statuses: list[int] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)
    hangs: threading.Event | None = None
    location: str = "http://127.0.0.1:9/"


@contextlib.contextmanager
def receiver() -> Iterator[Receiver]:
    """A receiver that accepts everything, until it is told otherwise."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            made.received.append(Received(self.path, self.headers, content))  # type: ignore[arg-type]
            if made.hangs is not None:
                made.hangs.wait(60)
            self.send_response(made.statuses.pop(0) if made.statuses else 204)
            self.send_header("Location", made.location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_arguments: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made = Receiver(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield made
        finally:
            if made.hangs is not None:
                made.hangs.set()
            server.shutdown()
            thread.join()
