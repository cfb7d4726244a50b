"""Roles of users, and their tokens: list, issue and revoke.

Only the answer that issues a token contains its text.
"""

from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar

from fastapi import APIRouter, Request, Response
from pydantic import Field

from jobauto_prefect.errors import Forbidden, NotFound
from jobauto_prefect.facade.answers import Answer, key_by_id
from jobauto_prefect.facade.auth.identity import CurrentUser, Identity
from jobauto_prefect.facade.auth.permissions import Role
from jobauto_prefect.facade.http.field_types import READ_INTEGER, Boolean, OrText
from jobauto_prefect.facade.http.operations import WRITE_ERRORS, answered, keyed, operation
from jobauto_prefect.facade.http.parameters import number_key, query
from jobauto_prefect.facade.http.requests import Body, BodyFields, parse, parse_translated
from jobauto_prefect.facade.http.responses import respond_plain
from jobauto_prefect.facade.kinds import users
from jobauto_prefect.facade.kinds.natural_keys import key_type
from jobauto_prefect.facade.kinds.users import (
    AssignedRole,
    IssuedToken,
    RoleName,
    serialize_role,
    serialize_token,
)
from jobauto_prefect.facade.service import CurrentService
from jobauto_prefect.facade.writes import memberships
from jobauto_prefect.facade.writes.base import Id, ShortText
from jobauto_prefect.facade.writes.memberships import refuse_higher_user
from jobauto_prefect.ledger.access.tokens import TokenKind, issue_user_token
from jobauto_prefect.ledger.queries.lookup import get_record
from jobauto_prefect.ledger.queries.users import tokens_of
from jobauto_prefect.ledger.records import Token, User
from jobauto_prefect.ledger.store import ReadingSession

MAX_DAYS = 3650
Days = Annotated[int, Field(ge=1, le=MAX_DAYS), READ_INTEGER, OrText(r"^[1-9][0-9]{0,2}$")]

UserKey: Any = key_type(User, "user_id")


class TokenBody(Body):
    """How long a new token is valid."""

    days: Days | None = Field(
        default=None, description="Lifetime in days; null: until it is revoked."
    )


TokenKey: Any = number_key("tokenId", "token")
router = APIRouter()


@operation(
    router, "GET /user/{user_id}/roles.{suffix}", "listRoles", "List the roles of a user",
    "An object keyed by role id. Needs `users.read`, except for your own roles.",
    tag="Users", answer=answered("The roles.", keyed(AssignedRole)),
)  # fmt: skip
def roles(
    user_id: UserKey, request: Request, who: CurrentUser, service: CurrentService
) -> Response:
    """Return the roles of a user, keyed by role id."""
    with service.ledger.reading() as session:
        user = _get_visible_user(session, user_id, who)
        held = [serialize_role(assignment) for assignment in user.role_assignments]
    return respond_plain(request, who, f"Roles of {user.login}", key_by_id(held))


def _get_visible_user(session: ReadingSession, user_id: int, who: Identity) -> User:
    user = get_record(session, User, user_id)
    if user.id != who.user_id:
        who.rights.require("users", "read", None, user)
    return user


class RolesBody(Body):
    """The roles to assign, by name; they replace the current ones unless `replace` is false."""

    record: ClassVar = users.User

    roles: list[RoleName]
    replace: Boolean | None = Field(
        default=None,
        description="Whether to replace the current roles (the default) or to add to them.",
    )
    assigned_by: Id | ShortText | None = Field(
        default=None, description="Accepted and ignored: the caller is recorded."
    )


class RolesSet(Answer):
    """The roles of a user after a change."""

    user_id: int = Field(description="The user.")
    replace: bool = Field(
        description="true: the former roles were replaced; false: the roles were added to them."
    )
    roles: list[Role] = Field(description="The roles, by name.")


@operation(
    router, "POST /user/{user_id}/roles/", "setRoles", "Set the roles of a user",
    "Replaces the current roles; if `replace` is false, adds to them. Nobody can assign a role "
    "above their own. The last super_admin keeps this role. Needs `roles.assign`.",
    tag="Users", answer=answered("The roles the user has now.", RolesSet), errors=WRITE_ERRORS,
    body=RolesBody,
    parameters=lambda: [query("replace", {"type": "boolean"}, "Replace the current roles.")],
)  # fmt: skip
def set_roles(
    user_id: UserKey,
    fields: BodyFields,
    request: Request,
    who: CurrentUser,
    service: CurrentService,
) -> Response:
    """Set the roles of a user."""
    body = parse_translated(request, "roles", RolesBody, fields)
    replace = body.replace is not False
    with service.ledger.writing(who.actor) as session:
        user = _get_visible_user(session, user_id, who)
        memberships.set_roles(session, who, user, body.roles, replace=replace)
        session.flush()
        held = [assignment.role for assignment in user.role_assignments]
    data = {"user_id": user_id, "replace": replace, "roles": held}
    return respond_plain(request, who, f"Roles of {user.login}", data)


