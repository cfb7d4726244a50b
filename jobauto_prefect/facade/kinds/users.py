"""Users, their roles and tokens, as shown and written."""

from datetime import datetime
from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints, WithJsonSchema

from jobauto_prefect.definitions.records.logins import login_faults
from jobauto_prefect.errors import Fault, Forbidden, InvalidInput
from jobauto_prefect.facade.answers import Answer, JsonObject, Timed, serialize_fields
from jobauto_prefect.facade.auth.passwords import hash_password, password_faults
from jobauto_prefect.facade.auth.permissions import ROLE_DESCRIPTIONS, ROLE_IDS, Role
from jobauto_prefect.facade.formats.html.page_language import Shown
from jobauto_prefect.facade.http.field_types import Boolean, parse_text
from jobauto_prefect.facade.http.requests import Body
from jobauto_prefect.facade.http.requests import parse as parse_body
from jobauto_prefect.facade.kinds.resource import ENABLED, Filter, Resource, link
from jobauto_prefect.facade.writes import memberships
from jobauto_prefect.facade.writes.base import (
    ShortText,
    WriteRequest,
    WriteResult,
    apply_fields,
    require_fields,
)
from jobauto_prefect.kinds import KINDS
from jobauto_prefect.ledger import records
from jobauto_prefect.ledger.access.tokens import TokenKind, end_tokens
from jobauto_prefect.ledger.queries.lookup import get_record
from jobauto_prefect.ledger.queries.users import user_named
from jobauto_prefect.ledger.records import UserRole
from jobauto_prefect.settings import Settings
from jobauto_prefect.text_patterns import matching


class User(Timed):
    """A person or program that signs in."""

    login: str = Field(description="The name to sign in with.")
    email: str | None = Field(description="Email address.")
    firstname: str | None = Field(title="First name", description="First name.")
    lastname: str | None = Field(title="Last name", description="Last name.")
    enabled: bool = Field(description="Whether it may be used.")
    roles: list[Role] = Field(description="Names of the roles.")


class AssignedRole(Answer):
    """A role that a user has."""

    id: int = Field(description="The record's id.")
    name: Role = Field(description="The role's name in requests.")
    display_name: str = Field(description="Display name.")
    description: str = Field(description="What it is for.")
    assigned_by: str | None = Field(description="Who assigned the role.")
    assigned_at: datetime = Field(description="When the role was assigned.")
    expires_at: datetime | None = Field(description="When it expires; null: never.")


class Token(Answer):
    """A token without its text."""

    id: int = Field(description="The record's id.")
    kind: str = Field(
        description="user, sign-in, session or worker. Tokens of the kinds sign-in and session "
        "end when the password changes."
    )
    expires_at: datetime | None = Field(description="When it expires; null: never.")
    revoked_at: datetime | None = Field(description="When it was revoked.")
    last_used_at: datetime | None = Field(description="When it was last used.")
    created_at: datetime = Field(description="When it was created.")


class IssuedToken(Token):
    """A new token; this is the only answer that has its text."""

    token: str = Field(description="The token's text.")


OWN_FIELDS = frozenset({"email", "firstname", "lastname", "password"})
"""What users may change in their own record."""


Login = Annotated[
    str,
    matching(
        r"^[^\s:\x00-\x1f\x7f-\x9f]{1,64}$",
        "must have 1 to 64 characters, without spaces and colons",
    ),
]


RoleName = Annotated[str, WithJsonSchema({"type": "string", "enum": [*Role]})]


class UserBody(Body):
    """A user, identified by its login."""

    record: ClassVar = User

    login: Annotated[Login | None, Shown("Login")] = None
    email: Annotated[ShortText | None, Shown("Mail")] = None
    firstname: Annotated[ShortText | None, Shown("First name")] = None
    lastname: Annotated[ShortText | None, Shown("Last name")] = None
    enabled: Annotated[Boolean, Shown("Sign-in allowed")] = True
    password: Annotated[str, StringConstraints(max_length=1000)] | None = Field(
        default=None,
        description="Stored only as a hash, and never in an answer. To change your own password, "
        "authenticate with login and current password (Basic).",
    )
    roles: list[RoleName] | None = None


