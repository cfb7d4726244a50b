"""Queries about run templates."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Select, func, or_, select
from sqlalchemy.orm import Session, joinedload, lazyload, selectinload

from jobauto_prefect.errors import NotFound
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.base import Base, can_hold, noun_of
from jobauto_prefect.ledger.records import (
    App,
    Company,
    Credential,
    Job,
    RunTemplate,
    TemplateCredential,
)
from jobauto_prefect.ledger.states import FAILED_JOBS, SUCCESSFUL_JOBS, JobState


def templates_of_app(session: Session, app_id: int) -> Sequence[RunTemplate]:
    """Return the run templates of an application, in the order of their ids."""
    query = (
        select(RunTemplate)
        .where(RunTemplate.app_id == app_id, RunTemplate.retired_at.is_(None))
        .order_by(RunTemplate.id)
    )
    return session.scalars(query).all()


def templates_of_company(session: Session, company_id: int) -> Sequence[RunTemplate]:
    """Return the run templates of a company, in the order of their ids."""
    query = (
        select(RunTemplate)
        .where(RunTemplate.company_id == company_id, RunTemplate.retired_at.is_(None))
        .order_by(RunTemplate.id)
    )
    return session.scalars(query).all()


_UNDER: Mapping[type[Base], Callable[[Session, Any], Sequence[RunTemplate]]] = {
    App: lambda session, app: templates_of_app(session, app.id),
    Company: lambda session, company: templates_of_company(session, company.id),
    RunTemplate: lambda _, template: [template],
}


def templates_under(session: Session, record: App | Company | RunTemplate) -> Sequence[RunTemplate]:
    return _UNDER[type(record)](session, record)


def template_paths(session: Session, companies: Collection[int] | None) -> dict[int, str]:
    """Return the run templates of companies (None: of all) as `company/name`, by their ids."""
    query = (
        select(RunTemplate.id, Company.slug, RunTemplate.name)
        .join(Company)
        .where(RunTemplate.retired_at.is_(None))
        .order_by(Company.slug, RunTemplate.name)
    )
    if companies is not None:
        query = query.where(RunTemplate.company_id.in_(companies))
    return {template_id: f"{slug}/{name}" for template_id, slug, name in session.execute(query)}


def template_with_context(session: Session, template_id: int) -> RunTemplate:
    """Return a run template with application and company, in one query.

    Raises:
        NotFound: it does not exist.
    """
    query = (
        select(RunTemplate)
        .where(RunTemplate.id == template_id, RunTemplate.retired_at.is_(None))
        .options(
            joinedload(RunTemplate.app),
            joinedload(RunTemplate.company),
            lazyload(RunTemplate.assignments),
        )
    )
    template = session.scalar(query) if _is_id(template_id) else None
    if template is None:
        raise NotFound(f"there is no {noun_of(RunTemplate)} {template_id}")
    return template


def _is_id(number: int) -> bool:
    return can_hold(RunTemplate.__table__.c.id, number)


def templates_alone(session: Session, ids: Collection[int]) -> Sequence[RunTemplate]:
    """Return run templates, deleted ones too, without the records they refer to."""
    return session.scalars(_alone(ids)).all()


def _alone(ids: Collection[int]) -> Select[tuple[RunTemplate]]:
    query = select(RunTemplate).where(RunTemplate.id.in_(ids))
    return query.options(lazyload(RunTemplate.assignments))


def lock_templates(session: WritingSession, ids: Collection[int]) -> Sequence[RunTemplate]:
    """Lock run templates, and return them like `templates_alone`.

    Jobs can be inserted meanwhile: the locks are `key_share`.
    """
    query = _alone(ids).order_by(RunTemplate.id)
    return session.scalars(query.with_for_update(key_share=True, of=RunTemplate)).all()


def templates_with_context(
    session: Session,
    companies: Collection[int] | None,
    among: Collection[int] | None = None,
) -> Sequence[RunTemplate]:
    """Return run templates with application and company, by id.

    `companies` None: of all companies; `among` None: among all.
    """
    query = (
        select(RunTemplate)
        .where(RunTemplate.retired_at.is_(None))
        .options(
            joinedload(RunTemplate.app),
            joinedload(RunTemplate.company),
            selectinload(RunTemplate.assignments)
            .joinedload(TemplateCredential.credential)
            .joinedload(Credential.credential_type),
        )
        .order_by(RunTemplate.id)
    )
    if companies is not None:
        query = query.where(RunTemplate.company_id.in_(companies))
    if among is not None:
        query = query.where(RunTemplate.id.in_(number for number in among if _is_id(number)))
    return session.scalars(query).all()


def pools_of_templates(session: Session, companies: Collection[int] | None) -> set[str | None]:
    """Return the pools that active run templates name; None: of those that name none.

    `companies` None: of all.
    """
    query = select(RunTemplate.pool).where(
        RunTemplate.retired_at.is_(None), RunTemplate.active.is_(True)
    )
    if companies is not None:
        query = query.where(RunTemplate.company_id.in_(companies))
    return set(session.scalars(query.distinct()))


def executors_used(session: Session, pool: str, default_pool: str) -> set[str]:
    """Return the executors that active run templates of a work pool use."""
    named = or_(RunTemplate.pool == pool, RunTemplate.pool.is_(None) & (default_pool == pool))
    query = select(RunTemplate.executor).where(
        RunTemplate.retired_at.is_(None), RunTemplate.active.is_(True), named
    )
    return set(session.scalars(query.distinct()))


def deployments_of_ours(session: Session, deployment_ids: Collection[UUID]) -> set[UUID]:
    """Return those of these deployments that belong to run templates, retired ones included."""
    column = RunTemplate.deployment_id
    return {
        deployment_id
        for deployment_id in session.scalars(select(column).where(column.in_(deployment_ids)))
        if deployment_id
    }


@dataclass(slots=True)
class TemplateWork:
    """How many jobs of a run template succeeded and failed, and when the last one was due."""

    succeeded: int = 0
    failed: int = 0
    last_schedule: datetime | None = None


def work_of_templates(session: Session, ids: Collection[int]) -> dict[int, TemplateWork]:
    """Return the results of these run templates, in one query that uses an index."""
    rows = session.execute(
        select(Job.runtemplate_id, Job.state, func.count(), func.max(Job.schedule))
        .where(Job.runtemplate_id.in_(ids), Job.retired_at.is_(None))
        .group_by(Job.runtemplate_id, Job.state)
    )
    by_template = {template_id: TemplateWork() for template_id in ids}
    for template_id, state, number, due in rows:
        work = by_template[template_id]
        work.succeeded += number if state in SUCCESSFUL_JOBS else 0
        work.failed += number if state in FAILED_JOBS else 0
        if state != JobState.SCHEDULED:
            work.last_schedule = max(due, work.last_schedule or due)
    return by_template
