"""`POST /apply`: files of records are planned, and the plan is carried out by its digest."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import Field, StringConstraints

from jobauto_prefect.engine.sync.deployment_drift import find_drift
from jobauto_prefect.errors import StalePlan, Unavailable
from jobauto_prefect.facade.auth.identity import CurrentUser
from jobauto_prefect.facade.http.requests import Body, RawBody, parse, read_json_object
from jobauto_prefect.facade.http.responses import format_of, respond_plain
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.facade.writes.base import NO_NUL, Labels

if TYPE_CHECKING:  # loaded when files come: most commands bring none
    from jobauto_prefect.facade.apply.applier import Plan
    from jobauto_prefect.facade.apply.contents import Contents
    from jobauto_prefect.facade.apply.plans import Fields
    from jobauto_prefect.facade.apply.visible_records import VisibleRecords


class FileBody(Body):
    """A file: its name, by which errors tell of it, and its text, JSON or YAML by the name."""

    name: Annotated[
        str,
        Field(min_length=1, max_length=4096, pattern=NO_NUL),
        Field(description="Its path: errors tell of it; JSON or YAML by how it ends."),
    ]
    text: Annotated[str, Field(description="What is in it.")]


class ApplyBody(Body):
    """Files to apply; with the `digest` of a plan, or with `auto_approve`, it is carried out."""

    files: Annotated[list[FileBody], Field(max_length=100_000, description="The files.")]
    labels: Labels = Field(default_factory=list, description="Given to all records of the files.")
    prune: bool = Field(
        default=False,
        description="Delete what bears only labels that the files own, and is in none of them.",
    )
    digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = Field(
        default=None, description="Of the plan to carry out."
    )
    auto_approve: bool = Field(
        default=False,
        description="Without a digest: carry out whatever the plan is, unless something of it is "
        "forbidden.",
    )


def add_routes(router: APIRouter) -> None:
    """Add them to the contract."""
    router.post("/apply.{suffix}")(apply_files)
    router.post("/apply", include_in_schema=False)(apply_files)


async def apply_files(
    raw: RawBody, request: Request, who: CurrentUser, service: CurrentService
) -> Response:
    """Return what applying files would change; with a digest or approval, do it."""
    from jobauto_prefect.facade.apply.applier import Applier, ApplyRequest, PlanChanged
    from jobauto_prefect.facade.apply.visible_records import load_visible_records

    format_of(request)
    async with _exclusive(service):
        body, contents = await asyncio.to_thread(_read, raw)
        read = await asyncio.to_thread(load_visible_records, service.ledger, service.settings, who)
        compared, away = await _drift(service, contents, read)
        files = Applier(service, who, ApplyRequest(contents, body.labels, body.prune, compared))
        try:
            if body.digest is not None:
                plan = await asyncio.to_thread(files.apply, body.digest)
            else:
                decide = files.approve if body.auto_approve else files.plan
                plan = await asyncio.to_thread(decide, read)
        except PlanChanged:
            plan = await asyncio.to_thread(files.plan)
            raise StalePlan(_plan_fields(plan, away)) from None
    return respond_plain(request, who, "Plan", _plan_fields(plan, away))


def _read(raw: bytes) -> "tuple[ApplyBody, Contents]":
    from jobauto_prefect.facade.apply.contents import read_contents

    body = parse(ApplyBody, read_json_object(raw))
    return body, read_contents((file.name, file.text.encode()) for file in body.files)


@contextlib.asynccontextmanager
async def _exclusive(service: Service) -> AsyncIterator[None]:
    from jobauto_prefect.facade.apply.applier import LOCK_SECONDS

    try:
        async with asyncio.timeout(LOCK_SECONDS):
            await service.applying.acquire()
    except TimeoutError:
        message = "other files are being applied for a long time; try again later"
        raise Unavailable(message) from None
    try:
        yield
    finally:
        service.applying.release()


async def _drift(
    service: Service, contents: "Contents", read: "VisibleRecords"
) -> "tuple[dict[int, Fields], str | None]":
    """Return where Prefect differs from the run templates of the files.

    And why it was not compared; None: it was.
    """
    templates = (each.content for each in contents.documents if each.kind == "runtemplate")
    numbers = {read.index.id_of("runtemplate", content) for content in templates} - {None}
    try:
        drifts = await find_drift(service.outbox_worker.context, among=[*filter(None, numbers)])
    except Unavailable as error:
        return {}, str(error)
    return {drift.record_id: drift.differences for drift in drifts}, None


def _plan_fields(plan: "Plan", away: str | None) -> dict[str, Any]:
    compared = {"prefect_compared": away is None, "prefect_away": away}
    return plan.as_dict() | compared
