"""Questions to the ledger that have a name."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import Select, func, inspect, or_, select
from sqlalchemy.orm import Session, joinedload, lazyload, selectinload

from jobauto_prefect.errors import NotFound
from jobauto_prefect.ledger.base import Base, holds
from jobauto_prefect.ledger.ownership import own_first, usable
from jobauto_prefect.ledger.records import (
    App,
    AppVersion,
    Artifact,
    Company,
    CompanyUser,
    Credential,
    CredentialType,
    EventRule,
    EventSource,
    Job,
    Lease,
    OutputLine,
    RunTemplate,
    TemplateCredential,
    Token,
    Topic,
    User,
    UserRole,
    Wish,
)
from jobauto_prefect.ledger.states import FAILED_JOBS, SUCCESSFUL_JOBS, JobState

_CONTEXT = (
    joinedload(Job.runtemplate).joinedload(RunTemplate.app),
    joinedload(Job.runtemplate).joinedload(RunTemplate.company),
    joinedload(Job.task),
)

WITH_CONTEXT = (*_CONTEXT, joinedload(Job.runtemplate).lazyload(RunTemplate.assignments))
"""For what looks at one job; its credentials are read where they are asked for."""

WITH_CREDENTIALS = (*_CONTEXT, joinedload(Job.runtemplate).joinedload(RunTemplate.assignments))
"""For what starts one job; its rows have to be made unique."""


Record = TypeVar("Record", bound=Base)


def get(session: Session, kind: type[Record], record_id: int) -> Record:
    """The record of that id.

    Raises:
        NotFound: there is none.
    """
    known = holds(inspect(kind).primary_key[0], record_id)
    record = session.get(kind, record_id) if known else None
    if record is None or getattr(record, "retired_at", None) is not None:
        raise NotFound(f"there is no {kind.__tablename__} {record_id}")
    return record


def newest(session: Session, kind: type[Record], limit: int) -> Sequence[Record]:
    """The newest records of a kind, newest first."""
    key = inspect(kind).primary_key[0]
    return session.scalars(select(kind).order_by(key.desc()).limit(limit)).all()


def templates_of_app(session: Session, app_id: int) -> Sequence[RunTemplate]:
    """The run templates of an application, in the order of their ids."""
    found = (
        select(RunTemplate)
        .where(RunTemplate.app_id == app_id, RunTemplate.retired_at.is_(None))
        .order_by(RunTemplate.id)
    )
    return session.scalars(found).all()


def templates_of_company(session: Session, company_id: int) -> Sequence[RunTemplate]:
    """The run templates of a company, in the order of their ids."""
    found = (
        select(RunTemplate)
        .where(RunTemplate.company_id == company_id, RunTemplate.retired_at.is_(None))
        .order_by(RunTemplate.id)
    )
    return session.scalars(found).all()


def template_named(session: Session, company: str, name: str) -> RunTemplate | None:
    """The run template `company/name`; the company is named by its slug."""
    return session.scalar(
        select(RunTemplate)
        .join(Company)
        .where(Company.slug == company, RunTemplate.name == name, RunTemplate.retired_at.is_(None))
    )


def template_with_context(session: Session, template_id: int) -> RunTemplate:
    """A run template with application and company, in one query.

    Raises:
        NotFound: there is none.
    """
    found = (
        select(RunTemplate)
        .where(RunTemplate.id == template_id, RunTemplate.retired_at.is_(None))
        .options(
            joinedload(RunTemplate.app),
            joinedload(RunTemplate.company),
            lazyload(RunTemplate.assignments),
        )
    )
    known = holds(RunTemplate.__table__.c.id, template_id)
    template = session.scalar(found) if known else None
    if template is None:
        raise NotFound(f"there is no {RunTemplate.__tablename__} {template_id}")
    return template


def templates_with_context(
    session: Session,
    companies: Collection[int] | None,
    among: Collection[int] | None = None,
) -> Sequence[RunTemplate]:
    """Run templates with application and company, by id; None: of all companies, among all."""
    found = (
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
        found = found.where(RunTemplate.company_id.in_(companies))
    if among is not None:
        found = found.where(RunTemplate.id.in_(among))
    return session.scalars(found).all()


def pools_of_templates(session: Session, companies: Collection[int] | None) -> set[str | None]:
    """The work pools active run templates name, None: some name none. `companies` None: of all."""
    found = select(RunTemplate.pool).where(
        RunTemplate.retired_at.is_(None), RunTemplate.active.is_(True)
    )
    if companies is not None:
        found = found.where(RunTemplate.company_id.in_(companies))
    return set(session.scalars(found.distinct()))


def executors_used(session: Session, pool: str, default_pool: str) -> set[str]:
    """The executors of the active run templates of a work pool."""
    named = or_(RunTemplate.pool == pool, RunTemplate.pool.is_(None) & (default_pool == pool))
    found = select(RunTemplate.executor).where(
        RunTemplate.retired_at.is_(None), RunTemplate.active.is_(True), named
    )
    return set(session.scalars(found.distinct()))


def job_with_context(session: Session, job_id: int) -> Job:
    """A job with its template, application, company and task, in one query.

    Raises:
        NotFound: there is no such job.
    """
    job = session.scalar(select(Job).where(Job.id == job_id).options(*WITH_CONTEXT))
    if job is None:
        raise NotFound(f"there is no job {job_id}")
    return job


def leases_of_worker(session: Session, worker: str) -> Sequence[tuple[Lease, UUID | None]]:
    """The jobs of a worker whose processes may live, each with its flow run."""
    found = select(Lease, Job.flow_run_id).join(Job, Job.id == Lease.job_id)
    mine = found.where(Lease.worker == worker, Lease.ends_by.is_not(None))
    rows = session.execute(mine).all()
    return [(row[0], row[1]) for row in rows]


def leases_older_than(session: Session, instant: datetime) -> Sequence[Lease]:
    """Leases of running jobs that were last renewed before an instant, the oldest first."""
    found = (
        select(Lease)
        .join(Job, Job.id == Lease.job_id)
        .where(Lease.renewed_at < instant, Job.state == JobState.RUNNING)
        .order_by(Lease.renewed_at)
    )
    return session.scalars(found).all()


def cancelled_among(session: Session, job_ids: Sequence[int]) -> dict[int, str]:
    """Of these jobs, those somebody asked to end: job id -> why."""
    found = select(Job.id, Job.cancel_reason).where(
        Job.id.in_(job_ids), Job.cancel_reason.is_not(None)
    )
    return {row[0]: row[1] or "" for row in session.execute(found).all()}


def ended_jobs_of_runs(session: Session, flow_run_ids: Sequence[UUID]) -> dict[UUID, Job]:
    """Of these flow runs, those whose newest job is over: flow run id -> that job."""
    newest = (
        select(func.max(Job.id)).where(Job.flow_run_id.in_(flow_run_ids)).group_by(Job.flow_run_id)
    )
    found = select(Job).where(
        Job.id.in_(newest), Job.state.not_in((JobState.SCHEDULED, JobState.RUNNING))
    )
    return {job.flow_run_id: job for job in session.scalars(found) if job.flow_run_id}


def claimed_runs(session: Session, flow_run_ids: Collection[UUID]) -> set[UUID]:
    """Of these flow runs, those that some worker has claimed."""
    found = select(Job.flow_run_id).where(
        Job.flow_run_id.in_(flow_run_ids), Job.state != JobState.SCHEDULED
    )
    return {one for one in session.scalars(found) if one}


def deployments_of_ours(session: Session, deployment_ids: Collection[UUID]) -> set[UUID]:
    """Of these deployments, those of run templates, retired ones included."""
    column = RunTemplate.deployment_id
    return {one for one in session.scalars(select(column).where(column.in_(deployment_ids))) if one}


def waiting_since(session: Session, instant: datetime) -> dict[UUID, int]:
    """Jobs that were due before an instant and wait for their flow run: flow run id -> job id."""
    found = select(Job.flow_run_id, Job.id).where(
        Job.state == JobState.SCHEDULED, Job.schedule < instant, Job.flow_run_id.is_not(None)
    )
    return {row[0]: row[1] for row in session.execute(found).all() if row[0]}


def is_answering(session: Session) -> bool:
    """Whether the database answers at all."""
    return bool(session.scalar(select(1)) == 1)


def output_of(session: Session, job_id: int, after: int = 0, limit: int = 5000) -> list[OutputLine]:
    """Lines of a job's output with a number above `after`, in their order."""
    found = (
        select(OutputLine)
        .where(OutputLine.job_id == job_id, OutputLine.seq > after)
        .order_by(OutputLine.seq)
        .limit(limit)
    )
    return list(session.scalars(found))


