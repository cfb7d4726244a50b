"""Numbers of jobs, the output of a job, complete or followed live, and its artifacts."""

import asyncio
import json
import mimetypes
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field, WithJsonSchema
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from jobauto_prefect.errors import Forbidden, NotAcceptable, NotFound, Unauthorized
from jobauto_prefect.facade.answers import Answer
from jobauto_prefect.facade.auth.identity import (
    STREAM_CHECK_SECONDS,
    CurrentUser,
    Identity,
    identify,
)
from jobauto_prefect.facade.concurrency import SLOT, Slot, long_work
from jobauto_prefect.facade.http.field_types import READ_INTEGER, Boolean
from jobauto_prefect.facade.http.operations import answered, hidden, operation
from jobauto_prefect.facade.http.parameters import number_key
from jobauto_prefect.facade.http.responses import respond_plain
from jobauto_prefect.facade.kinds.jobs import Output, serialize_artifact, serialize_line
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.ledger.queries import lists
from jobauto_prefect.ledger.queries.jobs import (
    LineSelection,
    jobs_by_state,
    last_output_of,
    output_of,
    repeated_jobs,
)
from jobauto_prefect.ledger.queries.lists import Selection
from jobauto_prefect.ledger.queries.lookup import get_record
from jobauto_prefect.ledger.records import App, Artifact, Job, OutputLine
from jobauto_prefect.ledger.states import FAILED_JOBS, LIVE_JOBS, SUCCESSFUL_JOBS, JobState
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.text_patterns import NO_NUL

BATCH_LINES = 5000  # lines read at once
FOLLOW_SECONDS = 0.5
FALLBACK_TYPE = "application/octet-stream"
SERVED_TYPES = frozenset({"application/json", "text/plain", "text/csv", "image/png", "image/jpeg"})
"""Media types of artifacts that are sent as such; browsers might execute others."""


JobKey: Any = number_key("jobId", "job")
ArtifactKey: Any = number_key("artifactId", "artifact")
router = APIRouter()


class JobsByState(Answer):
    """Numbers of jobs, for the companies that you may see."""

    timestamp: datetime = Field(description="When the numbers were read.")
    total_jobs: int = Field(description="Number of all jobs.")
    successful_jobs: int = Field(description="Jobs that succeeded.")
    failed_jobs: int = Field(description="Jobs that failed or were lost.")
    incomplete_jobs: int = Field(description="Jobs that are waiting or running.")
    total_applications: int = Field(description="Number of applications that you may see.")
    repeated_jobs: int = Field(description="Jobs that are not first attempts.")
    states: dict[JobState, int] = Field(description="Number of jobs by state.")


@operation(
    router, "GET /jobs/status.{suffix}", "countJobs", "Count jobs by state",
    "For the companies that you may see.",
    tag="Jobs", answer=answered("The numbers.", JobsByState),
)  # fmt: skip
def jobs_status(request: Request, who: CurrentUser, service: CurrentService) -> Response:
    """Return the number of jobs in each state, for the companies one may see."""
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


def _get_visible_job(session: ReadingSession, job_id: int, who: Identity) -> Job:
    job = get_record(session, Job, job_id)
    who.rights.require("jobs", "read", job.company_id, job)
    return job


After = Annotated[
    int,
    Query(ge=0, le=2**31 - 1, description="Only lines with a higher number."),
    READ_INTEGER,
]
Before = Annotated[
    int | None,
    Query(ge=1, le=2**31 - 1, description="Only lines with a lower number."),
    READ_INTEGER,
]
Find = Annotated[
    str | None,
    Query(
        max_length=255,
        pattern=NO_NUL,
        description="Only lines that contain this text, ignoring case.",
    ),
    WithJsonSchema({"type": "string", "maxLength": 255, "pattern": NO_NUL}),
]
Tail = Annotated[
    int | None,
    Query(ge=1, le=BATCH_LINES, description="Only the last lines, at most this many."),
    READ_INTEGER,
]
Follow = Annotated[
    Boolean,
    WithJsonSchema({"type": "boolean", "x-default": False}),
    Query(description="Keep the connection open until the job has ended."),
]
Form = Annotated[
    str,
    WithJsonSchema({"type": "string", "enum": ["json", "txt"], "x-example": "json"}),
    Path(description="The format of the answer, errors included."),
]


