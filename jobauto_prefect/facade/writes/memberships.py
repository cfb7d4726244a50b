"""Users' roles and memberships of companies: nobody can grant more than their own role."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from jobauto_prefect.errors import Conflict, Fault, Forbidden, InvalidInput, NotFound
from jobauto_prefect.facade.auth.identity import Identity, current_rights
from jobauto_prefect.facade.auth.permissions import Membership, Role
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.queries.companies import members_of
from jobauto_prefect.ledger.queries.users import enabled_users_with_role
from jobauto_prefect.ledger.records import Company, CompanyUser, User, UserRole


def set_roles(
    session: WritingSession, who: Identity, user: User, names: Sequence[Any], *, replace: bool
) -> None:
    """Assign roles to a user: `replace` the current ones, or add to them.

    Raises:
        InvalidInput: naming every unknown role.
        Forbidden: the caller may not assign roles, or not these, or not to this user.
        Conflict: no super_admin would remain.
    """
    unknown = [str(name) for name in names if name not in set(Role)]
    if unknown:
        message = f"unknown roles: {', '.join(unknown)}; use {', '.join(Role)}"
        raise InvalidInput([Fault("/roles", "enum", message)])
    who.rights.require("roles", "assign", None)
    refuse_higher_user(who, user, session.clock())
    higher = [name for name in names if list(Role).index(Role(name)) < who.rights.rank]
    if higher:
        raise Forbidden(f"you can't assign a role above your own: {', '.join(higher)}")
    kept = [
        assignment
        for assignment in user.role_assignments
        if not replace or assignment.role in names
    ]
    held = {assignment.role for assignment in kept}
    user.role_assignments = kept + [
        UserRole(role=name, assigned_by=session.actor.name, assigned_at=session.clock())
        for name in dict.fromkeys(names)
        if name not in held
    ]
    require_super_admin_left(session)


def refuse_higher_user(who: Identity, user: User, now: datetime) -> None:
    """Refuse to change a user with a higher role.

    Raises:
        Forbidden: the user has a higher role than the caller.
    """
    if current_rights(user, now).rank < who.rights.rank:
        raise Forbidden(f"{user.login} has a higher role than you; ask an administrator")


def require_super_admin_left(session: WritingSession) -> None:
    """Require that an enabled super_admin remains.

    Raises:
        Conflict: this change would leave none, and there was one.
    """
    session.flush()
    gone = [
        change.record
        for change in session.written()
        if isinstance(change.record, UserRole) and change.action == "delete"
    ]
    for user in session.switched_users():
        gone += user.role_assignments
    was_there = any(assignment.role == Role.SUPER_ADMIN for assignment in gone)
    if was_there and not enabled_users_with_role(session, Role.SUPER_ADMIN):
        raise Conflict("this is the last super_admin; create another one first")


def assign_member(
    session: WritingSession, who: Identity, company: Company, user: User, role: str
) -> CompanyUser:
    """Make a user a member of a company, or change the member's role there.

    Raises:
        InvalidInput: there is no such role in companies.
        Forbidden: the caller may not change the members of this company.
    """
    if role not in set(Membership):
        message = f"there is no role {role} in companies; use {', '.join(Membership)}"
        raise InvalidInput([Fault("/role", "enum", message)])
    require_member_admin(who, company)
    member = next(
        (membership for membership in user.memberships if membership.company_id == company.id), None
    )
    if member is None:
        member = CompanyUser(company_id=company.id, user_id=user.id, role=role)
        user.memberships.append(member)
    member.role = role
    session.flush()
    return member


def remove_member(session: WritingSession, who: Identity, company: Company, user_id: int) -> None:
    """End a membership.

    Raises:
        NotFound: the user is not a member.
        Forbidden: the caller may not change the members of this company.
    """
    require_member_admin(who, company)
    members = members_of(session, company.id)
    member = next((membership for membership in members if membership.user_id == user_id), None)
    if member is None:
        raise NotFound(f"user {user_id} is not a member of company {company.id}")
    session.delete(member)


def require_member_admin(who: Identity, company: Company) -> None:
    """Require the permission to change the members of a company.

    Raises:
        NotFound: the caller may not even see the company.
        Forbidden: they may see it, but not change its members.
    """
    if who.rights.may("members.update", company.id):
        return
    who.rights.require("companies", "read", company.id, company)
    raise Forbidden("only a company's admins may change its members; ask one of them")
