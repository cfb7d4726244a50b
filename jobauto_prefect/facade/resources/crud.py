"""The REST contract: its router, and the routes that read and delete single records."""

import functools
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import Field

from jobauto_prefect.errors import NotFound
from jobauto_prefect.facade.answers import Answer
from jobauto_prefect.facade.apply import endpoint
from jobauto_prefect.facade.auth.identity import CurrentUser, Identity
from jobauto_prefect.facade.http.addresses import address_of
from jobauto_prefect.facade.http.operations import (
    answered,
    operation,
    to_pascal_case,
)
from jobauto_prefect.facade.http.responses import format_of, load_names, respond, respond_plain
from jobauto_prefect.facade.kinds.natural_keys import OWNED, key_type
from jobauto_prefect.facade.kinds.registry import RESOURCES
from jobauto_prefect.facade.kinds.resource import Resource
from jobauto_prefect.facade.resources import (
    applications,
    credential_secrets,
    event_replay,
    event_sources,
    forecasts,
    job_deletion,
    job_output,
    maintenance,
    memberships,
    prefect_status,
    sessions,
    status,
    suggestions,
    task_actions,
    users,
    workers,
)
from jobauto_prefect.facade.resources.lists import add_list, view_of
from jobauto_prefect.facade.resources.upserts import add_upsert
from jobauto_prefect.facade.service import CurrentService
from jobauto_prefect.facade.writes.memberships import require_super_admin_left
from jobauto_prefect.jobs.windows.tasks import deactivate
from jobauto_prefect.ledger.access.ownership import companies_of, company_of
from jobauto_prefect.ledger.base import noun_of
from jobauto_prefect.ledger.queries.lookup import get_record
from jobauto_prefect.ledger.soft_delete import soft_delete
from jobauto_prefect.ledger.store import ReadingSession

ROUTE_MODULES = (
    status,
    forecasts,
    maintenance,
    prefect_status,
    endpoint,
    workers,
    sessions,
    users,
    memberships,
    job_deletion,
    job_output,
    applications,
    task_actions,
    suggestions,
    event_sources,
    credential_secrets,
    event_replay,
)
"""Modules of special routes, in the order of the document."""


@functools.cache  # stateless, and slow to build
def build_contract_router() -> APIRouter:
    """Build the router with all routes of the contract."""
    router = APIRouter()
    for resource in RESOURCES:
        add_list(router, resource)
        _add_read(router, resource)
        if resource.write is not None:
            add_upsert(router, resource)
        if resource.kind.deletable:
            _add_delete(router, resource)
    for module in ROUTE_MODULES:
        router.routes.extend(module.router.routes)
    return router


class Deleted(Answer):
    """A record was deleted from lists and from Prefect; the history keeps it."""

    id: int = Field(description="The id of the record.")
    deleted: Literal[True] = Field(description="Always true.")
    success: Literal[True] = Field(description="Always true.")


def _add_read(router: APIRouter, resource: Resource) -> None:
    def read(
        record_id: Any, request: Request, who: CurrentUser, service: CurrentService
    ) -> Response:
        format_name = format_of(request)
        with service.ledger.reading() as session:
            record = _get_visible(session, resource, record_id, who, request)
            shown = resource.show(record, service.settings) | resource.details(
                session, record, service.settings
            )
            counts_work = address_of(request).dialect.counts_work
            resource.complete(session, [record], [shown], service, counts_work=counts_work)
            names = load_names(session, who, [shown]) if format_name == "html" else {}
        view = view_of(
            resource, request, who, shown, title=f"{resource.kind.one} {shown['id']}", names=names
        )
        return respond(request, format_name, view)

    read.__annotations__["record_id"] = key_type(resource.record)
    kind = resource.kind
    add = operation(
        router,
        f"GET /{kind.item}/{{record_id}}.{{suffix}}",
        f"get{to_pascal_case(kind.noun)}",
        f"Get {kind.noun}",
        f"{kind.one}. Needs `{kind.read}`.",
        tag=kind.many,
        answer=answered(f"The {kind.noun}.", resource.detail or resource.answer),
        # Companies may have records of the same name.
        errors=(409,) if resource.record in OWNED else (),
    )
    add(read)


def _get_visible(
    session: ReadingSession, resource: Resource, record_id: int, who: Identity, request: Request
) -> Any:
    """Return a record that the caller may see and that exists in the dialect of the address.

    Raises:
        NotFound: there is no such record, or the caller may not see it.
    """
    record = get_record(session, resource.record, record_id)
    only = address_of(request).dialect.only(resource.kind.item)
    there = only is None or getattr(record, only.column) in only.value
    if there and (
        resource.is_own(who, record)
        or any(who.rights.may(resource.kind.read, of) for of in companies_of(record))
    ):
        return record
    raise NotFound(f"there is no {noun_of(resource.record)} {record_id}")


def require_deletion(who: Identity, resource: Resource, record: Any) -> None:
    """Require that somebody may delete a record, in one of the companies that see it.

    Raises:
        NotFound: they may not see it.
        Forbidden: they may see it, but not delete it.
    """
    seen = [of for of in companies_of(record) if who.rights.may(resource.kind.read, of)]
    may = [of for of in seen if who.rights.may(f"{resource.kind.permissions}.delete", of)]
    company_id = next(iter((*may, *seen)), company_of(record))
    who.rights.require(resource.kind.permissions, "delete", company_id, record)


def _add_delete(router: APIRouter, resource: Resource) -> None:
    def delete(
        record_id: Any, request: Request, who: CurrentUser, service: CurrentService
    ) -> Response:
        format_of(request)
        with service.ledger.writing(who.actor) as session:
            record = get_record(session, resource.record, record_id)
            require_deletion(who, resource, record)
            resource.before_deletion(who, record, session.clock())
            soft_delete(session, record, deactivate)
            require_super_admin_left(session)
        service.outbox_worker.wake()
        gone = {"id": record_id, "deleted": True, "success": True}
        return respond_plain(request, who, f"Deleted {resource.kind.item} {record_id}", gone)

    delete.__annotations__["record_id"] = key_type(resource.record)
    kind = resource.kind
    add = operation(
        router,
        f"DELETE /{kind.item}/{{record_id}}.{{suffix}}",
        f"delete{to_pascal_case(kind.noun)}",
        f"Delete {kind.noun}",
        f"{resource.deletion} Needs `{kind.permissions}.delete`.",
        tag=kind.many,
        answer=answered("The record was deleted.", Deleted),
        errors=(409,),
    )
    add(delete)