@operation(
    router, "GET /job/{job_id}/output.{suffix}", "getOutput", "Get the output of a job",
    "All lines with a number above `after`. With `follow`, the answer goes on with new lines "
    "until the job has ended. With `tail`, it has only the last lines. Needs `jobs.read`.",
    tag="Jobs",
    answer={
        200: {
            "model": Output,
            "description": "The lines.",
            "content": {"application/json": {}, "text/plain": {}},
        }
    },
    formats=(), twin=None,
)  # fmt: skip
async def output(
    job_id: JobKey,
    suffix: Form,
    request: Request,
    who: CurrentUser,
    service: CurrentService,
    after: After = 0,
    before: Before = None,
    find: Find = None,
    tail: Tail = None,
    follow: Follow = False,
) -> Response:
    """Return output lines with a number above `after`; with `follow` also new ones.

    `tail` limits them to the last ones. The JSON is an object with `lines`, `last` (the next
    `after`) and the job's `state`; txt is the bytes as they were written.
    """
    if suffix not in ("json", "txt"):
        raise NotAcceptable(f"output is not available as {suffix[:40]}", ("json", "txt"))
    if follow:
        service.following.require_room(_follower(who))  # before the ledger is asked
    chosen = LineSelection(after, before, find or "")
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
    """The output as written; notices, and lines after a gap, begin on a new line."""

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
    """An object with the lines, the last number, and the job's state after it."""

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
    """The output of a job, read and rendered in threads; few threads serve followed and long ones.

    `who` is the caller as the request was identified.
    """

    service: Service
    job_id: int
    request: Request
    who: Identity
    form: _Text | _Json
    follow: bool

    async def stream(self, chosen: LineSelection, tail: int | None) -> AsyncIterator[bytes]:
        """Yield the output in batches; the last one is empty.

        A followed output also ends when the caller may no longer read it.
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
                limiter = limiter or self.service.output_threads  # further batches
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
        with long_work.giving_way():
            return state, lines[-1].seq if lines else None, self.form.render(state, lines)


def _follower(who: Identity) -> int | str:
    return who.user_id if who.user_id is not None else who.actor.name


class _Followed(StreamingResponse):
    """May last for hours, so it trades the slot of its request for one of followed outputs."""

    def __init__(
        self, request: Request, batches: _Batches, content: AsyncIterator[bytes], kind: str
    ) -> None:
        super().__init__(content, media_type=kind)
        self._slot: Slot | None = getattr(request.state, SLOT, None)
        self._batches = batches

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer.

        Raises:
            TooManyRequests: the user follows too many outputs.
        """
        if self._slot is not None:
            self._slot.release()
        who, following = self._batches.who, self._batches.service.following
        async with following.slot(_follower(who)):
            await super().__call__(scope, receive, send)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@hidden(router, "GET /artifact/{artifact_id}.{suffix}")
def artifact_record(
    artifact_id: ArtifactKey, request: Request, who: CurrentUser, service: CurrentService
) -> Response:
    """Return the record of an artifact as its job shows it."""
    with service.ledger.reading() as session:
        stored = get_record(session, Artifact, artifact_id)
        _get_visible_job(session, stored.job_id, who)
        shown = serialize_artifact(stored)
    return respond_plain(request, who, f"Artifact {artifact_id}", shown)


FILE = {
    "description": "The file. Types that a browser might execute are sent as octet-stream.",
    "headers": {
        "Content-Disposition": {
            "description": "The name of the file.",
            "required": True,
            "schema": {"type": "string", "pattern": "^attachment; filename\\*=UTF-8''"},
        }
    },
    "content": {media_type: {} for media_type in sorted({FALLBACK_TYPE, *SERVED_TYPES})},
}


@operation(
    router, "GET /artifact/{artifact_id}", "getArtifact", "Download an artifact",
    "The file as a download. Needs `jobs.read`.",
    tag="Jobs", answer={200: FILE}, response_class=Response,
)  # fmt: skip
def artifact(artifact_id: ArtifactKey, who: CurrentUser, service: CurrentService) -> Response:
    """Return an artifact as a download, never as a type that browsers execute."""
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
