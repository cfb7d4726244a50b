"""The definition of an application as imported, and its earlier definitions."""

from typing import Any

from fastapi import APIRouter, Request, Response

from jobauto_prefect.errors import NotFound
from jobauto_prefect.facade.auth.identity import CurrentUser, Identity
from jobauto_prefect.facade.http.operations import SCHEMAS, answered, keyed, operation
from jobauto_prefect.facade.http.responses import respond_plain
from jobauto_prefect.facade.kinds.applications import ApplicationVersion, serialize_version
from jobauto_prefect.facade.kinds.natural_keys import key_type
from jobauto_prefect.facade.service import CurrentService
from jobauto_prefect.ledger.base import noun_of
from jobauto_prefect.ledger.queries.applications import versions_of
from jobauto_prefect.ledger.queries.lookup import get_record
from jobauto_prefect.ledger.records import App
from jobauto_prefect.ledger.store import ReadingSession

AppKey: Any = key_type(App, "app_id")
DEFINITION = {"application/json": {"schema": {"$ref": f"{SCHEMAS}DefinitionMembers"}}}
router = APIRouter()


def get_visible_app(session: ReadingSession, who: Identity, app_id: int) -> App:
    """Return the application with this id if the user may read it.

    Raises:
        NotFound: it does not exist or they may not see it; the answer is the same.
    """
    app = get_record(session, App, app_id)
    if who.rights.may_read("applications", app.company_id):
        return app
    raise NotFound(f"there is no {noun_of(App)} {app_id}")


@operation(
    router, "GET /app/{app_id}/definition.json", "getDefinition",
    "Get a definition as imported", "The document, byte for byte.",
    tag="Applications",
    answer={200: {"description": "The definition.", "content": DEFINITION}},
)  # fmt: skip
def definition(app_id: AppKey, who: CurrentUser, service: CurrentService) -> Response:
    """Return the definition of an application as imported, byte for byte."""
    with service.ledger.reading() as session:
        app = get_visible_app(session, who, app_id)
    return Response(app.source.encode(), media_type="application/json")


@operation(
    router, "GET /app/{app_id}/versions.{suffix}", "listVersions", "List earlier definitions",
    "An object keyed by number: earlier definitions, which were replaced.",
    tag="Applications", answer=answered("The earlier definitions.", keyed(ApplicationVersion)),
)  # fmt: skip
def versions(
    app_id: AppKey, request: Request, who: CurrentUser, service: CurrentService
) -> Response:
    """Return the earlier definitions of an application, keyed by number."""
    with service.ledger.reading() as session:
        app = get_visible_app(session, who, app_id)
        former = versions_of(session, app_id)
    data = {str(version.number): serialize_version(version) for version in former}
    return respond_plain(request, who, f"Earlier definitions of {app.name}", data)
