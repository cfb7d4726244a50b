"""What credentials and blocks give to the jobs of a run template, and whether it is there.

What has to be asked outside of the ledger (`run_preflight`) is asked before a claim's transaction:
nothing may wait while that holds its locks.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from jobauto_prefect.definitions import Definition, to_text
from jobauto_prefect.definitions.environment_names import EnvironmentNames
from jobauto_prefect.definitions.records.credentials import (
    field_defaults,
    is_secret,
    missing_fields,
)
from jobauto_prefect.errors import (
    JobautoError,
    NotFound,
    PrefectUnavailable,
    SourceUnavailable,
)
from jobauto_prefect.jobs.claims.context import NO_PREFLIGHT, ClaimContext, Preflight, Refused
from jobauto_prefect.ledger.jobs import attempts
from jobauto_prefect.ledger.jobs.attempts import template_that_asks
from jobauto_prefect.ledger.queries.credentials import codes_checked
from jobauto_prefect.ledger.records import Credential, Job, RunTemplate
from jobauto_prefect.ledger.secrets import SecretBox
from jobauto_prefect.ledger.store import Ledger, ReadingSession
from jobauto_prefect.runtime import Layer
from jobauto_prefect.runtime.protocol import Claim, PrefectState
from jobauto_prefect.wording import pluralize

Blocks = Mapping[str, Mapping[str, Any]]
"""Name of a block (type slug/name) -> its data, secrets included."""


def provided_layer(
    template: RunTemplate, preflight: Preflight, box: SecretBox, requirements: Collection[str]
) -> Layer:
    """Return what credentials and blocks give, in the order of assignment, blocks last.

    A later value replaces a former. Credentials of the types that the application names in its
    `requirements` may give all their fields, whether it declares them or not.

    Raises:
        KeyMissing: secret values were stored with another key.
        PrefectUnavailable: a block could not be read.
    """
    values, secrets = dict[str, str](), dict[str, str]()
    layers = [_layer_with(assigned.credential, preflight, box) for assigned in template.assignments]
    layers += [_of_block(assigned, preflight.blocks) for assigned in template.blocks]
    for layer in layers:
        for name in (*layer.values, *layer.secrets):
            values.pop(name, None)
            secrets.pop(name, None)
        values |= layer.values
        secrets |= layer.secrets
    return Layer(values, secrets, granted_fields(template, requirements))


def layer_of(credential: Credential, box: SecretBox) -> Layer:
    """Return the values of one credential, and its type's defaults for what it says nothing of.

    Values of fields that the type does not have any more are left out.
    """
    fields = credential.credential_type.fields
    given = {**field_defaults(fields), **credential.values, **box.open(credential.secrets)}
    secrecy = {field["keyword"]: is_secret(field) for field in fields if field["keyword"] in given}
    sealed = {name for name, secret in secrecy.items() if secret or name in credential.secrets}
    return Layer(
        {name: given[name] for name in secrecy if name not in sealed},
        {name: given[name] for name in sealed},
    )


def _layer_with(credential: Credential, preflight: Preflight, box: SecretBox) -> Layer:
    """Return a credential's own values, and over them those it names; all of these are secret."""
    own, named = layer_of(credential, box), preflight.values.get(credential.id, {})
    values = {name: value for name, value in own.values.items() if name not in named}
    return Layer(values, {**own.secrets, **named})


def _of_block(assigned: Mapping[str, Any], blocks: Blocks) -> Layer:
    """Return a block's values, all secret: which of a foreign block are, only its program knows."""
    block = assigned["block"]
    if block not in blocks:
        raise PrefectUnavailable(f"the block {block} can't be read just now; ask again")
    members = {name: member_of(blocks[block], path) for name, path in assigned["env"].items()}
    return Layer({}, {name: to_text(value) for name, value in members.items() if value is not None})


def member_of(data: Any, path: str) -> Any:
    """Return what a path names in a block's data (`a.b` is b in a); None: there is none."""
    for part in path.split("."):
        data = data.get(part) if isinstance(data, Mapping) else None
    return data