def last_output_of(session: Session, job_id: int, limit: int = 5000) -> list[OutputLine]:
    """The last lines of a job's output, in their order."""
    found = (
        select(OutputLine)
        .where(OutputLine.job_id == job_id)
        .order_by(OutputLine.seq.desc())
        .limit(limit)
    )
    return list(session.scalars(found))[::-1]


def artifacts_of(session: Session, job_id: int) -> Sequence[Artifact]:
    """The artifacts of a job without their contents, in the order they came."""
    return session.scalars(
        select(Artifact).where(Artifact.job_id == job_id).order_by(Artifact.id)
    ).all()


def user_named(session: Session, login: str) -> User | None:
    """The user with that login."""
    return session.scalar(select(User).where(User.login == login, User.retired_at.is_(None)))


def apps_usable_by(session: Session, company_id: int | None) -> Sequence[App]:
    """A company's applications, then the shared ones, by id; None: the shared ones only."""
    mine = () if company_id is None else (company_id,)
    found = select(App).where(usable(App, mine), App.retired_at.is_(None))
    return session.scalars(found.order_by(*own_first(App))).all()


def app_with_uuid(session: Session, uuid: str) -> App | None:
    """The application of that uuid, in lower case."""
    return session.scalar(select(App).where(App.uuid == uuid, App.retired_at.is_(None)))


