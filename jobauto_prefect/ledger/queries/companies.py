"""Queries about companies and their members."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from jobauto_prefect.ledger.records import Company, CompanyUser


def all_companies(session: Session) -> Sequence[Company]:
    """Return all companies, in the order of their ids."""
    return session.scalars(
        select(Company).where(Company.retired_at.is_(None)).order_by(Company.id)
    ).all()


def company_slugs(session: Session) -> dict[int | None, str]:
    """Return the slugs of all companies, retired ones included, by their numbers."""
    return {company.id: company.slug for company in session.scalars(select(Company))}


def companies_named(session: Session, name: str) -> Sequence[Company]:
    """Return the companies with that name, by id."""
    query = select(Company).where(Company.name == name, Company.retired_at.is_(None))
    return session.scalars(query.order_by(Company.id)).all()


def memberships_of(session: Session, user_id: int) -> Sequence[tuple[Company, str]]:
    """Return the companies of a user with the role in each, by name."""
    query = (
        select(Company, CompanyUser.role)
        .join(CompanyUser, CompanyUser.company_id == Company.id)
        .where(CompanyUser.user_id == user_id, Company.retired_at.is_(None))
        .order_by(Company.name, Company.id)
    )
    return [(row[0], row[1]) for row in session.execute(query)]


def members_of(session: Session, company_id: int) -> Sequence[CompanyUser]:
    """Return the memberships of a company, in the order of their ids."""
    return session.scalars(
        select(CompanyUser).where(CompanyUser.company_id == company_id).order_by(CompanyUser.id)
    ).all()