def unmet(session: ReadingSession, template: RunTemplate, definition: Definition) -> list[str]:
    """Return the requirements that name a credential type of which the template has none."""
    credentials = [assigned.credential for assigned in template.assignments]
    codes = {credential.credential_type.code.lower() for credential in credentials}
    open_ = [code for code in definition.requirements if code.lower() not in codes]
    checked = codes_checked(session, open_, template.company.id) if open_ else ()
    return [code for code in open_ if code.lower() in checked]


def unfilled(template: RunTemplate) -> list[str]:
    """Return the required fields without a value, as `credential: KEYWORD`."""
    return [
        f"{assignment.credential.name}: {keyword}"
        for assignment in template.assignments
        for keyword in unfilled_of(assignment.credential)
    ]


def unfilled_of(credential: Credential) -> list[str]:
    """Return the required fields of one credential that have no value."""
    given = {*credential.values, *credential.secrets}
    return [field["keyword"] for field in missing_fields(credential.credential_type.fields, given)]


def granted_fields(template: RunTemplate, requirements: Iterable[str]) -> frozenset[str]:
    """Return the fields that jobs are given undeclared: of credentials of required types.

    Fields that tell how to read other values are for that only.
    """
    wanted = {code.lower() for code in requirements}
    types = [assigned.credential.credential_type for assigned in template.assignments]
    given = [type_ for type_ in types if type_.code.lower() in wanted and not type_.source]
    fields = [field for type_ in given for field in type_.fields]
    return frozenset(field["keyword"] for field in fields)


SOON = timedelta(seconds=5)
"""When to ask again for what was not asked before the claim: somebody named it just now."""


def require_credentials(
    context: ClaimContext, template: RunTemplate, definition: Definition
) -> None:
    """Require a credential for each requirement, all their values, and the blocks.

    Raises:
        Refused: naming those that are missing.
    """
    name = f"{template.company.slug}/{template.name}"
    codes = unmet(context.session, template, definition)
    if codes:
        message = (
            f"the application requires credentials of {', '.join(codes)}, and {name} has none; "
            f"assign them: jobauto template set '{name}' credentials='[\"NAME\"]'"
        )
        raise Refused("unmet_requirement", message, PrefectState.FAILED)
    empty = unfilled(template)
    if empty:
        message = (
            f"credentials of {name} lack values: {', '.join(empty)}; "
            "give them: jobauto credential set COMPANY/NAME --secret KEYWORD"
        )
        raise Refused("missing_credential", message, PrefectState.FAILED)
    if context.preflight.missing is not None:
        raise Refused("missing_block", context.preflight.missing, PrefectState.FAILED)


def require_available(context: ClaimContext, template: RunTemplate) -> None:
    """Require that what the credentials open is there, and that the blocks could be read.

    Raises:
        Refused: not yet, with the time to try again.
    """
    preflight = context.preflight
    if preflight.held_up is not None:
        raise Refused(
            "not_available", preflight.held_up, PrefectState.SCHEDULED, at=preflight.again
        )
    if preflight.missing is None and _is_unread(template, preflight):
        again = context.session.clock() + SOON
        message = "the values it names are not read yet"
        raise Refused("not_available", message, PrefectState.SCHEDULED, at=again)


def _is_unread(template: RunTemplate, preflight: Preflight) -> bool:
    """Whether somebody named a block, or a source of values, after what was asked before."""
    named = [assigned.credential for assigned in template.assignments]
    return any(
        credential.credential_type.source and credential.id not in preflight.values
        for credential in named
    ) or any(assigned["block"] not in preflight.blocks for assigned in template.blocks)


PREFECT_AGAIN = timedelta(seconds=15)
"""When a launch tries again whose blocks Prefect could not be asked for."""

SOURCE_AGAIN = timedelta(seconds=60)
"""When a launch tries again whose values could not be read."""


