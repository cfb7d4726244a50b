"""Which credentials, and which blocks of other people in Prefect, a run template has."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from jobauto_prefect.definitions import parse
from jobauto_prefect.definitions.value_rules import ValueRules
from jobauto_prefect.errors import Fault, Forbidden, InvalidInput
from jobauto_prefect.facade.access import see
from jobauto_prefect.facade.requests import Body
from jobauto_prefect.facade.writes.base import Id, Name, Write
from jobauto_prefect.jobs.credentials import requirement_warnings, withheld_warnings
from jobauto_prefect.ledger import queries
from jobauto_prefect.ledger.records import Credential, RunTemplate, TemplateCredential

BLOCKS_PERMISSION = "system.config"
"""A block belongs to no company: whoever may name any could have the secrets of all."""

CredentialRef = Id | Name
"""The id of a credential, or its name within the run template's company."""

Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]


class BlockBody(Body):
    """A Prefect block of other people; `env` maps variables to its fields (`a.b` is b in a)."""

    block: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,200}/[a-z0-9-]{1,200}$")]
    env: dict[Variable, Annotated[str, StringConstraints(min_length=1, max_length=200)]] = Field(
        min_length=1, max_length=100
    )


def take_credentials(write: Write, template: RunTemplate, given: Sequence[int | str]) -> None:
    """The credentials of a run template, in this order, instead of those it has.

    Raises:
        InvalidInput: one is not there, is another company's, or is named twice.
    """
    found = [_found(write, template, one) for one in given]
    faults = list(_faults(template, found, given))
    if faults:
        raise InvalidInput(faults)
    known = {one.credential_id: one for one in template.assignments}
    assigned = [
        known.get(one.id) or TemplateCredential(credential=one, credential_id=one.id)
        for one in found
        if one is not None
    ]
    for position, one in enumerate(assigned):
        one.position = position
    template.assignments = assigned


def _found(write: Write, template: RunTemplate, given: int | str) -> Credential | None:
    if isinstance(given, int):
        found = write.session.get(Credential, given)
    else:
        found = queries.credential_named(write.session, template.company.id, given)
    if found is None or found.retired_at is not None:
        return None
    return found if see(write.who, "companies", found.company_id) else None


def _faults(
    template: RunTemplate, found: Sequence[Credential | None], given: Sequence[int | str]
) -> Iterator[Fault]:
    seen = set[int]()
    for place, (one, said) in enumerate(zip(found, given, strict=True)):
        at = f"/credentials/{place}"
        if one is None:
            yield Fault(at, "reference", f"{template.company.slug} has no credential {said!r}")
        elif one.company_id != template.company.id:
            message = f"the credential {one.name} is not one of {template.company.slug}"
            yield Fault(at, "reference", message)
        elif one.id in seen:
            yield Fault(at, "duplicate", f"the credential {one.name} is named twice")
        else:
            seen.add(one.id)


def require_own(template: RunTemplate) -> None:
    """A run template that moved to another company must not take credentials along.

    Raises:
        InvalidInput: it has one of another company.
    """
    foreign = [one.credential for one in template.assignments]
    faults = [
        Fault("/credentials", "reference", f"the credential {one.name} is another company's")
        for one in foreign
        if one.company_id != template.company.id
    ]
    if faults:
        raise InvalidInput(faults)


def take_blocks(write: Write, template: RunTemplate, given: Sequence[BlockBody]) -> None:
    """The blocks of other people that a run template has.

    Raises:
        Forbidden: they change, and who asks may not name blocks.
        InvalidInput: a variable is none of the application.
    """
    blocks: list[dict[str, Any]] = [one.model_dump() for one in given]
    if blocks == (template.blocks or []):
        return
    if not write.who.rights.may(BLOCKS_PERMISSION, None):
        raise Forbidden(
            f"naming blocks of Prefect needs the permission {BLOCKS_PERMISSION}; "
            "ask an administrator"
        )
    rules = ValueRules(parse(template.app.document), write.settings.extra_env)
    faults = [
        fault
        for place, one in enumerate(given)
        for fault in rules.name_faults(one.env, f"/blocks/{place}/env")
    ]
    if faults:
        raise InvalidInput(faults)
    template.blocks = blocks


def assignment_warnings(write: Write, template: RunTemplate) -> list[Fault]:
    """What keeps jobs of a run template from starting, or from having all, by its credentials."""
    return [
        *requirement_warnings(write.session, template),
        *withheld_warnings(template, write.settings.extra_env),
    ]
