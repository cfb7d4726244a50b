"""Which of Prefect's objects are of some companies, and of some work pools."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Select, func, or_, select
from sqlalchemy.orm import Session

from jobauto_prefect.ledger.ownership import usable
from jobauto_prefect.ledger.records import App, RunTemplate


@dataclass(frozen=True, slots=True)
class Domain:
    """Run templates of these companies that run in these work pools; None: any.

    `default_pool` is the pool of templates that name none.
    """

    companies: frozenset[int] | None
    pools: frozenset[str] | None
    default_pool: str


def deployments(session: Session, domain: Domain) -> set[str]:
    """The ids of their deployments; of work pools also those of deleted run templates.

    Prefect has such a one until it is told. Workers end what runs of it. For people `flows` has
    lost its flow already: programs that look up the flow of each deployment would fail.
    """
    found = _of(domain, RunTemplate.deployment_id)
    if domain.pools is None:
        found = found.where(RunTemplate.retired_at.is_(None))
    return {str(deployment_id) for deployment_id in session.scalars(found)}


def deployments_by_flow(session: Session, domain: Domain) -> dict[str, int]:
    """Flow id -> the number of their deployments of it."""
    joined = select(App.flow_id, func.count()).select_from(RunTemplate).join(App)
    found = _narrowed(domain, joined).where(RunTemplate.deployment_id.is_not(None))
    found = found.group_by(App.flow_id)
    return {str(flow): count for flow, count in session.execute(found)}


def pools(session: Session, domain: Domain) -> set[str]:
    """The names of their work pools."""
    return set(session.scalars(_of(domain, _pool(domain)).distinct()))


def has_flow(session: Session, domain: Domain, flow_id: UUID) -> bool:
    """Whether its application is shared or of these companies; of work pools: is run there.

    That of a deleted application is there for those who have run it.
    """
    return session.scalar(_flows(domain).where(App.flow_id == flow_id).limit(1)) is not None


def flows(session: Session, domain: Domain) -> set[str]:
    """The ids of the flows of which `has_flow` is true, without those of deleted applications."""
    found = _flows(domain).where(App.retired_at.is_(None))
    return {str(flow_id) for flow_id in session.scalars(found)}


def runs_application(session: Session, domain: Domain, app_id: int) -> bool:
    """Whether one of their run templates, retired ones included, is of this application."""
    found = _narrowed(domain, select(RunTemplate.id)).where(RunTemplate.app_id == app_id)
    return session.scalar(found.limit(1)) is not None


def _flows(domain: Domain) -> Select[Any]:
    found = select(App.flow_id).where(App.flow_id.is_not(None))
    if domain.pools is not None:
        found = found.where(App.id.in_(_of(domain, RunTemplate.app_id)))
    elif domain.companies is not None:
        was_run = App.id.in_(_narrowed(domain, select(RunTemplate.app_id)))
        found = found.where(usable(App, domain.companies), or_(App.retired_at.is_(None), was_run))
    return found


def template_of(session: Session, domain: Domain, deployment_id: UUID) -> tuple[int, int] | None:
    """Its template's and company's id, where a deployment is one of theirs, retired ones included.

    None: it is not.
    """
    found = _narrowed(domain, select(RunTemplate.id, RunTemplate.company_id)).where(
        RunTemplate.deployment_id == deployment_id
    )
    row = session.execute(found).first()
    return (row[0], row[1]) if row else None


def _of(domain: Domain, column: Any) -> Select[Any]:
    found = _narrowed(domain, select(column))
    return found.where(RunTemplate.deployment_id.is_not(None))


def _narrowed(domain: Domain, found: Select[Any]) -> Select[Any]:
    if domain.companies is not None:
        found = found.where(RunTemplate.company_id.in_(domain.companies))
    if domain.pools is not None:
        found = found.where(_pool(domain).in_(domain.pools))
    return found


def _pool(domain: Domain) -> ColumnElement[str]:
    return func.coalesce(RunTemplate.pool, domain.default_pool)
