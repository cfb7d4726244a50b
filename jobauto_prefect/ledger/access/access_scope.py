"""Which of Prefect's objects belong to given companies and work pools."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Select, func, or_, select
from sqlalchemy.orm import Session

from jobauto_prefect.ledger.access.ownership import usable
from jobauto_prefect.ledger.records import App, RunTemplate, WorkerRecord


@dataclass(frozen=True, slots=True)
class AccessScope:
    """Run templates of these companies that run in these work pools; None: any.

    `default_pool` is the pool of templates that name none.
    """

    companies: frozenset[int] | None
    pools: frozenset[str] | None
    default_pool: str


def deployments(session: Session, scope: AccessScope) -> set[str]:
    """Return the ids of a scope's deployments; for work pools including deleted templates.

    Prefect keeps such a deployment until the services delete it, and workers must end its runs. For
    people `flows` has already dropped its flow: programs that look up the flow of each deployment
    would fail.
    """
    query = _of(scope, RunTemplate.deployment_id)
    if scope.pools is None:
        query = query.where(RunTemplate.retired_at.is_(None))
    return {str(deployment_id) for deployment_id in session.scalars(query)}


def deployments_by_flow(session: Session, scope: AccessScope) -> dict[str, int]:
    """Return flow id -> the number of its deployments in a scope."""
    joined = select(App.flow_id, func.count()).select_from(RunTemplate).join(App)
    query = _narrowed(scope, joined).where(RunTemplate.deployment_id.is_not(None))
    query = query.group_by(App.flow_id)
    return {str(flow): count for flow, count in session.execute(query)}


def pools(session: Session, scope: AccessScope) -> set[str]:
    """Return the names of a scope's work pools."""
    return set(session.scalars(_of(scope, _pool(scope)).distinct()))


def worker_names(session: Session, scope: AccessScope) -> set[str]:
    """Return the names of the workers that registered for a scope's work pools."""
    query = select(WorkerRecord.name).where(WorkerRecord.pool.in_(scope.pools or ()))
    return set(session.scalars(query))


def has_flow(session: Session, scope: AccessScope, flow_id: UUID) -> bool:
    """Whether the flow's application is shared or of these companies; for work pools: is run there.

    The flow of a deleted application stays visible to companies that have run it.
    """
    return session.scalar(_flows(scope).where(App.flow_id == flow_id).limit(1)) is not None


def flows(session: Session, scope: AccessScope) -> set[str]:
    """Return the flows that `has_flow` accepts, without those of deleted applications."""
    query = _flows(scope).where(App.retired_at.is_(None))
    return {str(flow_id) for flow_id in session.scalars(query)}


def runs_application(session: Session, scope: AccessScope, app_id: int) -> bool:
    """Whether a run template in the scope, retired or not, is of this application."""
    query = _narrowed(scope, select(RunTemplate.id)).where(RunTemplate.app_id == app_id)
    return session.scalar(query.limit(1)) is not None


def _flows(scope: AccessScope) -> Select[Any]:
    query = select(App.flow_id).where(App.flow_id.is_not(None))
    if scope.pools is not None:
        query = query.where(App.id.in_(_of(scope, RunTemplate.app_id)))
    elif scope.companies is not None:
        was_run = App.id.in_(_narrowed(scope, select(RunTemplate.app_id)))
        query = query.where(usable(App, scope.companies), or_(App.retired_at.is_(None), was_run))
    return query


def template_of(
    session: Session, scope: AccessScope, deployment_id: UUID
) -> tuple[int, int] | None:
    """Return template and company id of a deployment in the scope, retired ones included.

    None: it is outside the scope.
    """
    query = _narrowed(scope, select(RunTemplate.id, RunTemplate.company_id)).where(
        RunTemplate.deployment_id == deployment_id
    )
    row = session.execute(query).first()
    return (row[0], row[1]) if row else None


def _of(scope: AccessScope, column: Any) -> Select[Any]:
    query = _narrowed(scope, select(column))
    return query.where(RunTemplate.deployment_id.is_not(None))


def _narrowed(scope: AccessScope, query: Select[Any]) -> Select[Any]:
    if scope.companies is not None:
        query = query.where(RunTemplate.company_id.in_(scope.companies))
    if scope.pools is not None:
        query = query.where(_pool(scope).in_(scope.pools))
    return query


def _pool(scope: AccessScope) -> ColumnElement[str]:
    return func.coalesce(RunTemplate.pool, scope.default_pool)
