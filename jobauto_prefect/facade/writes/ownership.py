"""The owner of an application, credential type or topic in writes."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import Field

from jobauto_prefect.errors import Conflict, Fault, Forbidden, InvalidInput
from jobauto_prefect.facade.writes.base import (
    CompanySlug,
    LabelledBody,
    Ref,
    WriteRequest,
    resolve_company,
)
from jobauto_prefect.ledger.access.ownership import (
    OwnedRecord,
    is_usable,
    lock_for_owner,
    lock_for_use,
    users_of,
)
from jobauto_prefect.ledger.base import noun_of
from jobauto_prefect.ledger.records import App, Company, CredentialType, Topic

D = TypeVar("D", App, CredentialType, Topic)

PERMISSIONS = "applications"
"""The prefix of the permissions on definitions."""

NOUNS: Mapping[type[Any], str] = {
    App: "application",
    CredentialType: "credential type",
    Topic: "topic",
}


class OwnedBody(LabelledBody):
    """Base of the bodies of records that are shared or belong to one company."""

    company_id: Ref | None = Field(
        default=None,
        description="The company it belongs to; only this company's run templates can use it. "
        "null: it is shared. Only system-wide roles can change this.",
    )
    company: CompanySlug = None


OWNER = frozenset(OwnedBody.model_fields) - frozenset(LabelledBody.model_fields)
"""The fields that name a record's owner."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner that a request gives a record; `is_said` False: it names none.

    `company` None with `is_said`: the record is shared.
    """

    is_said: bool
    company: Company | None

    @property
    def company_id(self) -> int | None:
        """The id of the company; None: shared."""
        return self.company.id if self.company else None


def resolve_owner(write: WriteRequest, body: OwnedBody) -> Owner:
    """Return the owner that a body names.

    Raises:
        InvalidInput: there is no such company, or the user may not see it.
    """
    owner_fields = OWNER & body.model_fields_set
    return Owner(bool(owner_fields), resolve_company(write, body.company_id, body.company))


def may_change_shared(write: WriteRequest) -> bool:
    """Whether the user may change what belongs to no company."""
    return write.who.rights.may(f"{PERMISSIONS}.update", None)


def authorize_visible(write: WriteRequest, record: D | None) -> D | None:
    """Return a record that was looked up by its uuid, if the user may update it.

    None: there is none, or the user may not see it; the two are not distinguishable.

    Raises:
        Forbidden: the user may see it, but not change it.
    """
    if record is None or not write.who.rights.may_read(PERMISSIONS, record.company_id):
        return None
    return write.authorize_update(record, PERMISSIONS)


def select_named(write: WriteRequest, owner: Owner, namesakes: Sequence[D]) -> D | None:
    """Return the record that is meant among those with one name or code, if the user may update it.

    It is the given owner's. Without an owner, it is one of the user's own companies', else the
    shared one: never another company's. None if there is neither.

    Raises:
        Conflict: several of the user's companies have one.
        Forbidden: the user may see it, but not change it.
    """
    if owner.is_said:
        meant = _owned_by(namesakes, owner.company_id)
    else:
        companies = write.who.rights.companies_with(f"{PERMISSIONS}.read") or frozenset()
        own = [record for record in namesakes if record.company_id in companies]
        if len({record.company_id for record in own}) > 1:
            raise Conflict("several of your companies have one of this name; set company_id")
        meant = own[0] if own else _owned_by(namesakes, None)
    return write.authorize_update(meant, PERMISSIONS) if meant is not None else None


def _owned_by(records: Sequence[D], company_id: int | None) -> D | None:
    return next((record for record in records if record.company_id == company_id), None)


Others = Callable[[WriteRequest, D, Owner], list[str]]
"""Returns what uses a record and could not with its new owner."""


def _other_companies(write: WriteRequest, record: Any, owner: Owner) -> list[str]:
    others = users_of(write.session, record) - {owner.company_id}
    return [f"company {number}" for number in sorted(filter(None, others))]


def apply_owner(
    write: WriteRequest, record: D, owner: Owner, others: Others[D] = _other_companies
) -> bool:
    """Give a record the owner that a request names; return whether it changed.

    Raises:
        Conflict: it was looked up by its uuid and belongs to another owner, or others use it.
        Forbidden: the user has no system-wide role.
    """
    if not owner.is_said or owner.company_id == record.company_id:
        return False
    if record.id is not None:
        _require_movable(write, record, owner, others)
    record.company_id = owner.company_id
    return True


def _require_movable(write: WriteRequest, record: D, owner: Owner, others: Others[D]) -> None:
    words = NOUNS[type(record)]
    if write.record_id is None:
        raise Conflict(
            f"the {words} with this uuid is {record.id} and has another company_id; "
            f"to change that, use its id: POST /{record.__tablename__}/{record.id}.json"
        )
    require_administrator(write, record, {"company_id"})
    lock_for_owner(write.session, record)
    named = ", ".join(others(write, record, owner))
    if owner.company is not None and named:
        raise Conflict(f"the {words} is used by others, retired records included: {named}")


def require_administrator(
    write: WriteRequest, record: OwnedRecord, changed: Collection[str]
) -> None:
    """Require a system-wide role to change what identifies a definition.

    Raises:
        Forbidden: the user has no such role.
    """
    if changed and not may_change_shared(write):
        raise Forbidden(
            f"{', '.join(sorted(changed))} of a {NOUNS[type(record)]} can only be changed by "
            "administrators; leave it as it is"
        )


def authorize_definition(write: WriteRequest, owner: Owner) -> None:
    """Require the permission to create a definition of that owner.

    Raises:
        Forbidden: the user lacks it.
    """
    write.who.rights.require(PERMISSIONS, "create", owner.company_id)


def namesake_warnings(write: WriteRequest, record: D, namesakes: Sequence[D]) -> list[Fault]:
    """Return a warning if others have a definition of the same name: one of these may be meant."""
    others = [other for other in namesakes if other is not record and may_change_shared(write)]
    named = ", ".join(f"{noun_of(other)} {other.id}" for other in others)
    message = f"others have the same name: {named}; to change one of these, use its id"
    return [Fault("/company_id", "namesake", message)] if others else []


def require_visible_definition(
    write: WriteRequest, definition: D | None, pointer: str, message: str
) -> D:
    """Return a definition that a body refers to.

    Raises:
        InvalidInput: there is none, or the user may not see it.
    """
    if definition is None or definition.retired_at is not None or not _can_read(write, definition):
        raise InvalidInput([Fault(pointer, "reference", message)])
    return definition


def _can_read(write: WriteRequest, record: OwnedRecord) -> bool:
    return write.who.rights.may_read(PERMISSIONS, record.company_id)


def require_accessible(
    write: WriteRequest, definition: OwnedRecord, company: Company, pointer: str
) -> None:
    """Require that a company may use a definition; lock its owner until the write is done.

    Raises:
        InvalidInput: it belongs to another company.
    """
    lock_for_use(write.session, definition)
    if is_usable(definition, company.id):
        return
    message = f"there is no {noun_of(definition)} {definition.id}"
    if _can_read(write, definition):
        message += f" for {company.slug}: it belongs to another company"
    raise InvalidInput([Fault(pointer, "reference", message)])
