"""Serializers of users, their roles, tokens and memberships, and of the audit trail."""

from jobauto_prefect.facade.auth.permissions import ROLE_DESCRIPTIONS, ROLE_IDS, Role
from jobauto_prefect.facade.models import audit_entries, companies, users
from jobauto_prefect.facade.serializers.common import JsonObject, serialize_fields
from jobauto_prefect.ledger.records import AuditEntry, CompanyUser, Token, User, UserRole
from jobauto_prefect.settings import Settings


def serialize_user(user: User, _settings: Settings) -> JsonObject:
    """Return a user as answers show it, without its password."""
    roles = [assignment.role for assignment in user.role_assignments]
    return serialize_fields(users.User, user, roles=roles)


def serialize_audit_entry(entry: AuditEntry, _settings: Settings) -> JsonObject:
    """Return an audit entry as answers show it."""
    return serialize_fields(audit_entries.AuditEntry, entry)


def serialize_role(assignment: UserRole) -> JsonObject:
    """Return a role of a user, with the role's own id."""
    role = Role(assignment.role)
    return serialize_fields(
        users.AssignedRole,
        assignment,
        id=ROLE_IDS[role],
        name=role.value,
        display_name=role.replace("_", " ").capitalize(),
        description=ROLE_DESCRIPTIONS[role],
    )


def serialize_token(token: Token) -> JsonObject:
    """Return what is known of a token; its text is not."""
    return serialize_fields(users.Token, token)


def serialize_member(member: CompanyUser, login: str | None) -> JsonObject:
    """Return a membership as answers show it."""
    return serialize_fields(companies.Member, member, login=login)
