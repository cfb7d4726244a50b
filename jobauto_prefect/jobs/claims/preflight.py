"""What is asked outside of the ledger before a claim is decided: nothing may wait while its
transaction holds locks.
"""

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
    """Answers from outside the ledger, asked for before a claim is decided.

    `blocks` is the data of Prefect's blocks by name (type slug/name), secrets included. `values`
    are those that credentials name instead of holding, by the id of the credential.
    `missing` says why there will be no launch, `held_up` why it has to wait and `again` until
    when; None: nothing is in its way. `event_values` are those of the job's event, or why there
    are none, if they had to be found before the transaction.
    """

    blocks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    values: Mapping[int, Mapping[str, str]] = field(default_factory=dict, repr=False)
    missing: str | None = None
    held_up: str | None = None
    again: datetime | None = None
    event_values: EventValues | Exception | None = field(default=None, repr=False)


NO_PREFLIGHT = Preflight()

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


def asks_outside(template: RunTemplate) -> bool:
    """Whether something besides the ledger has to be asked for the jobs of a run template."""
    types = (assigned.credential.credential_type for assigned in template.assignments)
    return bool(template.blocks) or any(type_.availability or type_.source for type_ in types)


def run_preflight(
    ledger: Ledger, claim: Claim, checks: PreflightChecks, extra: Collection[str] = ()
) -> Preflight:
    """Ask everything a claim needs from outside. `extra`: names all jobs take."""
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
    """Return what a path names in a block's data (`a.b` is b in a); None: there is none."""
    for part in path.split("."):
        data = data.get(part) if isinstance(data, Mapping) else None
    return data
