"""Testing an event source."""

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from jobauto_prefect.facade.answers import Answer
from jobauto_prefect.facade.auth.identity import CurrentUser
from jobauto_prefect.facade.http.operations import WRITE_ERRORS, answered, operation
from jobauto_prefect.facade.http.responses import format_of, respond_plain
from jobauto_prefect.facade.kinds.natural_keys import key_type
from jobauto_prefect.facade.service import CurrentService
from jobauto_prefect.ledger.queries.events import unkept_changes
from jobauto_prefect.ledger.queries.lookup import get_record
from jobauto_prefect.ledger.records import EventSource
from jobauto_prefect.sources.poller import floor_of
from jobauto_prefect.sources.probe import probe
from jobauto_prefect.sources.targets import source_rules, source_target

SourceKey: Any = key_type(EventSource, "source_id")


router = APIRouter()


class SourceTested(Answer):
    """The result of testing an event source."""

    reachable: bool = Field(description="Whether its changes can be read.")
    message: str = Field(description="One line for people.")


@operation(
    router, "POST /eventsource/{source_id}/test.{suffix}", "testSource", "Test an event source",
    "Checks that the adapter database answers and that `changes_cache` can be read; if the "
    "service deletes changes, also that it can be written. Takes at most five seconds. Needs "
    "`companies.update`.",
    tag="Event sources", answer=answered("The result.", SourceTested), errors=WRITE_ERRORS,
)  # fmt: skip
def test(
    source_id: SourceKey, request: Request, who: CurrentUser, service: CurrentService
) -> Response:
    """Test whether the adapter database can be read; takes at most five seconds."""
    format_of(request)
    with service.ledger.reading() as session:
        source = get_record(session, EventSource, source_id)
        who.rights.require("companies", "update", source.company_id, source)
        unkept = unkept_changes(session, source)
    target = source_target(source, service.ledger.box)
    result = probe(
        target,
        source_rules(service.settings),
        removes=source.consume == "delete",
        after=floor_of(source),
    )
    dead = [
        f"change {each.inversion} is a dead letter (event {each.id}): {each.error}"
        for each in unkept
    ]
    data = {"reachable": result.reachable, "message": "; ".join([result.message, *dead])}
    return respond_plain(request, who, f"Test of event source {source_id}", data)
