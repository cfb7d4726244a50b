"""A key/value store that speaks as HashiCorp Vault's KV (version 2) and AppRole do, for tests.

https://developer.hashicorp.com/vault/api-docs/secret/kv/kv-v2, .../auth/approle
"""

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hvs.of-the-vault"
ROLE = {"role_id": "role-1", "secret_id": "secret-1"}


@dataclass(slots=True)
class Vault:
    """Its address, its secrets by `mount/path`, and the paths that were asked for."""

    url: str
    secrets: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)


@contextlib.contextmanager
def vault() -> Iterator[Vault]:
    """A vault without secrets, on a real port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            known = json.loads(self.rfile.read(length)) == ROLE
            is_login = self.path == "/v1/auth/approle/login"
            if is_login and known:
                self._answer(200, {"auth": {"client_token": TOKEN}})
            else:
                self._answer(400, {"errors": ["invalid role or secret ID"]})

        def do_GET(self) -> None:
            made.asked.append(self.path)
            mount, _, path = self.path.removeprefix("/v1/").partition("/data/")
            values = made.secrets.get(f"{mount}/{path}")
            if self.headers["X-Vault-Token"] != TOKEN:
                self._answer(403, {"errors": ["permission denied"]})
            elif values is None:
                self._answer(404, {"errors": []})
            else:
                self._answer(200, {"data": {"data": values, "metadata": {"version": 1}}})

        def _answer(self, status: int, body: Mapping[str, Any]) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_arguments: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made = Vault(f"http://127.0.0.1:{server.server_port}")
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield made
        finally:
            server.shutdown()
