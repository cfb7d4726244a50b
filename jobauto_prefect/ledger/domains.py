"""Which of Prefect's objects are of some companies, and of some work pools."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import Session

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
    """The ids of their deployments."""
    return {str(one) for one in session.scalars(_of(domain, RunTemplate.deployment_id))}


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
    """Whether one of them runs this flow."""
    found = _of(domain, RunTemplate.id).join(App).where(App.flow_id == flow_id).limit(1)
    return session.scalar(found) is not None


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
