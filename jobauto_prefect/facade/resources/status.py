"""Ping, status and the index of endpoints."""

from datetime import datetime
from typing import Literal

from fastapi import APIRouter, Request, Response
from pydantic import Field

from jobauto_prefect import __version__
from jobauto_prefect.facade.answers import Answer
from jobauto_prefect.facade.auth.identity import CurrentUser
from jobauto_prefect.facade.http.operations import OPEN, SERVICE, answered, hidden, operation
from jobauto_prefect.facade.http.responses import respond_plain
from jobauto_prefect.facade.resources import maintenance
from jobauto_prefect.facade.resources.maintenance import Maintenance
from jobauto_prefect.facade.service import CurrentService
from jobauto_prefect.ledger import service_status
from jobauto_prefect.ledger.database.engine import database_version, require_writable
from jobauto_prefect.ledger.outbox import waiting_messages
from jobauto_prefect.ledger.queries.lookup import record_counts

router = APIRouter()


class Ping(Answer):
    """The service and its database answer."""

    ping: Literal["pong"] = Field(description="Always pong.")


class Status(Answer):
    """The state of the service, with numbers of records for callers with `system.logs`."""

    version: str = Field(description="The version of this service.")
    timestamp: datetime = Field(description="When the state was read.")
    prefect: str = Field(description="Address of Prefect's API.")
    prefect_ui: str = Field(description="Address of Prefect's UI.")
    waiting_for_prefect: int = Field(
        description="How many changes have not been sent to Prefect yet."
    )
    prefect_away: str | None = Field(
        description="Why Prefect did not take the last change; null: it did, or there was none."
    )
    extra_env: list[str] = Field(
        description="Variables that jobs of all applications may be given in addition to those of "
        "their definitions."
    )
    database: str = Field(description="The database of the ledger, with its version.")
    daemon: Literal["active", "inactive"] = Field(
        description="Whether `jobauto services` gave a sign of life within the last minute."
    )
    maintenance: Maintenance | None = Field(
        description="The current maintenance freeze; null: there is none."
    )
    app: int | None = Field(default=None, description="Number of applications.")
    company: int | None = Field(default=None, description="Number of companies.")
    runtemplate: int | None = Field(default=None, description="Number of run templates.")
    job: int | None = Field(default=None, description="Number of jobs.")
    user: int | None = Field(default=None, description="Number of users.")
    topic: int | None = Field(default=None, description="Number of topics.")
    credential: int | None = Field(default=None, description="Number of credentials.")
    credential_type: int | None = Field(
        default=None,
        description="Number of credential types.",
    )
    event_source: int | None = Field(default=None, description="Number of event sources.")
    event_rule: int | None = Field(default=None, description="Number of event rules.")


class Endpoint(Answer):
    """A path and its methods."""

    path: str = Field(description="The path.")
    methods: list[str] = Field(description="The HTTP methods.")


class Index(Answer):
    """All paths."""

    index: list[Endpoint] = Field(description="The paths, in the order of the documentation.")


@operation(
    router, "GET /ping.{suffix}", "ping", "Check whether the service answers",
    "Needs no authentication; for probes. 503 while the database is unavailable.",
    tag=SERVICE, answer=answered("The service and its database answer.", Ping), security=OPEN,
)  # fmt: skip
def ping(request: Request, service: CurrentService) -> Response:
    """Answer pong, without authentication; 503 while the ledger can't be written."""
    with service.ledger.reading() as session:
        require_writable(session)
    return respond_plain(request, None, "Ping", {"ping": "pong"})


def status(request: Request, who: CurrentUser, service: CurrentService) -> Response:
    """Return the state of the service, with numbers of records for those who may see them."""
    with service.ledger.reading() as session:
        counts = record_counts(session)
        waiting = waiting_messages(session, service.ledger.clock())
        database = database_version(session)
        running = service_status.are_running(session, service.ledger.clock())
    frozen = maintenance.current_freeze(service)
    data = {
        "version": __version__,
        "timestamp": service.ledger.clock().isoformat(),
        "prefect": service.settings.prefect_api_url,
        "prefect_ui": service.settings.prefect_ui,
        "waiting_for_prefect": waiting,
        "prefect_away": service.outbox_worker.prefect_away,
        "extra_env": list(service.settings.extra_env),
        "database": database,
        "daemon": "active" if running else "inactive",
        "maintenance": frozen if frozen["frozen"] else None,
        **(counts if who.rights.may("system.logs", None) else {}),
    }
    return respond_plain(request, who, "Status", data)


for name, asked in (("status", "GET /status"), ("statusAs", "GET /status.{suffix}")):
    add = operation(
        router, asked, name, "Get the state of the service",
        "The service's version, its Prefect and its database. Numbers of records need "
        "`system.logs`.",
        tag=SERVICE, answer=answered("The state of the service.", Status), twin=None,
    )  # fmt: skip
    add(status)


@hidden(router, "GET /")
@operation(
    router, "GET /index.{suffix}", "index", "List all endpoints", "Every path and its methods.",
    tag=SERVICE, answer=answered("All endpoints.", Index),
)  # fmt: skip
def index(request: Request, who: CurrentUser) -> Response:
    """Return all endpoints."""
    listed = [
        {"path": path, "methods": sorted(method.upper() for method in methods)}
        for path, methods in request.app.openapi()["paths"].items()
    ]
    return respond_plain(request, who, "Endpoints", {"index": listed})
