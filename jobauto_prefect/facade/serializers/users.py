"""Serializers of users, their roles, tokens and memberships, and of the audit trail."""

from jobauto_prefect.facade.auth.permissions import ROLE_DESCRIPTIONS, ROLE_IDS, Role
from jobauto_prefect.facade.serializers.common import JsonObject, isoformat, pick_fields, timestamps
from jobauto_prefect.ledger.records import AuditEntry, CompanyUser, Token, User, UserRole
from jobauto_prefect.settings import Settings


def serialize_user(user: User, _settings: Settings) -> JsonObject:
    """Return a user as answers show it, without its password."""
    names = ("id", "login", "email", "firstname", "lastname", "enabled")
    roles = [assignment.role for assignment in user.role_assignments]
    return pick_fields(user, *names) | {"roles": roles} | timestamps(user)


AUDIT_FIELDS = (
    "id",
    "actor",
    "user_id",
    "door",
    "address",
    "user_agent",
    "request_id",
    "entity_type",
    "entity_id",
    "company_id",
    "action",
    "changes",
)


def serialize_audit_entry(entry: AuditEntry, _settings: Settings) -> JsonObject:
    """Return an audit entry as answers show it."""
    return pick_fields(entry, *AUDIT_FIELDS) | {"created_at": isoformat(entry.created_at)}


def serialize_role(assignment: UserRole) -> JsonObject:
    """Return a role of a user, with the role's own id."""
    role = Role(assignment.role)
    return {
        "id": ROLE_IDS[role],
        "name": role.value,
        "display_name": role.replace("_", " ").capitalize(),
        "description": ROLE_DESCRIPTIONS[role],
        "assigned_by": assignment.assigned_by,
        "assigned_at": isoformat(assignment.assigned_at),
        "expires_at": isoformat(assignment.expires_at),
    }


def serialize_token(token: Token) -> JsonObject:
    """Return what is known of a token; its text is not."""
    times = ("expires_at", "revoked_at", "last_used_at", "created_at")
    return {"id": token.id, "kind": token.kind} | {
        name: isoformat(getattr(token, name)) for name in times
    }


def serialize_member(member: CompanyUser, login: str | None) -> JsonObject:
    """Return a membership as answers show it."""
    shown = pick_fields(member, "id", "company_id", "user_id", "role")
    return shown | {"login": login, "created_at": isoformat(member.created_at)}
