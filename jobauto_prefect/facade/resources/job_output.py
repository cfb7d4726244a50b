"""A job's output, whole or as it comes, and its artifacts."""

import asyncio
import json
import mimetypes
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from jobauto_prefect.errors import NotAcceptable
from jobauto_prefect.facade.auth.identity import CurrentUser, Identity
from jobauto_prefect.facade.http.field_types import READ_INTEGER, Boolean, Integer
from jobauto_prefect.facade.http.responses import respond_plain
from jobauto_prefect.facade.serializers.jobs import serialize_artifact, serialize_line
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.ledger.queries.jobs import LineSelection, last_output_of, output_of
from jobauto_prefect.ledger.queries.lookup import get_record
from jobauto_prefect.ledger.records import Artifact, Job, OutputLine
from jobauto_prefect.ledger.states import LIVE_JOBS
from jobauto_prefect.ledger.store import ReadingSession

BATCH_LINES = 5000  # lines read at once
FOLLOW_SECONDS = 0.5
FALLBACK_TYPE = "application/octet-stream"
SERVED_TYPES = frozenset({"application/json", "text/plain", "text/csv", "image/png", "image/jpeg"})
"""Types an artifact is served as; a browser would run others."""


def add_routes(router: APIRouter) -> None:
    """Add them to the contract."""
    router.get("/job/{job_id}/output.{suffix}")(output)
    router.get("/artifact/{artifact_id}.{suffix}", include_in_schema=False)(artifact_record)
    router.get("/artifact/{artifact_id}")(artifact)


def _get_visible_job(session: ReadingSession, job_id: int, who: Identity) -> Job:
    job = get_record(session, Job, job_id)
    who.rights.require("jobs", "read", job.company_id, job)
    return job


async def output(
    job_id: Integer,
    suffix: str,
    who: CurrentUser,
    service: CurrentService,
    after: Annotated[int, Query(ge=0, le=2**31 - 1), READ_INTEGER] = 0,
    before: Annotated[int | None, Query(ge=1, le=2**31 - 1), READ_INTEGER] = None,
    find: Annotated[str, Query(max_length=255, pattern=r"^[^\x00]*$")] = "",
    tail: Annotated[int | None, Query(ge=1, le=BATCH_LINES), READ_INTEGER] = None,
    follow: Boolean = False,
) -> Response:
    """Return output lines with a number above `after`; with `follow` also those still to come.

    `tail` is how many of the chosen lines, the last ones. As json an object with `lines`, `last`
    (where to go on) and the `state` after them; as txt the bytes as they were written.
    """
    if suffix not in ("json", "txt"):
        raise NotAcceptable(f"output is not spoken as {suffix[:40]}", ("json", "txt"))
    chosen = LineSelection(after, before, find)
    await asyncio.to_thread(_read_batch, service, job_id, who, chosen, 1)
    lines = _stream_batches(service, job_id, who, chosen, tail, follow=follow)
    if suffix == "txt":
        return StreamingResponse(_as_text(lines), media_type="text/plain; charset=utf-8")
    return StreamingResponse(_as_json(lines, job_id, after), media_type="application/json")


def _read_batch(
    service: Service, job_id: int, who: Identity, chosen: LineSelection, tail: int | None = None
) -> tuple[str, list[OutputLine]]:
    with service.ledger.reading() as session:
        state = _get_visible_job(session, job_id, who).state
        if tail is not None:
            return state, last_output_of(session, job_id, chosen, tail)
        return state, output_of(session, job_id, chosen, BATCH_LINES)


async def _stream_batches(
    service: Service,
    job_id: int,
    who: Identity,
    chosen: LineSelection,
    tail: int | None,
    *,
    follow: bool,
) -> AsyncIterator[tuple[str, list[OutputLine]]]:
    """Yield the state before each batch, and its lines; the last batch is empty."""
    while True:
        state, lines = await asyncio.to_thread(_read_batch, service, job_id, who, chosen, tail)
        yield state, lines
        if lines:
            chosen, tail = replace(chosen, after=lines[-1].seq), None
        elif follow and state in LIVE_JOBS:
            await asyncio.sleep(FOLLOW_SECONDS)
        else:
            return


async def _as_text(batches: AsyncIterator[tuple[str, list[OutputLine]]]) -> AsyncIterator[bytes]:
    """Yield what was written; what does not follow it there begins on a line of its own."""
    follows, last = True, 0
    async for _, lines in batches:
        text = b""
        for line in lines:
            is_told = line.stream == "notice" or line.is_gap
            if not follows and (is_told or line.seq != last + 1):
                text += b"\n"
            text += f"{line.text}\n".encode() if is_told else line.written
            follows, last = text.endswith(b"\n"), line.seq
        yield text


async def _as_json(
    batches: AsyncIterator[tuple[str, list[OutputLine]]], job_id: int, after: int
) -> AsyncIterator[bytes]:
    over, separator = "", ""
    yield f'{{"job_id":{job_id},"lines":['.encode()
    async for state, lines in batches:
        over = state
        for line in lines:
            yield f"{separator}{_json(serialize_line(line))}".encode()
            separator, after = ",", line.seq
    yield f'],"last":{after},"state":{_json(over)}}}'.encode()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def artifact_record(
    artifact_id: Integer, request: Request, who: CurrentUser, service: CurrentService
) -> Response:
    """Return what is known of an artifact, as the lists of its job have it."""
    with service.ledger.reading() as session:
        stored = get_record(session, Artifact, artifact_id)
        _get_visible_job(session, stored.job_id, who)
        shown = serialize_artifact(stored)
    return respond_plain(request, who, f"Artifact {artifact_id}", shown)


def artifact(artifact_id: Integer, who: CurrentUser, service: CurrentService) -> Response:
    """Return an artifact's content, to be saved: never as something a browser would run."""
    with service.ledger.reading() as session:
        stored = get_record(session, Artifact, artifact_id)
        _get_visible_job(session, stored.job_id, who)
        content = stored.content
    kind, _ = mimetypes.guess_type(stored.path)
    name = quote(stored.path.rpartition("/")[2])
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; sandbox",
    }
    return Response(
        content, media_type=kind if kind in SERVED_TYPES else FALLBACK_TYPE, headers=headers
    )
