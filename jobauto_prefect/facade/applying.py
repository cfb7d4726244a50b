"""`POST /apply`: files of records are planned, and the plan is carried out by its digest."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import Field, StringConstraints

from jobauto_prefect.engine.drift import drift
from jobauto_prefect.errors import StalePlan, Unavailable
from jobauto_prefect.facade.answers import format_of, plain
from jobauto_prefect.facade.auth import Person
from jobauto_prefect.facade.requests import Body, FilesBody, json_fields, parse
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.facade.writes.base import NO_NUL, Labels

if TYPE_CHECKING:  # loaded when files come: most commands bring none
    from jobauto_prefect.facade.apply.applying import Plan
    from jobauto_prefect.facade.apply.contents import Contents
    from jobauto_prefect.facade.apply.plans import Fields
    from jobauto_prefect.facade.apply.reading import Read


class FileBody(Body):
    """A file: its name, by which faults tell of it, and its text, JSON or YAML by the name."""

    name: Annotated[
        str,
        Field(min_length=1, max_length=4096, pattern=NO_NUL),
        Field(description="Its path: faults tell of it; JSON or YAML by how it ends."),
    ]
    text: Annotated[str, Field(description="What is in it.")]


class ApplyBody(Body):
    """Files to apply; with the `digest` of a plan it is carried out."""

    files: Annotated[list[FileBody], Field(max_length=100_000, description="The files.")]
    labels: Labels = Field(default_factory=list, description="Given to all records of the files.")
    prune: bool = Field(
        default=False,
        description="Delete what bears only labels that the files own, and is in none of them.",
    )
    digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = Field(
        default=None, description="Of the plan to carry out."
    )


def add_routes(router: APIRouter) -> None:
    """Add them to the contract."""
    router.post("/apply.{suffix}")(apply_files)
    router.post("/apply", include_in_schema=False)(apply_files)


async def apply_files(
    raw: FilesBody, request: Request, who: Person, service: CurrentService
) -> Response:
    """What applying files would change; with a digest, it is done."""
    from jobauto_prefect.facade.apply.applying import Applying, Stale, Wanted
    from jobauto_prefect.facade.apply.reading import read_records

    format_of(request)
    async with _alone(service):
        body, contents = await asyncio.to_thread(_read, raw)
        read = await asyncio.to_thread(read_records, service.ledger, service.settings, who)
        compared, away = await _drift(service, contents, read)
        files = Applying(service, who, Wanted(contents, body.labels, body.prune, compared))
        try:
            if body.digest is None:
                found = await asyncio.to_thread(files.plan, read)
            else:
                found = await asyncio.to_thread(files.apply, body.digest)
        except Stale:
            found = await asyncio.to_thread(files.plan)
            raise StalePlan(_shown(found, away)) from None
    return plain(request, who, "Plan", _shown(found, away))


def _read(raw: bytes) -> "tuple[ApplyBody, Contents]":
    from jobauto_prefect.facade.apply.contents import contents_of

    body = parse(ApplyBody, json_fields(raw))
    return body, contents_of((file.name, file.text.encode()) for file in body.files)


@contextlib.asynccontextmanager
async def _alone(service: Service) -> AsyncIterator[None]:
    from jobauto_prefect.facade.apply.applying import LOCK_SECONDS

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
    service: Service, contents: "Contents", read: "Read"
) -> "tuple[dict[int, Fields], str | None]":
    """Where Prefect differs from the run templates of the files; why it was not compared."""
    templates = (each.content for each in contents.documents if each.kind == "runtemplate")
    numbers = {read.known.id_of("runtemplate", content) for content in templates} - {None}
    try:
        found = await drift(service.carrier.near, among=[*filter(None, numbers)])
    except Unavailable as error:
        return {}, str(error)
    return {each.template_id: each.differences for each in found}, None


def _shown(found: "Plan", away: str | None) -> dict[str, Any]:
    compared = {"prefect_compared": away is None, "prefect_away": away}
    return found.as_dict() | compared
