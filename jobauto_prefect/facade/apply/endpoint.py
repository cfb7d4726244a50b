"""`POST /apply`: plans files of records, and carries out a plan by its digest."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Request, Response
from pydantic import Field, WithJsonSchema

from jobauto_prefect import errors
from jobauto_prefect.engine.sync.deployment_drift import find_drift
from jobauto_prefect.errors import Forbidden, Unavailable
from jobauto_prefect.facade.answers import Answer, Difference, ErrorSummary, Fault
from jobauto_prefect.facade.auth.identity import CurrentUser, Identity
from jobauto_prefect.facade.concurrency import P, T, long_work
from jobauto_prefect.facade.http.operations import SERVICE, answered, operation
from jobauto_prefect.facade.http.requests import Body, parse, read_body, read_json_object
from jobauto_prefect.facade.http.responses import format_of, respond_plain
from jobauto_prefect.facade.kinds.registry import BY_ITEM
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.facade.writes.base import Labels
from jobauto_prefect.kinds import FILE_KINDS
from jobauto_prefect.text_patterns import matching, without_nul

if TYPE_CHECKING:  # loaded with the first files: most commands send none
    from jobauto_prefect.facade.apply.applier import Plan
    from jobauto_prefect.facade.apply.contents import Contents
    from jobauto_prefect.facade.apply.plans import Fields
    from jobauto_prefect.facade.apply.visible_records import VisibleRecords


MOST_FILES = 10_000


class FileBody(Body):
    """A file: its name and text. The suffix of the name says whether the text is JSON or YAML."""

    name: Annotated[
        str,
        without_nul(min_length=1, max_length=4096),
        Field(
            description="Path of the file; errors repeat the path. Its suffix says whether the "
            "text is JSON or YAML."
        ),
    ]
    text: Annotated[str, Field(description="Its content.")]


class ApplyBody(Body):
    """Files to apply. `digest` carries out the plan with this digest, `auto_approve` any plan."""

    files: Annotated[list[FileBody], Field(max_length=MOST_FILES, description="The files.")]
    labels: Labels = Field(
        default_factory=list, description="Labels added to all records of the files."
    )
    prune: bool = Field(
        default=False,
        description="Delete each record that is in none of the files, if it has labels and all of "
        "them belong to the files.",
    )
    digest: Annotated[str, matching(r"^[0-9a-f]{64}$", "must be the digest of a plan")] | None = (
        Field(default=None, description="Digest of the plan to carry out.")
    )
    auto_approve: bool = Field(
        default=False,
        description="Without a digest: carry out the plan, whatever it is, unless part of it is "
        "forbidden.",
    )


router = APIRouter()


Kind = Annotated[str, WithJsonSchema({"type": "string", "enum": [*FILE_KINDS]})]


class Changed(Answer):
    """A field that changes."""

    before: Any = Field(description="The record's value; null: none.")
    after: Any = Field(description="The file's value; null: none.")


class PlannedChange(Answer):
    """The change of one record."""

    kind: Kind = Field(description="The kind of the record; app is an application.")
    title: str = Field(description="Its display name.")
    action: Literal["create", "update", "restore", "delete", "unchanged"] = Field(
        description="`restore`: the record stays as it is and is registered in Prefect again."
    )
    id: int | None = Field(description="Its id; null for a new one.")
    fields: dict[str, Changed] = Field(description="For updates, the changes by field.")
    drift: dict[str, Difference] = Field(
        description="Where Prefect differs from the record, by field."
    )
    file: str | None = Field(description="The file it is in; null: none.")


class PlannedWarning(Fault):
    """What was accepted but is probably wrong."""

    kind: Kind = Field(description="The kind of the record.")
    title: str = Field(description="Its display name.")


class Counts(Answer):
    """The number of records by action."""

    create: int = Field(description="Created.")
    update: int = Field(description="Updated.")
    restore: int = Field(description="Restored in Prefect.")
    delete: int = Field(description="Deleted.")
    unchanged: int = Field(description="Unchanged.")


class ApplyPlan(Answer):
    """What applying files would change, or has changed."""

    digest: str = Field(
        description="Digest of the plan and its records; send it to carry out the plan."
    )
    applied: bool = Field(description="Whether it has been carried out.")
    changes: list[PlannedChange] = Field(
        description="The changes, in the order in which they are made."
    )
    counts: Counts = Field(description="Number of changes by action.")
    warnings: list[PlannedWarning] = Field(description="What was accepted but is probably wrong.")
    forbidden: list[Fault] = Field(
        description="Changes that the user may not make; if there are any, the plan is not carried "
        "out."
    )
    prefect_compared: bool = Field(description="Whether the plan was compared with Prefect.")
    prefect_away: str | None = Field(
        description="Why the plan was not compared with Prefect; null: it was."
    )


class StalePlan(ErrorSummary):
    """The records have changed since the plan was made; nothing was carried out."""

    details: ApplyPlan = Field(description="The plan as it is now.")


@operation(
    router, "POST /apply.{suffix}", "applyFiles", "Plan and apply files of records",
    "Without `digest`, the request returns a plan: the service tries out what the files would "
    "change, and rolls it back. With the digest of a plan, the request carries out the whole plan "
    "or nothing; if the records have changed since the plan was made, it carries out nothing. All "
    "errors are reported together, with file, line and pointer. Each change needs the same "
    "permission, and has the same audit entry, as if it were sent alone.",
    tag=SERVICE,
    answer={
        **answered("The plan, or what was carried out.", ApplyPlan),
        **answered(
            "The plan has changed since; nothing was changed.", StalePlan, status=409
        ),
    },
    errors=(413, 415), body=ApplyBody,
)  # fmt: skip
async def apply_files(request: Request, who: CurrentUser, service: CurrentService) -> Response:
    """Return what applying files would change; with a digest or approval, apply them.

    Users who may write nothing are refused before their files are read, and each user has one
    request at a time. Plans block nobody: only writes hold the lock of the ledger.
    """
    from jobauto_prefect.facade.apply.applier import Applier, ApplyRequest, PlanChanged
    from jobauto_prefect.facade.apply.visible_records import load_visible_records

    format_of(request)
    _require_some_write(who)

    async def run(work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        computed = partial(long_work.compute, work, *args, **named)
        return await to_thread.run_sync(computed, limiter=service.applying_threads)

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
    """Require the permission to write at least one kind of record that files hold.

    Raises:
        Forbidden: the user has none.
    """
    permissions = {BY_ITEM[kind].kind.permissions for kind in FILE_KINDS}
    writes = ("create", "update", "delete")
    if not any(who.rights.anywhere(f"{of}.{write}") for of in permissions for write in writes):
        raise Forbidden("you may not write any record that files hold; ask an administrator")


def _read(raw: bytes) -> "tuple[ApplyBody, Contents]":
    from jobauto_prefect.facade.apply.contents import read_contents

    body = parse(ApplyBody, read_json_object(raw))
    return body, read_contents((file.name, file.text.encode()) for file in body.files)


async def _drift(
    service: Service, contents: "Contents", read: "VisibleRecords"
) -> "tuple[dict[tuple[str, int], Fields], str | None]":
    """Return where Prefect differs from the files' run templates, and why it was not compared.

    None: it was compared.
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
