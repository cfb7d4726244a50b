"""Questions about credentials, their types, and the run templates that have them."""

from collections.abc import Iterable, Sequence

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session, joinedload

from jobauto_prefect.ledger.ownership import usable
from jobauto_prefect.ledger.records import (
    Credential,
    CredentialType,
    RunTemplate,
    TemplateCredential,
    Wish,
)
from jobauto_prefect.ledger.wishes import WishKind


def codes_known(session: Session, codes: Iterable[str], company_id: int | None) -> set[str]:
    """Those of the codes, in lower case, that active credential types bear in any case.

    Looked at are the types of a company and the shared ones; None: the shared ones only.
    """
    wanted = sorted({code.lower() for code in codes})
    if not wanted:
        return set()
    found = select(func.lower(CredentialType.code)).where(
        func.lower(CredentialType.code).in_(wanted),
        usable(CredentialType, () if company_id is None else (company_id,)),
        CredentialType.retired_at.is_(None),
    )
    return set(session.scalars(found))


def codes_checked(session: Session, codes: Iterable[str], company_id: int) -> set[str]:
    """Those of the codes, in lower case, of types that jobs of a company need a credential of.

    A type that came with the first start counts once the company has a credential of it: until then
    nobody has said that its applications get their values that way.
    """
    wanted = sorted({code.lower() for code in codes})
    used = select(Credential.id).where(
        Credential.credential_type_id == CredentialType.id,
        Credential.company_id == company_id,
        Credential.retired_at.is_(None),
    )
    found = select(func.lower(CredentialType.code)).where(
        func.lower(CredentialType.code).in_(wanted),
        usable(CredentialType, (company_id,)),
        CredentialType.retired_at.is_(None),
        or_(CredentialType.stock.is_(False), used.exists()),
    )
    return set(session.scalars(found)) if wanted else set()


def credentials_of_type(session: Session, type_id: int) -> Sequence[Credential]:
    """The active credentials of a type, in the order of their ids."""
    found = select(Credential).where(
        Credential.credential_type_id == type_id, Credential.retired_at.is_(None)
    )
    return session.scalars(found.order_by(Credential.id)).all()


def credentials_of_company(session: Session, company_id: int) -> Sequence[Credential]:
    """The active credentials of a company, in the order of their ids."""
    found = select(Credential).where(
        Credential.company_id == company_id, Credential.retired_at.is_(None)
    )
    return session.scalars(found.order_by(Credential.id)).all()


def templates_with(session: Session, credential_ids: Iterable[int]) -> Sequence[RunTemplate]:
    """The active run templates that have one of the credentials, in the order of their ids."""
    assigned = select(TemplateCredential.runtemplate_id).where(
        TemplateCredential.credential_id.in_(list(credential_ids))
    )
    found = select(RunTemplate).where(
        RunTemplate.id.in_(assigned), RunTemplate.retired_at.is_(None)
    )
    return session.scalars(found.order_by(RunTemplate.id)).all()


def all_credentials(session: Session) -> Sequence[Credential]:
    """The active credentials with type and company, in the order of their ids."""
    context = (joinedload(Credential.credential_type), joinedload(Credential.company))
    found = select(Credential).where(Credential.retired_at.is_(None)).options(*context)
    return session.scalars(found.order_by(Credential.id)).all()


def wished_for(session: Session, kind: WishKind) -> set[int]:
    """The subjects for which something is wished that is not done yet."""
    return set(session.scalars(select(Wish.subject_id).where(Wish.kind == kind)))
