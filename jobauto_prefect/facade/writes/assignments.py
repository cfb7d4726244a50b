"""The records of run templates, as responses show them."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, Field, StringConstraints

from jobauto_prefect.definitions.records.value_rules import ValueRules
from jobauto_prefect.errors import Fault, Forbidden, InvalidInput
from jobauto_prefect.facade.http.requests import Body
from jobauto_prefect.facade.writes.base import Id, Name, WriteRequest
from jobauto_prefect.jobs.claims.credentials import requirement_warnings, withheld_warnings
from jobauto_prefect.ledger.queries.credentials import credential_named
from jobauto_prefect.ledger.records import Credential, RunTemplate, TemplateCredential


class TemplateBlock(BaseModel):
    """A block of other people in Prefect, and which of its fields become variables."""

    block: str = Field(description="Slug of the type of a block in Prefect, a slash, and its name.")
    env: dict[str, str] = Field(
        description="Variable to field of the block; `a.b` is the field b of a."
    )


BLOCKS_PERMISSION = "system.config"
"""A block belongs to no company: whoever may name any could have the secrets of all."""


CredentialRef = Id | Name
"""The id of a credential, or its name within the run template's company."""


Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]


class BlockBody(Body):
    """A Prefect block of other people; `env` maps variables to its fields (`a.b` is b in a)."""

    record: ClassVar = TemplateBlock

    block: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,200}/[a-z0-9-]{1,200}$")]
    env: dict[Variable, Annotated[str, StringConstraints(min_length=1, max_length=200)]] = Field(
        min_length=1, max_length=100
    )


def apply_credentials(
    write: WriteRequest, template: RunTemplate, given: Sequence[int | str]
) -> None:
    """Replace the credentials of a run template by these, in this order.

    Raises:
        InvalidInput: one is not there, is another company's, or is named twice.
    """
    credentials = [_find_credential(write, template, reference) for reference in given]
    faults = list(_faults(template, credentials, given))
    if faults:
        raise InvalidInput(faults)
    assigned_before = {assignment.credential_id: assignment for assignment in template.assignments}
    assigned = [
        assigned_before.get(credential.id)
        or TemplateCredential(credential=credential, credential_id=credential.id)
        for credential in credentials
        if credential is not None
    ]
    for position, assignment in enumerate(assigned):
        assignment.position = position
    template.assignments = assigned


def _find_credential(
    write: WriteRequest, template: RunTemplate, given: int | str
) -> Credential | None:
    if isinstance(given, int):
        credential = write.session.get(Credential, given)
    else:
        credential = credential_named(write.session, template.company.id, given)
    if credential is None or credential.retired_at is not None:
        return None
    return credential if write.who.rights.may_read("companies", credential.company_id) else None


def _faults(
    template: RunTemplate, credentials: Sequence[Credential | None], given: Sequence[int | str]
) -> Iterator[Fault]:
    seen = set[int]()
    for place, (credential, reference) in enumerate(zip(credentials, given, strict=True)):
        at = f"/credentials/{place}"
        if credential is None:
            yield Fault(at, "reference", f"{template.company.slug} has no credential {reference!r}")
        elif credential.company_id != template.company.id:
            message = f"the credential {credential.name} is not one of {template.company.slug}"
            yield Fault(at, "reference", message)
        elif credential.id in seen:
            yield Fault(at, "duplicate", f"the credential {credential.name} is named twice")
        else:
            seen.add(credential.id)


def require_own_credentials(template: RunTemplate) -> None:
    """Refuse that a run template takes credentials along to another company.

    Raises:
        InvalidInput: it has one of another company.
    """
    foreign = [assignment.credential for assignment in template.assignments]
    faults = [
        Fault("/credentials", "reference", f"the credential {credential.name} is another company's")
        for credential in foreign
        if credential.company_id != template.company.id
    ]
    if faults:
        raise InvalidInput(faults)


def apply_blocks(write: WriteRequest, template: RunTemplate, given: Sequence[BlockBody]) -> None:
    """Replace the blocks of other people that a run template has.

    Raises:
        Forbidden: they change, and who asks may not name blocks.
        InvalidInput: a variable is none of the application.
    """
    blocks: list[dict[str, Any]] = [block.model_dump() for block in given]
    if blocks == (template.blocks or []):
        return
    if not write.who.rights.may(BLOCKS_PERMISSION, None):
        raise Forbidden(
            f"naming blocks of Prefect needs the permission {BLOCKS_PERMISSION}; "
            "ask an administrator"
        )
    rules = ValueRules(template.app.definition, write.settings.extra_env)
    faults = [
        fault
        for place, block in enumerate(given)
        for fault in rules.name_faults(block.env, f"/blocks/{place}/env")
    ]
    if faults:
        raise InvalidInput(faults)
    template.blocks = blocks


def assignment_warnings(write: WriteRequest, template: RunTemplate) -> list[Fault]:
    """Return what by its credentials keeps a template's jobs from starting, or from having all."""
    return [
        *requirement_warnings(write.session, template),
        *withheld_warnings(template, write.settings.extra_env),
    ]
