"""Queries outside the ledger before a claim is decided: its transaction may not wait for them."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from jobauto_prefect.definitions.environment_names import EnvironmentNames
from jobauto_prefect.errors import JobautoError, NotFound, SourceUnavailable
from jobauto_prefect.jobs.outcome.event_values import EventValues
from jobauto_prefect.ledger.jobs.attempts import template_that_asks
from jobauto_prefect.ledger.records import Credential, RunTemplate
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.runtime.protocol import Claim


@dataclass(frozen=True, slots=True)
class Preflight:
    """Answers from outside the ledger, collected before a claim is decided.

    `blocks` maps the names of Prefect's blocks (type slug/name) to their data, secrets included.
    `values` maps credential ids to the values those credentials refer to. `missing` says why there
    will be no launch, `held_up` why it has to wait and `again` until when; None: nothing prevents
    it. `event_values` are those of the job's event, or the error, if they had to be found before
    the transaction.
    """

    blocks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    values: Mapping[int, Mapping[str, str]] = field(default_factory=dict, repr=False)
    missing: str | None = None
    held_up: str | None = None
    again: datetime | None = None
    event_values: EventValues | Exception | None = field(default=None, repr=False)


NO_PREFLIGHT = Preflight()

PREFECT_AGAIN = timedelta(seconds=15)
"""Retry interval while Prefect can't be asked for blocks."""

SOURCE_AGAIN = timedelta(seconds=60)
"""Retry interval while values can't be read."""


@dataclass(frozen=True, slots=True)
class PreflightChecks:
    """How to ask outside; both may block.

    `unavailable` says why a credential's target is not available; None: it is. `read_block` returns
    the data of a block (type slug/name), or raises NotFound or PrefectUnavailable. `read_values`
    returns the values a credential refers to, or raises SourceUnavailable.
    """

    unavailable: Callable[[Credential, datetime], str | None]
    read_block: Callable[[str], Mapping[str, Any]]
    read_values: Callable[[Credential], Mapping[str, str]]


def asks_outside(template: RunTemplate) -> bool:
    """Whether jobs of the run template need anything from outside the ledger."""
    types = (assigned.credential.credential_type for assigned in template.assignments)
    return bool(template.blocks) or any(type_.availability or type_.source for type_ in types)


def run_preflight(
    ledger: Ledger, claim: Claim, checks: PreflightChecks, extra: Collection[str] = ()
) -> Preflight:
    """Ask everything a claim needs from outside; `extra` are names that all jobs accept."""
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


def member_of(data: Any, path: str) -> Any:
    """Return the value at a path in a block's data (`a.b` is b in a); None if there is none."""
    for part in path.split("."):
        data = data.get(part) if isinstance(data, Mapping) else None
    return data
