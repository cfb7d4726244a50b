"""Testing an event source."""

from typing import Any

from fastapi import APIRouter, Request, Response

from jobauto_prefect.facade.access import allow
from jobauto_prefect.facade.answers import format_of, plain
from jobauto_prefect.facade.auth import Person
from jobauto_prefect.facade.names import key_of
from jobauto_prefect.facade.service import CurrentService
from jobauto_prefect.ledger import queries
from jobauto_prefect.ledger.records import EventSource
from jobauto_prefect.sources import probe, rules_of, target_of

SourceKey: Any = key_of(EventSource, "source_id")


def add_routes(router: APIRouter) -> None:
    """Add them to the contract."""
    router.post("/eventsource/{source_id}/test.{suffix}", name="test eventsource")(test)
    router.post("/eventsource/{source_id}/test", include_in_schema=False)(test)


def test(source_id: SourceKey, request: Request, who: Person, service: CurrentService) -> Response:
    """Whether the adapter database answers and can be read; takes at most five seconds."""
    format_of(request)
    with service.ledger.reading() as session:
        source = queries.get(session, EventSource, source_id)
        allow(who, "companies", "update", source.company_id, source)
    target = target_of(source, service.ledger.box)
    found = probe(target, rules_of(service.settings), removes=source.consume == "delete")
    data = {"reachable": found.reachable, "message": found.message}
    return plain(request, who, f"Test of event source {source_id}", data)
