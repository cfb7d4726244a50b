"""The proxy of docs/migration.md gives the MCP server its header where that sends none."""

import base64
import contextlib
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import httpx

from jobauto_prefect.facade.compat.translation import PREFIXES
from jobauto_prefect.ledger.store import Ledger
from tests.support.nginx import nginx
from tests.support.paths import ROOT
from tests.support.ports import free_port
from tests.support.records import ok

PAGE = ROOT / "docs" / "migration.md"
PASSWORD = "Topics-of-the-proxy 7"


def block() -> str:
    """The configuration on the page."""
    found = re.search(
        r"^ +map \$http_authorization.*?^ +}\n(?=\n)", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    assert found is not None
    return textwrap.dedent(found[0])


@contextlib.contextmanager
def proxy(directory: Path, upstream: str) -> Iterator[str]:
    """nginx as the page says, with ports and an account of this test."""
    port = free_port()
    account = base64.b64encode(f"mcp:{PASSWORD}".encode()).decode()
    configuration = block().replace("bWNwOnBhc3N3b3Jk", account)
    configuration = configuration.replace("127.0.0.1:8001", f"127.0.0.1:{port}")
    configuration = configuration.replace("http://127.0.0.1:8000", upstream)
    with nginx(directory, configuration, port):
        yield f"http://127.0.0.1:{port}"


def test_topics_are_reached_through_the_proxy_without_credentials(
    rest: httpx.Client, facade_url: str, ledger: Ledger, tmp_path: Path
) -> None:
    created = rest.post("/user/", json={"login": "mcp", "password": PASSWORD})
    assert created.status_code == 201, created.text
    roles = rest.post("/user/mcp/roles/", json={"roles": ["viewer"]})
    assert roles.status_code == 200, roles.text
    assert rest.post("/topic/", json={"name": "money"}).status_code == 201
    with proxy(tmp_path, facade_url) as url:
        for prefix in PREFIXES:
            assert httpx.get(f"{facade_url}{prefix}/topics.json").status_code == 401
            topics = ok(httpx.get(f"{url}{prefix}/topics.json"))
            assert [topic["name"] for topic in topics] == ["money"]
            own = {"Authorization": rest.headers["Authorization"]}
            users = httpx.get(f"{url}{prefix}/users.json", headers=own)
            assert {user["login"] for user in users.json()} == {"mcp", "root"}
            wrong = {"Authorization": "Bearer nobody"}
            assert httpx.get(f"{url}{prefix}/topics.json", headers=wrong).status_code == 401