def apps_named(session: Session, name: str) -> Sequence[App]:
    """The applications of that name in the default language, whosesoever, by id."""
    found = select(App).where(App.name == name, App.retired_at.is_(None))
    return session.scalars(found.order_by(App.id)).all()


def app_usable_as(session: Session, name: str, company_id: int) -> App | None:
    """The application a company means by a name: its own, else the shared one; the first by id."""
    found = select(App).where(
        App.name == name, usable(App, (company_id,)), App.retired_at.is_(None)
    )
    return session.scalar(found.order_by(*own_first(App)).limit(1))


def versions_of(session: Session, app_id: int) -> Sequence[AppVersion]:
    """The definitions an application had before, the oldest first."""
    return session.scalars(
        select(AppVersion).where(AppVersion.app_id == app_id).order_by(AppVersion.number)
    ).all()


def flow_names_of_others(session: Session, app: App) -> set[str]:
    """The names Prefect's flows of the other applications have."""
    found = select(App.flow_name).where(
        App.id != app.id, App.retired_at.is_(None), App.flow_name.is_not(None)
    )
    return {name for name in session.scalars(found) if name}


def lock_applications(session: Session) -> None:
    """Let no other transaction do the same until this one ends."""
    session.execute(select(App.id).order_by(App.id).with_for_update()).all()


def all_companies(session: Session) -> Sequence[Company]:
    """All companies, in the order of their ids."""
    return session.scalars(
        select(Company).where(Company.retired_at.is_(None)).order_by(Company.id)
    ).all()


def company_slugs(session: Session) -> dict[int | None, str]:
    """The slugs of all companies, retired ones included, by their numbers."""
    return {company.id: company.slug for company in session.scalars(select(Company))}


def company_with_slug(session: Session, slug: str) -> Company | None:
    """The company of that slug."""
    return session.scalar(select(Company).where(Company.slug == slug, Company.retired_at.is_(None)))


def companies_named(session: Session, name: str) -> Sequence[Company]:
    """The companies of that name, by id."""
    found = select(Company).where(Company.name == name, Company.retired_at.is_(None))
    return session.scalars(found.order_by(Company.id)).all()


def all_credential_types(session: Session) -> Sequence[CredentialType]:
    """All credential types, in the order of their ids."""
    return session.scalars(
        select(CredentialType)
        .where(CredentialType.retired_at.is_(None))
        .order_by(CredentialType.id)
    ).all()


def all_rules(session: Session) -> Sequence[EventRule]:
    """All event rules, in the order of their ids."""
    return session.scalars(
        select(EventRule).where(EventRule.retired_at.is_(None)).order_by(EventRule.id)
    ).all()


def waiting_wishes(session: Session) -> int:
    """How many wishes towards Prefect are not carried out yet."""
    return session.scalar(select(func.count(Wish.id))) or 0


def wishes_older_than(session: Session, instant: datetime) -> int:
    """How many wishes towards Prefect were made before an instant."""
    return session.scalar(select(func.count(Wish.id)).where(Wish.created_at < instant)) or 0