@dataclass(frozen=True, slots=True)
class PreflightChecks:
    """How to ask outside; both may block.

    `unavailable` says why what a credential opens is not there, None: it is. `read_block` is the
    data of a block (type slug/name), or raises NotFound or PrefectUnavailable. `read_values` are
    those that a credential names instead of holding, or it raises SourceUnavailable.
    """

    unavailable: Callable[[Credential, datetime], str | None]
    read_block: Callable[[str], Mapping[str, Any]]
    read_values: Callable[[Credential], Mapping[str, str]]


def run_preflight(
    ledger: Ledger, claim: Claim, checks: PreflightChecks, extra: Collection[str] = ()
) -> Preflight:
    """Ask everything a claim needs from outside; nothing for most. `extra`: names all jobs take."""
    with ledger.reading() as session:
        template = template_that_asks(session, claim.flow_run_id, claim.deployment_id)
        if template is None:
            return NO_PREFLIGHT
        credentials = [assigned.credential for assigned in template.assignments]
        checked = [
            credential for credential in credentials if credential.credential_type.availability
        ]
        read = [credential for credential in credentials if credential.credential_type.source]
        declared = EnvironmentNames.of(template.app.definition, extra) if read else None
    now = ledger.clock()
    for credential in checked:
        reason = checks.unavailable(credential, now)
        if reason is not None:
            check = credential.credential_type.availability or {}
            again = now + timedelta(seconds=float(check.get("retry_seconds", 60)))
            message = f"{credential.name} is not available yet: {reason}"
            return Preflight(held_up=message, again=again)
    values = dict[int, Mapping[str, str]]()
    for credential in read:
        try:
            answer = checks.read_values(credential)
        except SourceUnavailable as error:
            message = f"the values of {credential.name} can't be read: {error}"
            return Preflight(held_up=message, again=now + SOURCE_AGAIN)
        values[credential.id] = {
            name: value
            for name, value in answer.items()
            if declared is not None and declared.permits(name)
        }
    return replace(_read_blocks(template, checks, now), values=values)


def _read_blocks(template: RunTemplate, checks: PreflightChecks, now: datetime) -> Preflight:
    blocks = dict[str, Mapping[str, Any]]()
    for assigned in template.blocks:
        name = assigned["block"]
        try:
            blocks[name] = checks.read_block(name)
        except NotFound:
            return Preflight(missing=f"Prefect has no block {name}")
        except JobautoError as error:
            message = f"the block {name} can't be read: {error}"
            return Preflight(held_up=message, again=now + PREFECT_AGAIN)
        paths = assigned["env"].values()
        lacking = [path for path in paths if member_of(blocks[name], path) is None]
        if lacking:
            return Preflight(missing=f"the block {name} has no {', '.join(lacking)}")
    return Preflight(blocks)


ROOM_LOOK = timedelta(seconds=10)
"""So often a job looks whether those that use its credential have ended, where nobody tells it."""

SHOWN = 5
"""Of so many jobs the numbers are told."""


def limited_credentials(template: RunTemplate) -> list[Credential]:
    """Return the credentials of a run template that have a limit, by ascending id."""
    used = (assigned.credential for assigned in template.assignments)
    limited = {credential.id: credential for credential in used if credential.max_jobs is not None}
    return [limited[number] for number in sorted(limited)]


def require_room(context: ClaimContext, template: RunTemplate, job: Job) -> None:
    """Require room at the run template's credentials; they are locked until the commit.

    Raises:
        Refused: one is used by as many jobs as may; the job is to come again.
    """
    credentials = limited_credentials(template)
    if not credentials:
        return
    session = context.session
    attempts.lock_credentials(session, [credential.id for credential in credentials])
    for credential in credentials:
        users = attempts.jobs_using(session, credential.id, besides=job.id)
        if credential.max_jobs is not None and len(users) >= credential.max_jobs:
            again = session.clock() + ROOM_LOOK
            raise Refused("limit", _full(credential, users), PrefectState.SCHEDULED, at=again)


def _full(credential: Credential, users: Sequence[int]) -> str:
    jobs = f"{pluralize(credential.max_jobs or 0, 'job')} at a time"
    named = ", ".join(map(str, users[:SHOWN])) + (" …" if len(users) > SHOWN else "")
    return f"{credential.name} is for {jobs}; it waits for the end of one of {named}"
