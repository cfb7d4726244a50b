"""Ping, status, the index of endpoints, and what an application was before."""

from typing import Any

from fastapi import APIRouter, Request, Response

from jobauto_prefect import __version__
from jobauto_prefect.facade.auth.access import get_visible
from jobauto_prefect.facade.auth.identity import CurrentUser
from jobauto_prefect.facade.http.responses import respond_plain
from jobauto_prefect.facade.kinds.applications import serialize_version
from jobauto_prefect.facade.resources import maintenance
from jobauto_prefect.facade.resources.natural_keys import key_type
from jobauto_prefect.facade.service import CurrentService
from jobauto_prefect.ledger import service_status
from jobauto_prefect.ledger.database.server import database_version, is_answering
from jobauto_prefect.ledger.outbox import waiting_messages
from jobauto_prefect.ledger.queries import lists
from jobauto_prefect.ledger.queries.applications import versions_of
from jobauto_prefect.ledger.queries.jobs import jobs_by_state, repeated_jobs
from jobauto_prefect.ledger.queries.lists import Selection
from jobauto_prefect.ledger.queries.lookup import record_counts
from jobauto_prefect.ledger.records import App
from jobauto_prefect.ledger.states import FAILED_JOBS, SUCCESSFUL_JOBS

AppKey: Any = key_type(App, "app_id")


def add_routes(router: APIRouter) -> None:
    """Add them to the contract."""
    for path, function in (
        ("/ping", ping),
        ("/status", status),
        ("/index", index),
        ("/jobs/status", jobs_status),
        ("/app/{app_id}/versions", versions),
    ):
        router.get(f"{path}.{{suffix}}", name=function.__name__)(function)
        in_schema = path == "/status"
        router.get(path, name=function.__name__, include_in_schema=in_schema)(function)
    router.get("/", name="index", include_in_schema=False)(index)
    router.get("/app/{app_id}/definition.json")(definition)


def ping(request: Request, service: CurrentService) -> Response:
    """Return a sign of life of facade and ledger, open to all; 503 while the ledger is away."""
    with service.ledger.reading() as session:
        is_answering(session)
    return respond_plain(request, None, "Ping", {"ping": "pong"})


def status(request: Request, who: CurrentUser, service: CurrentService) -> Response:
    """Return what this service is, and how many records it holds."""
    with service.ledger.reading() as session:
        counts = record_counts(session)
        waiting = waiting_messages(session)
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


def index(request: Request, who: CurrentUser) -> Response:
    """Return all endpoints there are."""
    listed = [
        {"path": path, "methods": sorted(method.upper() for method in methods)}
        for path, methods in request.app.openapi()["paths"].items()
    ]
    return respond_plain(request, who, "Endpoints", {"index": listed})


def jobs_status(request: Request, who: CurrentUser, service: CurrentService) -> Response:
    """Return how many jobs there are in each state, of the companies one may see."""
    companies = who.rights.companies_with("jobs.read")
    with service.ledger.reading() as session:
        by_state = jobs_by_state(session, companies)
        repeated = repeated_jobs(session, companies)
        seen = Selection(who.rights.companies_with("applications.read"))
        applications = lists.count(session, App, seen)
    data = {
        "timestamp": service.ledger.clock().isoformat(),
        "total_jobs": sum(by_state.values()),
        "successful_jobs": sum(by_state.get(state, 0) for state in SUCCESSFUL_JOBS),
        "failed_jobs": sum(by_state.get(state, 0) for state in FAILED_JOBS),
        "incomplete_jobs": by_state.get("running", 0) + by_state.get("scheduled", 0),
        "total_applications": applications,
        "repeated_jobs": repeated,
        "states": by_state,
    }
    return respond_plain(request, who, "Jobs by state", data)


def definition(app_id: AppKey, who: CurrentUser, service: CurrentService) -> Response:
    """Return the definition of an application as it came in, byte for byte."""
    with service.ledger.reading() as session:
        app = get_visible(session, who, App, app_id, "applications")
    return Response(app.source.encode(), media_type="application/json")


def versions(
    app_id: AppKey, request: Request, who: CurrentUser, service: CurrentService
) -> Response:
    """Return the definitions an application had before, by their number."""
    with service.ledger.reading() as session:
        app = get_visible(session, who, App, app_id, "applications")
        former = versions_of(session, app_id)
    data = {str(version.number): serialize_version(version) for version in former}
    return respond_plain(request, who, f"Former definitions of {app.name}", data)