def counts(session: Session) -> dict[str, int]:
    """How many records of each kind there are, by table name."""
    kinds: tuple[type[Base], ...] = (
        App, Company, RunTemplate, Job, User, Topic, Credential, CredentialType, EventSource,
        EventRule,
    )  # fmt: skip
    return {
        kind.__tablename__: session.scalar(select(func.count()).select_from(kind)) or 0
        for kind in kinds
    }


def credential_type_with_uuid(session: Session, uuid: str) -> CredentialType | None:
    """The credential type of that uuid, in any case."""
    return session.scalars(_types(CredentialType.uuid, uuid)).first()


def credential_types_coded(session: Session, code: str) -> Sequence[CredentialType]:
    """The credential types of that code, in any case and whosesoever, by id."""
    return session.scalars(_types(CredentialType.code, code)).all()


def credential_type_usable_as(
    session: Session, code: str, company_id: int
) -> CredentialType | None:
    """The credential type a company means by a code, in any case: its own, else the shared one."""
    found = _types(CredentialType.code, code).where(usable(CredentialType, (company_id,)))
    return session.scalars(found.order_by(None).order_by(*own_first(CredentialType))).first()


def _types(column: Any, value: str) -> Select[tuple[CredentialType]]:
    return (
        select(CredentialType)
        .where(func.lower(column) == value.lower(), CredentialType.retired_at.is_(None))
        .order_by(CredentialType.id)
    )


def credential_named(session: Session, company_id: int, name: str) -> Credential | None:
    """The credential of that name in a company."""
    return session.scalar(
        select(Credential).where(
            Credential.company_id == company_id,
            Credential.name == name,
            Credential.retired_at.is_(None),
        )
    )


def topics_named(session: Session, name: str) -> Sequence[Topic]:
    """The topics of that name, whosesoever, by id."""
    found = select(Topic).where(Topic.name == name, Topic.retired_at.is_(None))
    return session.scalars(found.order_by(Topic.id)).all()


def source_named(session: Session, name: str) -> EventSource | None:
    """The event source of that name."""
    return session.scalar(
        select(EventSource).where(EventSource.name == name, EventSource.retired_at.is_(None))
    )


def rules_starting(session: Session, template_id: int) -> Sequence[int]:
    """The rules that start a run template."""
    found = select(EventRule.id).where(
        EventRule.runtemplate_id == template_id, EventRule.retired_at.is_(None)
    )
    return session.scalars(found).all()


@dataclass(frozen=True, slots=True)
class GivenByRules:
    """What event rules give a run template they start: environment keys, and whether the end of
    another run template is among what starts it.
    """

    keys: frozenset[str] = frozenset()
    follows_ends: bool = False


def given_by_rules(session: Session, templates: Collection[int]) -> dict[int, GivenByRules]:
    """That of run templates, by their ids; of those that no rule starts, nothing."""
    found = select(
        EventRule.runtemplate_id, EventRule.env_mapping, EventRule.runtemplate_source_id
    ).where(EventRule.runtemplate_id.in_(templates), EventRule.retired_at.is_(None))
    given: dict[int, GivenByRules] = {}
    for template_id, mapping, source_id in session.execute(found):
        known = given.get(template_id, GivenByRules())
        keys = known.keys | frozenset(json.loads(mapping))
        given[template_id] = GivenByRules(keys, known.follows_ends or source_id is not None)
    return given


RuleTrigger = tuple[int | None, int | None, str | None, str]
"""The event source or the run template a rule reacts to, evidence and operation."""


def triggers_of(session: Session, template_id: int) -> set[RuleTrigger]:
    """What the rules that start a run template react to."""
    found = select(EventRule).where(
        EventRule.runtemplate_id == template_id, EventRule.retired_at.is_(None)
    )
    return {
        (one.event_source_id, one.runtemplate_source_id, one.evidence or None, one.operation)
        for one in session.scalars(found)
    }


def sources_for(session: Session, company_id: int) -> Sequence[EventSource]:
    """The event sources of a company and those of none, by id."""
    mine = or_(EventSource.company_id == company_id, EventSource.company_id.is_(None))
    found = select(EventSource).where(mine, EventSource.retired_at.is_(None))
    return session.scalars(found.order_by(EventSource.id)).all()


def source_times(session: Session) -> list[tuple[datetime, int]]:
    """When each enabled event source is to be read, those that wait longest first."""
    found = select(EventSource.id, EventSource.polled_at, EventSource.poll_interval).where(
        EventSource.enabled.is_(True), EventSource.retired_at.is_(None)
    )
    long_ago = datetime.min.replace(tzinfo=UTC)
    times = [
        (long_ago if row[1] is None else row[1] + timedelta(seconds=row[2]), row[0])
        for row in session.execute(found)
    ]
    return sorted(times)