@operation(
    router, "GET /user/{user_id}/tokens.{suffix}", "listTokens", "List the tokens of a user",
    "An object keyed by token id, including revoked and expired tokens. Needs `users.read`, "
    "except for your own tokens.",
    tag="Users", answer=answered("The tokens.", keyed(users.Token)),
)  # fmt: skip
def list_tokens(
    user_id: UserKey, request: Request, who: CurrentUser, service: CurrentService
) -> Response:
    """Return a user's tokens without their texts, keyed by id."""
    with service.ledger.reading() as session:
        user = _get_user(session, user_id, who, "read")
        shown = [serialize_token(token) for token in tokens_of(session, user.id)]
    return respond_plain(request, who, f"Tokens of {user.login}", key_by_id(shown))


@operation(
    router, "POST /user/{user_id}/tokens/", "issueToken", "Issue a token",
    "Only this answer contains the token's text. A repeated request issues another token. Needs "
    "`profile.update` for a token of your own, `users.impersonate` for other users.",
    tag="Users", answer=answered("The token.", IssuedToken, status=201), errors=WRITE_ERRORS,
    body=TokenBody,
)  # fmt: skip
def issue_token(
    user_id: UserKey,
    fields: BodyFields,
    request: Request,
    who: CurrentUser,
    service: CurrentService,
) -> Response:
    """Issue a token for oneself, or for another user whom the caller may impersonate.

    Without the password, sessions and login tokens issue none, and tokens none that outlives them.
    """
    body = parse(TokenBody, fields)
    with service.ledger.writing(who.actor) as session:
        user = _get_user(session, user_id, who, "impersonate")
        now = session.clock()
        expires_at = None if body.days is None else now + timedelta(days=body.days)
        if not _is_within(session, who, expires_at):
            who.require_password(
                "a session can't issue a token, and a token can't issue one that outlives it"
            )
        text, token = issue_user_token(session, user, expires_at)
        shown = serialize_token(token)
    return respond_plain(request, who, f"Token of {user.login}", shown | {"token": text}, 201)


@operation(
    router, "DELETE /user/{user_id}/token/{token_id}", "revokeToken", "Revoke a token",
    "The token is invalid from the next request on. Needs `profile.update` for a token of your "
    "own, `users.update` for other users. Nobody can revoke the token of a user with a higher "
    "role.",
    tag="Users", answer=answered("The token.", users.Token), errors=(409,),
)  # fmt: skip
def revoke_token(
    user_id: UserKey,
    token_id: TokenKey,
    request: Request,
    who: CurrentUser,
    service: CurrentService,
) -> Response:
    """Revoke a token from the next request on; one revoked before keeps its time."""
    with service.ledger.writing(who.actor) as session:
        user = _get_user(session, user_id, who, "update")
        token = get_record(session, Token, token_id)
        refuse_higher_user(who, user, session.clock())
        if token.user_id != user.id:
            raise NotFound(f"there is no token {token_id} of this user")
        token.revoked_at = token.revoked_at or session.clock()
        shown = serialize_token(token)
    return respond_plain(request, who, f"Token of {user.login}", shown)


def _is_within(session: ReadingSession, who: Identity, expires_at: datetime | None) -> bool:
    """Whether a token that expires then ends no later than the caller's own issued token."""
    if who.token_id is None:
        return False
    own = get_record(session, Token, who.token_id)
    in_time = own.expires_at is None or (expires_at is not None and expires_at <= own.expires_at)
    return own.kind == TokenKind.USER and in_time


def _get_user(session: ReadingSession, user_id: int, who: Identity, action: str) -> User:
    """Return a user if the caller may do this with their tokens.

    Raises:
        NotFound: the user does not exist, or the caller may not see them.
        Forbidden: the caller may see them, but not do this.
    """
    user = get_record(session, User, user_id)
    if user.id != who.user_id:
        who.rights.require("users", action, None, user)
    elif action != "read" and not who.rights.may("profile.update", None):
        raise Forbidden("this needs the permission profile.update; ask an administrator")
    return user
