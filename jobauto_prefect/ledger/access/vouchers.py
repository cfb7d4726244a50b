"""The users who vouch for one company's events starting jobs of another.

The author of such a rule or action belongs to both companies. This is checked again at every use,
because rights end while the rule stays.
"""

from datetime import datetime

from sqlalchemy import event as sqlalchemy_event
from sqlalchemy import select
from sqlalchemy.orm import Session

from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.records import CompanyUser, Event, EventRule, User, UserRole

SYSTEM_WIDE = frozenset({"super_admin", "admin"})
"""The roles that hold in every company."""

STARTING_ROLES = frozenset({"editor", "user"})
STARTING_MEMBERSHIPS = frozenset({"admin", "manager"})
"""Roles and memberships that let a member start jobs; the others only read."""


def may_read(session: WritingSession, user_id: int | None, company_id: int | None) -> bool:
    """Whether somebody may read the events of a company; None: the service's operator."""
    return _belongs(session, user_id, company_id, session.clock(), starts=False)


def may_start(session: WritingSession, user_id: int | None, company_id: int | None) -> bool:
    """Whether somebody may start jobs of a company; None: the service's operator."""
    return _belongs(session, user_id, company_id, session.clock(), starts=True)


def _belongs(
    session: Session, user_id: int | None, company_id: int | None, now: datetime, *, starts: bool
) -> bool:
    if user_id is None:
        return True
    user = session.get(User, user_id)
    if user is None or not user.enabled or user.retired_at is not None:
        return False
    roles = {
        assignment.role
        for assignment in user.role_assignments
        if assignment.expires_at is None or assignment.expires_at > now
    }
    memberships = {each.role for each in user.memberships if each.company_id == company_id}
    if roles & SYSTEM_WIDE:
        return True
    starting = roles & STARTING_ROLES or memberships & STARTING_MEMBERSHIPS
    return bool(memberships and (starting or not starts))


def may_tell(session: Session, rule: EventRule, now: datetime) -> bool:
    """Whether a rule may show its run template's company the events that start it."""
    source, target = rule.source_company_id, rule.runtemplate.company_id
    return source in (None, target) or _belongs(session, rule.written_by, source, now, starts=False)


@sqlalchemy_event.listens_for(WritingSession, "before_commit", insert=True)
def _apply_rules_anew(session: WritingSession) -> None:
    """Update Prefect's automations when the rights of their rules' authors change."""
    session.flush()
    writers = {
        change.record.user_id
        for change in session.written()
        if isinstance(change.record, UserRole | CompanyUser)
    } | {user.id for user in session.switched_users()}
    if writers:
        rules = select(EventRule.id).where(
            EventRule.written_by.in_(writers), EventRule.retired_at.is_(None)
        )
        for rule_id in session.scalars(rules).all():
            enqueue(session, OutboxKind.APPLY_RULE, rule_id)


def rule_fault(
    session: WritingSession, event: Event, rule: EventRule, company_id: int
) -> str | None:
    """Return why a rule may no longer show a company an event; None: it may.

    A company's own events, and those of no company, need no voucher.
    """
    if event.company_id in (None, company_id) or may_read(
        session, rule.written_by, event.company_id
    ):
        return None
    return (
        f"rule {rule.id} reads another company's events, and the user who last saved it may no"
        " longer read them; ask somebody who belongs to both companies to save the rule"
    )
