"""Credentials and Prefect blocks assigned to run templates."""

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
from jobauto_prefect.text_patterns import matching


class TemplateBlock(BaseModel):
    """A Prefect block that the service does not manage, and its fields that become variables."""

    block: str = Field(description="Slug of the block's type, a slash, and the block's name.")
    env: dict[str, str] = Field(
        description="Each key is a variable, its value the name of a field of the block; `a.b` is "
        "the field b of a."
    )


BLOCKS_PERMISSION = "system.config"
"""A block belongs to no company: naming one gives access to any company's secrets."""


CredentialRef = Id | Name
"""The id of a credential, or its name within the run template's company."""


Variable = Annotated[
    str,
    matching(
        r"^[A-Za-z_][A-Za-z0-9_]{0,127}$",
        "must be up to 128 letters, digits and _, and not begin with a digit",
    ),
]


class BlockBody(Body):
    """A Prefect block that the service does not manage; `env` maps variables to fields of the block
    (`a.b` is the field b of a).
    """

    record: ClassVar = TemplateBlock

    block: Annotated[
        str,
        matching(
            r"^[a-z0-9-]{1,200}/[a-z0-9-]{1,200}$",
            "must be the type and the name of a block, such as secret/bank",
        ),
    ]
    env: dict[Variable, Annotated[str, StringConstraints(min_length=1, max_length=200)]] = Field(
        min_length=1, max_length=100
    )


def apply_credentials(
    write: WriteRequest, template: RunTemplate, given: Sequence[int | str]
) -> None:
    """Replace the credentials of a run template, in the given order.

    Raises:
        InvalidInput: one does not exist, belongs to another company, or is named twice.
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
            message = f"the credential {credential.name} does not belong to {template.company.slug}"
            yield Fault(at, "reference", message)
        elif credential.id in seen:
            yield Fault(
                at, "duplicate", f"the credential {credential.name} is named twice; name it once"
            )
        else:
            seen.add(credential.id)


def require_own_credentials(template: RunTemplate) -> None:
    """Refuse to move a run template with credentials of its former company.

    Raises:
        InvalidInput: it has one of another company.
    """
    foreign = [assignment.credential for assignment in template.assignments]
    faults = [
        Fault(
            "/credentials",
            "reference",
            f"the credential {credential.name} belongs to another company",
        )
        for credential in foreign
        if credential.company_id != template.company.id
    ]
    if faults:
        raise InvalidInput(faults)


def apply_blocks(write: WriteRequest, template: RunTemplate, given: Sequence[BlockBody]) -> None:
    """Replace the Prefect blocks of a run template.

    Raises:
        Forbidden: they change, and the user may not name blocks.
        InvalidInput: the application does not declare a variable.
    """
    blocks: list[dict[str, Any]] = [block.model_dump() for block in given]
    if blocks == (template.blocks or []):
        return
    if not write.who.rights.may(BLOCKS_PERMISSION, None):
        raise Forbidden(
            f"naming Prefect blocks needs the permission {BLOCKS_PERMISSION}; ask an administrator"
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
    """Return warnings about credentials that keep jobs from starting or from getting all values."""
    return [
        *requirement_warnings(write.session, template),
        *withheld_warnings(template, write.settings.extra_env),
    ]