def write_user(write: WriteRequest) -> WriteResult:
    """Write a user, identified by its login; the password is stored as a hash.

    Raises:
        Forbidden: the caller may not, or the user has a higher role.
    """
    body = parse_body(UserBody, write.fields)
    user = _find_user(write, body)
    created = user is None
    if user is None:
        write.authorize_create("users", None)
        require_fields(body, "login")
        user = records.User()
        write.session.add(user)
    _refuse_faults(write, body, user)
    apply_fields(user, body, except_for={"password", "roles"})
    if body.password is not None:
        user.password_hash = hash_password(body.password)
        end_tokens(write.session, user, {TokenKind.SIGN_IN, TokenKind.SESSION})
    if not user.enabled:
        end_tokens(write.session, user)
    if body.roles is not None:
        memberships.set_roles(write.session, write.who, user, body.roles, replace=True)
    memberships.require_super_admin_left(write.session)
    return WriteResult(user, created)


def _refuse_faults(write: WriteRequest, body: UserBody, user: records.User) -> None:
    """Refuse a new login or password that nobody may have.

    Raises:
        InvalidInput: with every reason; no message repeats the password.
    """
    faults = []
    if body.login is not None and body.login != user.login:
        faults += [Fault("/login", "login", message) for message in login_faults(body.login)]
    if body.password is not None:
        login, shortest = body.login or user.login, write.settings.password_min_length
        faults += password_faults(body.password, login, shortest)
    if faults:
        raise InvalidInput(faults)


def _find_user(write: WriteRequest, body: UserBody) -> records.User | None:
    if write.record_id is not None:
        user: records.User | None = get_record(write.session, records.User, write.record_id)
    else:
        user = user_named(write.session, body.login) if body.login else None
    own = user is not None and user.id == write.who.user_id
    if user is None or not (own or write.record_id or write.who.rights.may_read("users", None)):
        return None  # whether a login exists is not disclosed to everybody
    if own and body.password is not None:
        write.who.require_password("changing your own password needs the current one")
    if own and not write.who.rights.may("users.update", None):
        return _authorize_profile(write, body, user)
    write.authorize_update(user, "users")
    memberships.refuse_higher_user(write.who, user, write.session.clock())
    return user


def _authorize_profile(write: WriteRequest, body: UserBody, user: records.User) -> records.User:
    """Return the caller's user, for callers who may change only their own profile.

    Raises:
        Forbidden: they change more than their profile, or may not change it.
    """
    same_login = body.login in (None, user.login)
    if not (same_login and body.model_fields_set <= OWN_FIELDS | {"login"}):
        raise Forbidden(f"of your own user you can only change {', '.join(sorted(OWN_FIELDS))}")
    if not write.who.rights.anywhere("profile.update"):
        raise Forbidden("your role does not let you change your profile; ask an administrator")
    return user


def serialize_user(user: records.User, _settings: Settings) -> JsonObject:
    """Return a user as answers show it, without its password."""
    roles = [assignment.role for assignment in user.role_assignments]
    return serialize_fields(User, user, roles=roles)


def serialize_role(assignment: UserRole) -> JsonObject:
    """Return a role of a user, with the role's own id."""
    role = Role(assignment.role)
    return serialize_fields(
        AssignedRole,
        assignment,
        id=ROLE_IDS[role],
        name=role.value,
        display_name=role.replace("_", " ").capitalize(),
        description=ROLE_DESCRIPTIONS[role],
    )


def serialize_token(token: records.Token) -> JsonObject:
    """Return a token without its text."""
    return serialize_fields(Token, token)


RESOURCE = Resource(
    KINDS["user"], records.User, User, serialize_user, write_user,
    filters={"enabled": ENABLED, "login": Filter("login", parse_text)},
    body=UserBody, own=lambda who: who.user_id, before_deletion=memberships.refuse_higher_user,
    links={
        "roles": link("listRoles", "userId"),
        "setRoles": link("setRoles", "userId"),
        "tokens": link("listTokens", "userId"),
    },
)  # fmt: skip
