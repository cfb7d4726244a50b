"""The roles of users and their memberships of companies: nobody raises anybody above themselves."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from jobauto_prefect.errors import Conflict, Fault, Forbidden, InvalidInput, NotFound
from jobauto_prefect.facade.access import allow
from jobauto_prefect.facade.auth import Identity, rights_of_user
from jobauto_prefect.facade.permissions import Membership, Role
from jobauto_prefect.ledger import queries
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.records import Company, CompanyUser, User, UserRole


def set_roles(
    session: WritingSession, who: Identity, user: User, names: Sequence[Any], *, replace: bool
) -> None:
    """Give a user roles: instead of the ones there are, or beside them.

    Raises:
        InvalidInput: naming every unknown role.
        Forbidden: who asks may not assign roles, or not these, or not to this user.
        Conflict: nobody would be super_admin any more.
    """
    _refuse_unknown(names)
    allow(who, "roles", "assign", None)
    refuse_above(who, user, session.clock())
    _refuse_higher(who, names)
    kept = [one for one in user.role_assignments if not replace or one.role in names]
    held = {one.role for one in kept}
    user.role_assignments = kept + [
        UserRole(role=name, assigned_by=session.actor.name, assigned_at=session.clock())
        for name in dict.fromkeys(names)
        if name not in held
    ]
    keep_a_super_admin(session)


def _refuse_unknown(names: Sequence[Any]) -> None:
    unknown = [str(name) for name in names if name not in set(Role)]
    if unknown:
        message = f"unknown roles: {', '.join(unknown)}; there are {', '.join(Role)}"
        raise InvalidInput([Fault("/roles", "enum", message)])


def _refuse_higher(who: Identity, names: Sequence[str]) -> None:
    higher = [name for name in names if list(Role).index(Role(name)) < who.rights.rank]
    if higher:
        raise Forbidden(f"you can't give a role above your own: {', '.join(higher)}")


def refuse_above(who: Identity, user: User, now: datetime) -> None:
    """Nobody changes a user who stands above them.

    Raises:
        Forbidden: the user has a higher role than who asks.
    """
    if rights_of_user(user, now).rank < who.rights.rank:
        raise Forbidden(f"{user.login} has a higher role than you")


def keep_a_super_admin(session: WritingSession) -> None:
    """The last enabled super_admin stays.

    Raises:
        Conflict: this change would leave none, where there has been one.
    """
    session.flush()
    gone = any(one.role == Role.SUPER_ADMIN for one in _removed(session))
    if gone and not queries.enabled_users_with_role(session, Role.SUPER_ADMIN):
        raise Conflict("this is the last super_admin; make another one first")


def _removed(session: WritingSession) -> list[UserRole]:
    """Assignments this transaction takes away, or whose user it disables or retires."""
    removed = []
    for change in session.written():
        if isinstance(change.record, UserRole) and change.action == "delete":
            removed.append(change.record)
        if isinstance(change.record, User) and {"enabled", "retired_at"} & set(change.changes):
            removed += change.record.role_assignments
    return removed


def assign(
    session: WritingSession, who: Identity, company: Company, user: User, role: str
) -> CompanyUser:
    """Make a user a member of a company, or change the member's role there.

    Raises:
        InvalidInput: there is no such role in companies.
        Forbidden: who asks may not change the members of this company.
    """
    if role not in set(Membership):
        message = f"there is no role {role} in companies; use {', '.join(Membership)}"
        raise InvalidInput([Fault("/role", "enum", message)])
    allow_members(who, company)
    known = next((one for one in user.memberships if one.company_id == company.id), None)
    if known is None:
        known = CompanyUser(company_id=company.id, user_id=user.id, role=role)
        user.memberships.append(known)
    known.role = role
    session.flush()
    return known


def remove(session: WritingSession, who: Identity, company: Company, user_id: int) -> None:
    """End a membership.

    Raises:
        NotFound: the user is no member.
        Forbidden: who asks may not change the members of this company.
    """
    allow_members(who, company)
    members = queries.members_of(session, company.id)
    known = next((one for one in members if one.user_id == user_id), None)
    if known is None:
        raise NotFound(f"user {user_id} is no member of company {company.id}")
    session.delete(known)


def allow_members(who: Identity, company: Company) -> None:
    """Let somebody change the members of a company.

    Raises:
        NotFound: they may not even see it.
        Forbidden: they may see it and not do this.
    """
    if who.rights.may("members.update", company.id):
        return
    allow(who, "companies", "read", company.id, company)
    raise Forbidden("only its admins may change the members of a company")
