"""A Prefect server behind the door, with a facade, two companies, and users of every kind."""

import asyncio
import base64
import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from sqlalchemy import select
from websockets.asyncio.client import ClientConnection, connect

from jobauto_prefect.engine.prefect_server.process import wait_ready
from jobauto_prefect.facade.auth.passwords import hash_password
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.database import migration
from jobauto_prefect.ledger.database.engine import make_engine
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.records import RunTemplate, User
from jobauto_prefect.ledger.secrets import create_key
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.documents import smallest
from tests.support.ledger_rows import fetch
from tests.support.ports import free_port
from tests.support.prefect_database import provide_prefect_database
from tests.support.prefect_server import STARTS_WITHIN
from tests.support.processes import clean_environment, running
from tests.support.secrets import secret
from tests.support.servers import client, facade, prefect_client, user_token, worker_token
from tests.support.waits import eventually

PASSWORD = secret("four unlikely winter words")
OURS, THEIRS = "Ours", "Planted"
"""Names of the two companies; the second must never be seen by who belongs to the first."""

PEOPLE = {
    "viewer": ("viewer", "viewer"),
    "manager": ("viewer", "manager"),
    "runner": ("user", "viewer"),
    "outsider": ("viewer", None),
    "guessed": ("viewer", None),
}
"""Login -> role, and membership in `Ours`."""

PROBE = "#!/bin/sh\necho hello from $COMPANY_NAME\n"


@dataclass(frozen=True)
class Gateway:
    """Where it is, and who may come in."""

    settings: Settings
    ledger: Ledger
    rest: httpx.Client
    templates: dict[str, dict[str, Any]]
    worker_token: str

    @property
    def url(self) -> str:
        """Of Prefect's API."""
        return self.settings.prefect_api_url

    @property
    def pages(self) -> str:
        """Of Prefect's UI."""
        return self.settings.prefect_ui

    def as_(self, login: str, password: str = PASSWORD, **options: Any) -> httpx.Client:
        """A client of Prefect's API that signs in with a password."""
        return prefect_client(self.url, auth=(login, password), **options)

    def anonymous(self) -> httpx.Client:
        """One that does not sign in."""
        return prefect_client(self.url)

    def deployment(self, company: str) -> str:
        """Prefect's id of the deployment of a company's run template, once it has one."""
        template = self.templates[company]["id"]

        def look() -> UUID | None:
            return fetch(self.ledger, RunTemplate, template).deployment_id

        return str(eventually(look))

    def run(self, company: str) -> str:
        """A new flow run of a company, made by an administrator."""
        with self.as_("root") as root:
            path = f"/deployments/{self.deployment(company)}/create_flow_run"
            return str(root.post(path, json={}).raise_for_status().json()["id"])

    def trail(self, **wanted: Any) -> list[dict[str, Any]]:
        """The audit entries with these members, the newest first."""
        entries = self.rest.get("/auditlog.json", params={"limit": 1000}).json()
        return [entry for entry in entries.values() if wanted.items() <= entry.items()]

    def settled_trail(self, request_id: str) -> list[dict[str, Any]]:
        """The entries of a change, with its result; it is written after clients have theirs."""

        def entries() -> list[dict[str, Any]]:
            written = self.trail(request_id=request_id)
            return written if len(written) > 1 else []

        return eventually(entries)

    def environment(self, login: str, password: str = PASSWORD) -> dict[str, str]:
        """For Prefect's own programs."""
        return clean_environment() | {
            "PREFECT_API_URL": self.url,
            "PREFECT_API_AUTH_STRING": f"{login}:{password}",
            "PREFECT_HOME": str(self.settings.home / "client"),
            "PREFECT_LOGGING_LEVEL": "WARNING",
        }


def basic(text: str) -> dict[str, str]:
    """A header that signs in with `login:password`."""
    return {"Authorization": "Basic " + base64.b64encode(text.encode()).decode()}


async def opened(gate: Gateway, path: str, token: str | None, **options: Any) -> ClientConnection:
    """A socket that has said who it is; None: nobody."""
    url = gate.url.replace("http", "ws", 1) + path
    socket = await connect(url, subprotocols=options.get("subprotocols", ["prefect"]))
    if token is not None:
        await socket.send(json.dumps({"type": "auth", "token": token}))
    return socket


@contextlib.contextmanager
def gateway(home: Path, **more: str) -> Iterator[Gateway]:
    """All of it; `more` is for the environment of the Prefect server."""
    prefect_port, api_port = free_port(), free_port()
    settings = Settings(
        home=home,
        prefect_port=prefect_port,
        prefect_api_url=f"http://127.0.0.1:{prefect_port}/api",
        url=f"http://127.0.0.1:{api_port}",
    )
    create_key(settings.key_path)
    engine = make_engine(settings.ledger_url)
    migration.upgrade(engine)
    engine.dispose()
    ledger = open_ledger(settings)
    environment = clean_environment() | {
        "JOBAUTO_HOME": str(home),
        "JOBAUTO_CONFIG_DIR": str(home),
        "JOBAUTO_PREFECT_PORT": str(prefect_port),
        "PREFECT_API_URL": settings.prefect_api_url,
        **more,
    }
    argv = [sys.executable, "-m", "jobauto_prefect.cli", "prefect", "start"]
    provide_prefect_database(home)
    with contextlib.ExitStack() as stack:
        stack.callback(ledger.close)
        stack.enter_context(running(argv, environment, home / "prefect.log"))
        asyncio.run(wait_ready(settings.prefect_api_url, STARTS_WITHIN))
        address = stack.enter_context(facade(settings, ledger))
        rest = stack.enter_context(client(f"{address}/api/v1", user_token(ledger)))
        with ledger.writing(SERVICE) as session:
            root = session.scalars(select(User)).one()
            root.password_hash = hash_password(PASSWORD)
        templates = _populate(rest, home)
        made = Gateway(settings, ledger, rest, templates, worker_token(ledger, "jobauto"))
        for company in templates:
            made.deployment(company)
        yield made


def _populate(rest: httpx.Client, home: Path) -> dict[str, dict[str, Any]]:
    probe = home / "probe"
    probe.write_text(PROBE)
    probe.chmod(0o755)
    environment = {"COMPANY_NAME": {"type": "string"}}
    definition = smallest(name="Greeter", executable=str(probe), environment=environment)
    app = rest.post("/app/", json=definition).raise_for_status().json()
    templates = {}
    for name in (OURS, THEIRS):
        slug = name.lower()
        rest.post("/company/", json={"slug": slug, "name": f"{name} Ltd."}).raise_for_status()
        body = {"app_id": app["id"], "company": slug, "name": f"{name} daily"}
        body["env"] = {"COMPANY_NAME": name}
        templates[name] = rest.post("/runtemplate/", json=body).raise_for_status().json()
    for login, (role, membership) in PEOPLE.items():
        _person(
            rest, login, role, templates[OURS]["company_id"] if membership else None, membership
        )
    _person(rest, "foreigner", "viewer", templates[THEIRS]["company_id"], "manager")
    return templates


def _person(
    rest: httpx.Client, login: str, role: str, company_id: int | None, membership: str | None
) -> None:
    body = {"login": login, "password": PASSWORD, "roles": [role]}
    user = rest.post("/user/", json=body).raise_for_status().json()
    if company_id is not None:
        path = f"/company/{company_id}/user"
        rest.post(path, json={"user_id": user["id"], "role": membership}).raise_for_status()
