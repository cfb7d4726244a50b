"""Queries about credentials, their types, and the run templates that use them."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import Select, func, or_, select
from sqlalchemy.orm import Session, joinedload

from jobauto_prefect.ledger.access.ownership import own_first, usable
from jobauto_prefect.ledger.outbox import OutboxKind, pending_subjects
from jobauto_prefect.ledger.records import (
    Credential,
    CredentialType,
    RunTemplate,
    TemplateCredential,
)


def codes_known(session: Session, codes: Iterable[str], company_id: int | None) -> set[str]:
    """Return those of the codes, in lower case, that an active credential type has, in any case.

    The types of a company and the shared ones count; None: only the shared ones.
    """
    wanted = sorted({code.lower() for code in codes})
    if not wanted:
        return set()
    query = select(func.lower(CredentialType.code)).where(
        func.lower(CredentialType.code).in_(wanted),
        usable(CredentialType, () if company_id is None else (company_id,)),
        CredentialType.retired_at.is_(None),
    )
    return set(session.scalars(query))


def codes_checked(session: Session, codes: Iterable[str], company_id: int) -> set[str]:
    """Return those of the codes, in lower case, for which a company's jobs need a credential.

    A type created at the first start counts once the company has a credential of it: until then its
    applications may get their values another way.
    """
    wanted = sorted({code.lower() for code in codes})
    used = select(Credential.id).where(
        Credential.credential_type_id == CredentialType.id,
        Credential.company_id == company_id,
        Credential.retired_at.is_(None),
    )
    query = select(func.lower(CredentialType.code)).where(
        func.lower(CredentialType.code).in_(wanted),
        usable(CredentialType, (company_id,)),
        CredentialType.retired_at.is_(None),
        or_(CredentialType.stock.is_(False), used.exists()),
    )
    return set(session.scalars(query)) if wanted else set()


def credentials_of_type(session: Session, type_id: int) -> Sequence[Credential]:
    """Return the active credentials of a type, in the order of their ids."""
    query = select(Credential).where(
        Credential.credential_type_id == type_id, Credential.retired_at.is_(None)
    )
    return session.scalars(query.order_by(Credential.id)).all()


def credentials_of_company(session: Session, company_id: int) -> Sequence[Credential]:
    """Return the active credentials of a company, in the order of their ids."""
    query = select(Credential).where(
        Credential.company_id == company_id, Credential.retired_at.is_(None)
    )
    return session.scalars(query.order_by(Credential.id)).all()


def templates_with(session: Session, credential_id: int) -> Sequence[RunTemplate]:
    """Return the active run templates that have a credential, by id."""
    assigned = select(TemplateCredential.runtemplate_id).where(
        TemplateCredential.credential_id == credential_id
    )
    query = select(RunTemplate).where(
        RunTemplate.id.in_(assigned), RunTemplate.retired_at.is_(None)
    )
    return session.scalars(query.order_by(RunTemplate.id)).all()


def applied_credentials(
    session: Session, after_id: int, limit: int, among: Collection[int] | None = None
) -> Sequence[Credential]:
    """Return active credentials above an id that have a block, with type and company, by id.

    Those with pending messages are left out. `among` None: all count.
    """
    context = (joinedload(Credential.credential_type), joinedload(Credential.company))
    applied = (
        select(Credential)
        .where(
            Credential.id > after_id,
            Credential.retired_at.is_(None),
            Credential.block_document_id.is_not(None),
            Credential.id.not_in(pending_subjects(OutboxKind.APPLY_CREDENTIAL)),
        )
        .options(*context)
        .order_by(Credential.id)
        .limit(limit)
    )
    if among is not None:
        applied = applied.where(Credential.id.in_(among))
    return session.scalars(applied).all()


def applied_types(
    session: Session, after_id: int, limit: int, among: Collection[int] | None = None
) -> Sequence[CredentialType]:
    """Return credential types above an id that have a block type, like `applied_credentials`."""
    applied = select(CredentialType).where(
        CredentialType.id > after_id,
        CredentialType.retired_at.is_(None),
        CredentialType.block_type_id.is_not(None),
        CredentialType.id.not_in(pending_subjects(OutboxKind.APPLY_CREDENTIAL_TYPE)),
    )
    if among is not None:
        applied = applied.where(CredentialType.id.in_(among))
    return session.scalars(applied.order_by(CredentialType.id).limit(limit)).all()


def all_credential_types(session: Session) -> Sequence[CredentialType]:
    """Return all credential types, in the order of their ids."""
    return session.scalars(
        select(CredentialType)
        .where(CredentialType.retired_at.is_(None))
        .order_by(CredentialType.id)
    ).all()


def credential_type_with_uuid(session: Session, uuid: str) -> CredentialType | None:
    """Return the credential type with that uuid, in any case; None if there is none."""
    return session.scalars(_types(CredentialType.uuid, uuid)).first()


def credential_types_coded(session: Session, code: str) -> Sequence[CredentialType]:
    """Return the credential types with that code, in any case of all owners, by id."""
    return session.scalars(_types(CredentialType.code, code)).all()


def credential_type_usable_as(
    session: Session, code: str, company_id: int
) -> CredentialType | None:
    """Return the credential type that a code means in a company, in any case, or None.

    The company's own type takes precedence over the shared one.
    """
    query = _types(CredentialType.code, code).where(usable(CredentialType, (company_id,)))
    return session.scalars(query.order_by(None).order_by(*own_first(CredentialType))).first()


def _types(column: Any, value: str) -> Select[tuple[CredentialType]]:
    return (
        select(CredentialType)
        .where(func.lower(column) == value.lower(), CredentialType.retired_at.is_(None))
        .order_by(CredentialType.id)
    )


def credential_named(session: Session, company_id: int, name: str) -> Credential | None:
    """Return the credential of that name in a company; None if there is none."""
    return session.scalar(
        select(Credential).where(
            Credential.company_id == company_id,
            Credential.name == name,
            Credential.retired_at.is_(None),
        )
    )
