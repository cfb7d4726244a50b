"""`POST /apply`: files of records are planned, and the plan is carried out by its digest."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Request, Response
from pydantic import Field, StringConstraints, WithJsonSchema

from jobauto_prefect import errors
from jobauto_prefect.engine.sync.deployment_drift import find_drift
from jobauto_prefect.errors import Forbidden, Unavailable
from jobauto_prefect.facade.answers import Answer, Difference, ErrorSummary, Fault
from jobauto_prefect.facade.auth.identity import CurrentUser, Identity
from jobauto_prefect.facade.http.operations import SERVICE, answered, operation
from jobauto_prefect.facade.http.requests import Body, parse, read_body, read_json_object
from jobauto_prefect.facade.http.responses import format_of, respond_plain
from jobauto_prefect.facade.kinds.registry import BY_ITEM
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.facade.writes.base import NO_NUL, Labels
from jobauto_prefect.kinds import FILE_KINDS

if TYPE_CHECKING:  # loaded when files come: most commands bring none
    from jobauto_prefect.facade.apply.applier import Plan
    from jobauto_prefect.facade.apply.contents import Contents
    from jobauto_prefect.facade.apply.plans import Fields
    from jobauto_prefect.facade.apply.visible_records import VisibleRecords


MOST_FILES = 10_000


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

    files: Annotated[list[FileBody], Field(max_length=MOST_FILES, description="The files.")]
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


router = APIRouter()


Kind = Annotated[str, WithJsonSchema({"type": "string", "enum": [*FILE_KINDS]})]


class Changed(Answer):
    """A field that changes."""

    before: Any = Field(description="What the record says; null: nothing.")
    after: Any = Field(description="What the file says; null: nothing.")


class PlannedChange(Answer):
    """What becomes of one record."""

    kind: Kind = Field(description="The kind of the record; app is an application.")
    title: str = Field(description="How people call it.")
    action: Literal["create", "update", "restore", "delete", "unchanged"] = Field(
        description="`restore`: the record stays, and Prefect is told anew what it says."
    )
    id: int | None = Field(description="Its id; null: it is new.")
    fields: dict[str, Changed] = Field(description="Of updates: what changes, by field.")
    drift: dict[str, Difference] = Field(description="Where Prefect has something else, by field.")
    file: str | None = Field(description="The file that says so; null: no file names it.")


class PlannedWarning(Fault):
    """What is allowed and surely wrong."""

    kind: Kind = Field(description="The kind of the record.")
    title: str = Field(description="How people call it.")


class Counts(Answer):
    """How many records there are of each action."""

    create: int = Field(description="Created.")
    update: int = Field(description="Updated.")
    restore: int = Field(description="Restored in Prefect.")
    delete: int = Field(description="Deleted.")
    unchanged: int = Field(description="Unchanged.")


class ApplyPlan(Answer):
    """What applying files would change, or has changed."""

    digest: str = Field(description="Of the plan and of the records it is about; carries it out.")
    applied: bool = Field(description="Whether it has been carried out.")
    changes: list[PlannedChange] = Field(description="In the order of making them.")
    counts: Counts = Field(description="How many of each action.")
    warnings: list[PlannedWarning] = Field(description="What is allowed and surely wrong.")
    forbidden: list[Fault] = Field(
        description="What of it who asks may not do; then it is not carried out."
    )
    prefect_compared: bool = Field(description="Whether it was compared with Prefect.")
    prefect_away: str | None = Field(description="Why it was not; null: it was.")


class StalePlan(ErrorSummary):
    """The records are not those of the digest; nothing was changed."""

    details: ApplyPlan = Field(description="The plan as it is now.")


@operation(
    router, "POST /apply.{suffix}", "applyFiles", "Plan and apply files of records",
    "Without `digest` the plan: what applying the files would change, tried and taken back. "
    "With the digest of a plan it is carried out, all of it or nothing, unless the records are "
    "others by now. Errors are answered all at once, with file, line and pointer. The rights "
    "are those of the single writes, and each record has its entry in the audit log.",
    tag=SERVICE,
    answer={
        **answered("The plan, or what was carried out.", ApplyPlan),
        **answered(
            "The plan is another one by now; nothing was changed.", StalePlan, status=409
        ),
    },
    errors=(413, 415), body=ApplyBody,
)  # fmt: skip
async def apply_files(request: Request, who: CurrentUser, service: CurrentService) -> Response:
    """Return what applying files would change; with a digest or approval, do it.

    Who may write nothing is told so before their files are read, and each person has one request
    at a time. Nobody waits for a plan: only what is written is under the lock of the ledger.
    """
    from jobauto_prefect.facade.apply.applier import Applier, ApplyRequest, PlanChanged
    from jobauto_prefect.facade.apply.visible_records import load_visible_records

    format_of(request)
    _require_some_write(who)
    run = partial(to_thread.run_sync, limiter=service.applying_threads)
    async with service.applying.slot(who.user_id if who.user_id is not None else who.actor.name):
        body, contents = await run(_read, await read_body(request))
        read = await run(load_visible_records, service.ledger, service.settings, who)
        compared, away = await _drift(service, contents, read)
        files = Applier(service, who, ApplyRequest(contents, body.labels, body.prune, compared))
        try:
            if body.digest is not None:
                plan = await run(files.apply, body.digest)
            else:
                decide = files.approve if body.auto_approve else files.plan
                plan = await run(decide, read)
        except PlanChanged:
            plan = await run(files.plan)
            raise errors.StalePlan(_plan_fields(plan, away)) from None
        return respond_plain(request, who, "Plan", _plan_fields(plan, away))


def _require_some_write(who: Identity) -> None:
    """Require the right to write some record of the kinds that files hold.

    Raises:
        Forbidden: they may write none.
    """
    permissions = {BY_ITEM[kind].kind.permissions for kind in FILE_KINDS}
    writes = ("create", "update", "delete")
    if not any(who.rights.anywhere(f"{of}.{write}") for of in permissions for write in writes):
        raise Forbidden("you may write nothing that files hold; ask an administrator")


def _read(raw: bytes) -> "tuple[ApplyBody, Contents]":
    from jobauto_prefect.facade.apply.contents import read_contents

    body = parse(ApplyBody, read_json_object(raw))
    return body, read_contents((file.name, file.text.encode()) for file in body.files)


async def _drift(
    service: Service, contents: "Contents", read: "VisibleRecords"
) -> "tuple[dict[tuple[str, int], Fields], str | None]":
    """Return where Prefect differs from the run templates of the files.

    And why it was not compared; None: it was.
    """
    templates = (each.content for each in contents.documents if each.kind == "runtemplate")
    numbers = {read.index.id_of("runtemplate", content) for content in templates} - {None}
    try:
        drifts = await find_drift(service.outbox_worker.context, among=[*filter(None, numbers)])
    except Unavailable as error:
        return {}, str(error)
    return {("runtemplate", drift.record_id): drift.differences for drift in drifts}, None


def _plan_fields(plan: "Plan", away: str | None) -> dict[str, Any]:
    compared = {"prefect_compared": away is None, "prefect_away": away}
    return plan.as_dict() | compared
