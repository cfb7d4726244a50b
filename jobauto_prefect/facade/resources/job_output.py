"""A job's output, whole or as it comes, and its artifacts."""

import asyncio
import json
import mimetypes
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

from anyio import to_thread
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from jobauto_prefect.errors import Forbidden, NotAcceptable, NotFound, Unauthorized
from jobauto_prefect.facade.auth.identity import (
    STREAM_CHECK_SECONDS,
    CurrentUser,
    Identity,
    identify,
)
from jobauto_prefect.facade.http.field_types import READ_INTEGER, Boolean, Integer
from jobauto_prefect.facade.http.responses import respond_plain
from jobauto_prefect.facade.kinds.jobs import serialize_artifact, serialize_line
from jobauto_prefect.facade.middleware.concurrency import SLOT, Slot
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
    request: Request,
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
    await run_in_threadpool(_read_batch, service, job_id, who, chosen, 1)
    form: _Text | _Json = _Text() if suffix == "txt" else _Json(job_id, after)
    batches = _Batches(service, job_id, request, who, form, follow=follow)
    content = batches.stream(chosen, tail)
    kind = "text/plain; charset=utf-8" if suffix == "txt" else "application/json"
    return (
        _Followed(request, batches, content, kind)
        if follow
        else StreamingResponse(content, media_type=kind)
    )


def _read_batch(
    service: Service, job_id: int, who: Identity, chosen: LineSelection, tail: int | None = None
) -> tuple[str, list[OutputLine]]:
    with service.ledger.reading() as session:
        state = _get_visible_job(session, job_id, who).state
        if tail is not None:
            return state, last_output_of(session, job_id, chosen, tail)
        return state, output_of(session, job_id, chosen, BATCH_LINES)


class _Text:
    """What was written; what does not follow it there begins on a line of its own."""

    begin = end = b""

    def __init__(self) -> None:
        self._follows, self._last = True, 0

    def render(self, _state: str, lines: Sequence[OutputLine]) -> bytes:
        text = bytearray()
        for line in lines:
            is_told = line.stream == "notice" or line.is_gap
            if not self._follows and (is_told or line.seq != self._last + 1):
                text += b"\n"
            text += f"{line.text}\n".encode() if is_told else line.written
            self._follows, self._last = text.endswith(b"\n"), line.seq
        return bytes(text)


class _Json:
    """An object with the lines, the last number, and the state after it."""

    def __init__(self, job_id: int, after: int) -> None:
        self.begin = f'{{"job_id":{job_id},"lines":['.encode()
        self._separator, self._after, self._state = "", after, ""

    def render(self, state: str, lines: Sequence[OutputLine]) -> bytes:
        self._state = state
        if not lines:
            return b""
        text = self._separator + ",".join(_json(serialize_line(line)) for line in lines)
        self._separator, self._after = ",", lines[-1].seq
        return text.encode()

    @property
    def end(self) -> bytes:
        return f'],"last":{self._after},"state":{_json(self._state)}}}'.encode()


@dataclass(frozen=True, slots=True)
class _Batches:
    """The output of a job, read and written in threads: of all that are followed, by a few.

    `who` asks, as the request found them.
    """

    service: Service
    job_id: int
    request: Request
    who: Identity
    form: _Text | _Json
    follow: bool

    async def stream(self, chosen: LineSelection, tail: int | None) -> AsyncIterator[bytes]:
        """Yield batch after batch; the last one is empty.

        What is followed ends, too, once who asks may read it no longer.
        """
        limiter = self.service.following_threads if self.follow else None
        who, checked = self.who, time.monotonic()
        yield self.form.begin
        while True:
            try:
                if self.follow and time.monotonic() - checked > STREAM_CHECK_SECONDS:
                    who = await run_in_threadpool(identify, self.request, self.service)
                    checked = time.monotonic()
                batch = partial(self._render, who, chosen, tail)
                state, last, text = await to_thread.run_sync(batch, limiter=limiter)
            except (Unauthorized, Forbidden, NotFound):
                yield self.form.end
                return
            yield text
            if last is not None:
                chosen, tail = replace(chosen, after=last), None
            elif self.follow and state in LIVE_JOBS:
                await asyncio.sleep(FOLLOW_SECONDS)
            else:
                yield self.form.end
                return

    def _render(
        self, who: Identity, chosen: LineSelection, tail: int | None
    ) -> tuple[str, int | None, bytes]:
        state, lines = _read_batch(self.service, self.job_id, who, chosen, tail)
        return state, lines[-1].seq if lines else None, self.form.render(state, lines)


class _Followed(StreamingResponse):
    """May last for hours: it leaves its place among the user's requests for one of its own kind."""

    def __init__(
        self, request: Request, batches: _Batches, content: AsyncIterator[bytes], kind: str
    ) -> None:
        super().__init__(content, media_type=kind)
        self._slot: Slot | None = getattr(request.state, SLOT, None)
        self._batches = batches

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer.

        Raises:
            TooManyRequests: the user follows as many outputs as they may.
        """
        if self._slot is not None:
            self._slot.release()
        who, following = self._batches.who, self._batches.service.following
        async with following.slot(who.user_id if who.user_id is not None else who.actor.name):
            await super().__call__(scope, receive, send)


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
