"""Calendars, and the companies and run templates that use them, by name."""

from collections.abc import Collection, Sequence

from sqlalchemy import Text, cast, select
from sqlalchemy.orm import Session, joinedload

from jobauto_prefect.ledger.records import Calendar, Company, RunTemplate

Keeper = Company | RunTemplate

NONE = "[]"
"""How databases store a record without any."""


def calendars_named(session: Session, names: Collection[str]) -> Sequence[Calendar]:
    if not names:
        return []
    query = select(Calendar).where(Calendar.name.in_(names), Calendar.retired_at.is_(None))
    return session.scalars(query.order_by(Calendar.name)).all()


def names_of(template: RunTemplate) -> set[str]:
    """Return the names of a run template's calendars, its own and its company's."""
    return {*template.calendars, *template.company.calendars}


def keepers_of(session: Session, name: str) -> list[Keeper]:
    """Return the companies and run templates that name a calendar."""
    companies = select(Company).where(
        Company.retired_at.is_(None), cast(Company.calendars, Text) != NONE
    )
    templates = select(RunTemplate).where(
        RunTemplate.retired_at.is_(None), cast(RunTemplate.calendars, Text) != NONE
    )
    keepers: list[Keeper] = [*session.scalars(companies.order_by(Company.id))]
    keepers += session.scalars(
        templates.order_by(RunTemplate.id).options(joinedload(RunTemplate.company))
    )
    return [keeper for keeper in keepers if name in keeper.calendars]
