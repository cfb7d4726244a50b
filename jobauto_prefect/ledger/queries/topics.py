"""Topics, and the companies, applications and run templates that bear them, by name.

A name means the company's own topic first, then the shared one.
"""

from collections.abc import Sequence

from sqlalchemy import ScalarResult, Text, cast, select
from sqlalchemy.orm import Session

from jobauto_prefect.ledger.access.ownership import company_of, own_first, usable
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.queries.run_templates import templates_under
from jobauto_prefect.ledger.records import App, Company, RunTemplate, Topic

Bearer = App | Company | RunTemplate

NONE = "[]"
"""How databases store a record without any."""


def topics_of(template: RunTemplate) -> tuple[str, ...]:
    """Return a template's own topics, its application's and its company's, by name, once each."""
    bearers: tuple[Bearer, ...] = (template, template.app, template.company)
    return tuple(dict.fromkeys(name for bearer in bearers for name in sorted(bearer.topics)))


def company_bearing(record: Bearer) -> int | None:
    """Return the company whose topics a record may bear besides shared ones, if any."""
    if isinstance(record, RunTemplate):
        return record.company.id  # it may have been changed in this session
    return company_of(record)


def resolve_topic(session: Session, name: str, company_id: int | None) -> Topic | None:
    """Return the topic that a name means in a company; None if there is none."""
    companies = () if company_id is None else (company_id,)
    query = select(Topic).where(
        Topic.name == name, Topic.retired_at.is_(None), usable(Topic, companies)
    )
    return session.scalars(query.order_by(*own_first(Topic)).limit(1)).first()


def bearers_of(session: Session, topic: Topic) -> list[Bearer]:
    """Return the records that bear a topic; a company's own topic of that name takes precedence."""
    return [
        record
        for kind in (Company, App, RunTemplate)
        for record in _bearing(session, kind)
        if topic.name in record.topics
        and resolve_topic(session, topic.name, company_bearing(record)) is topic
    ]


def _bearing(session: Session, kind: type[Bearer]) -> ScalarResult[Bearer]:
    query = select(kind).where(kind.retired_at.is_(None), cast(kind.topics, Text) != NONE)
    return session.scalars(query.order_by(kind.id))


def rename_in(session: WritingSession, bearers: list[Bearer], before: str, after: str) -> None:
    """Rename a topic in the records that bear it."""
    for record in bearers:
        named = (after if name == before else name for name in record.topics)
        record.topics = list(dict.fromkeys(named))
        enqueue_bearer(session, record)


def enqueue_bearer(session: WritingSession, record: Bearer) -> None:
    """Enqueue the messages that apply a record's topics in Prefect."""
    for template in templates_under(session, record):
        enqueue(session, OutboxKind.APPLY_TEMPLATE, template.id)
    if isinstance(record, App):  # its flow has them, too
        enqueue(session, OutboxKind.APPLY_APP, record.id)


def topics_named(session: Session, name: str) -> Sequence[Topic]:
    """Return the topics with that name of all owners, by id."""
    query = select(Topic).where(Topic.name == name, Topic.retired_at.is_(None))
    return session.scalars(query.order_by(Topic.id)).all()