def sources_due(session: Session, now: datetime) -> list[int]:
    """The enabled event sources whose interval is over, those that wait longest first."""
    return [source_id for at, source_id in source_times(session) if at <= now]


def members_of(session: Session, company_id: int) -> Sequence[CompanyUser]:
    """The memberships of a company, in the order of their ids."""
    return session.scalars(
        select(CompanyUser).where(CompanyUser.company_id == company_id).order_by(CompanyUser.id)
    ).all()


def enabled_users_with_role(session: Session, role: str) -> int:
    """How many enabled users have a role."""
    found = (
        select(func.count(User.id))
        .join(UserRole, UserRole.user_id == User.id)
        .where(UserRole.role == role, User.enabled.is_(True), User.retired_at.is_(None))
    )
    return session.scalar(found) or 0


def attempts_of(session: Session, task_id: int) -> Sequence[Job]:
    """The jobs of a task, in the order of their attempts."""
    return session.scalars(select(Job).where(Job.task_id == task_id).order_by(Job.id)).all()


def tokens_of(session: Session, user_id: int) -> Sequence[Token]:
    """The tokens of a user, revoked ones too, in the order of their ids."""
    return session.scalars(select(Token).where(Token.user_id == user_id).order_by(Token.id)).all()


def all_tokens(session: Session) -> Sequence[Token]:
    """All tokens with their users, in the order of their ids."""
    return session.scalars(select(Token).options(joinedload(Token.user)).order_by(Token.id)).all()


def names_of(
    session: Session,
    kind: type[Base],
    ids: Collection[int],
    companies: Collection[int] | None = None,
) -> dict[str, str]:
    """The names (of users: the logins) of records, by their ids as text.

    Of applications only those that these companies may use; None: all.
    """
    column = getattr(kind, "login" if kind is User else "name")
    key = kind.id  # type: ignore[attr-defined]
    found = select(key, column).where(key.in_(ids))
    if kind is App and companies is not None:
        found = found.where(usable(App, companies))
    return {str(row[0]): row[1] for row in session.execute(found).all()}


def jobs_by_state(session: Session, companies: Collection[int] | None) -> dict[str, int]:
    """How many jobs there are in each state; None: of all companies."""
    found = select(Job.state, func.count()).where(Job.retired_at.is_(None)).group_by(Job.state)
    if companies is not None:
        found = found.where(Job.company_id.in_(companies))
    return {row[0]: row[1] for row in session.execute(found).all()}


def repeated_jobs(session: Session, companies: Collection[int] | None) -> int:
    """How many jobs are no first attempts; None: of all companies."""
    found = select(func.count()).where(Job.attempt > 1, Job.retired_at.is_(None))
    if companies is not None:
        found = found.where(Job.company_id.in_(companies))
    return session.scalar(found) or 0


@dataclass(slots=True)
class TemplateWork:
    """How many jobs of a run template ended well and badly, and when the last of them was due."""

    succeeded: int = 0
    failed: int = 0
    last_schedule: datetime | None = None


def work_of_templates(session: Session, ids: Collection[int]) -> dict[int, TemplateWork]:
    """What came of these run templates, in one query that an index answers."""
    rows = session.execute(
        select(Job.runtemplate_id, Job.state, func.count(), func.max(Job.schedule))
        .where(Job.runtemplate_id.in_(ids), Job.retired_at.is_(None))
        .group_by(Job.runtemplate_id, Job.state)
    )
    found = {template_id: TemplateWork() for template_id in ids}
    for template_id, state, number, due in rows:
        work = found[template_id]
        work.succeeded += number if state in SUCCESSFUL_JOBS else 0
        work.failed += number if state in FAILED_JOBS else 0
        if state != JobState.SCHEDULED:
            work.last_schedule = max(due, work.last_schedule or due)
    return found


def database_version(session: Session) -> str:
    """What the ledger is kept in: `PostgreSQL 16.3`."""
    dialect = session.get_bind().dialect
    version = ".".join(str(part) for part in dialect.server_version_info or ())
    return f"{DATABASES.get(dialect.name, dialect.name)} {version}".strip()


DATABASES = {"postgresql": "PostgreSQL", "sqlite": "SQLite"}
