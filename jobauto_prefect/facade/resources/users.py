"""Roles of users, and their bearer tokens: listed, issued and revoked.

The text of a token is in the answer that issues it, and nowhere else.
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
    """How long a new token counts."""

    days: Days | None = Field(
        default=None, description="Days it counts; null: until it is revoked."
    )


TokenKey: Any = number_key("tokenId", "token")
router = APIRouter()


@operation(
    router, "GET /user/{user_id}/roles.{suffix}", "listRoles", "List the roles of a user",
    "An object by the id of the role. Needs `users.read`, except for oneself.",
    tag="Users", answer=answered("The roles.", keyed(AssignedRole)),
)  # fmt: skip
def roles(
    user_id: UserKey, request: Request, who: CurrentUser, service: CurrentService
) -> Response:
    """Return the roles of a user, by the id of the role."""
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
    """The roles to give, by their names; with `replace` (the default) instead of the former."""

    record: ClassVar = users.User

    roles: list[RoleName]
    replace: Boolean | None = Field(
        default=None,
        description="Instead of the roles there are (the default), or beside them.",
    )
    assigned_by: Id | ShortText | None = Field(
        default=None, description="Read and not used: it is who asks."
    )


class RolesSet(Answer):
    """The roles a user has from now on."""

    user_id: int = Field(description="The user.")
    replace: bool = Field(
        description="Instead of the roles there are (the default), or beside them."
    )
    roles: list[Role] = Field(description="The roles, by name.")


@operation(
    router, "POST /user/{user_id}/roles/", "setRoles", "Set the roles of a user",
    "Instead of the roles there are, or with `replace` false beside them. Nobody gives a role "
    "above their own, and the last super_admin stays. Needs `roles.assign`.",
    tag="Users", answer=answered("The roles the user has now.", RolesSet), errors=WRITE_ERRORS,
    body=RolesBody,
    parameters=lambda: [query("replace", {"type": "boolean"}, "Instead of the roles there are.")],
)  # fmt: skip
def set_roles(
    user_id: UserKey,
    fields: BodyFields,
    request: Request,
    who: CurrentUser,
    service: CurrentService,
) -> Response:
    """Give a user roles."""
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
    "An object by the id of the token; revoked and expired ones too. Needs `users.read`, "
    "except for oneself.",
    tag="Users", answer=answered("The tokens.", keyed(users.Token)),
)  # fmt: skip
def list_tokens(
    user_id: UserKey, request: Request, who: CurrentUser, service: CurrentService
) -> Response:
    """Return what is known of a user's tokens, by id."""
    with service.ledger.reading() as session:
        user = _get_user(session, user_id, who, "read")
        shown = [serialize_token(token) for token in tokens_of(session, user.id)]
    return respond_plain(request, who, f"Tokens of {user.login}", key_by_id(shown))


@operation(
    router, "POST /user/{user_id}/tokens/", "issueToken", "Issue a token",
    "The answer has its text, and no other ever will: sent twice, this makes two. For oneself "
    "it needs `profile.update`, for others `users.impersonate`.",
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
    """Issue a token: for oneself, or for another by who may act as them.

    Sessions and sign-ins issue none without the password, and tokens none that outlives them.
    """
    body = parse(TokenBody, fields)
    with service.ledger.writing(who.actor) as session:
        user = _get_user(session, user_id, who, "impersonate")
        now = session.clock()
        expires_at = None if body.days is None else now + timedelta(days=body.days)
        if not _is_within(session, who, expires_at):
            who.require_password("a session gives no token, and a token none that outlives it")
        text, token = issue_user_token(session, user, expires_at)
        shown = serialize_token(token)
    return respond_plain(request, who, f"Token of {user.login}", shown | {"token": text}, 201)


@operation(
    router, "DELETE /user/{user_id}/token/{token_id}", "revokeToken", "Revoke a token",
    "It counts no more, from the next request on. For oneself it needs `profile.update`, for "
    "others `users.update`, and nobody revokes one of somebody with a higher role.",
    tag="Users", answer=answered("The token.", users.Token), errors=(409,),
)  # fmt: skip
def revoke_token(
    user_id: UserKey,
    token_id: TokenKey,
    request: Request,
    who: CurrentUser,
    service: CurrentService,
) -> Response:
    """Make a token worthless, from the next request on; one that is stays so."""
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
    """Whether what expires then ends no later than the issued token that who asks came with."""
    if who.token_id is None:
        return False
    own = get_record(session, Token, who.token_id)
    in_time = own.expires_at is None or (expires_at is not None and expires_at <= own.expires_at)
    return own.kind == TokenKind.USER and in_time


def _get_user(session: ReadingSession, user_id: int, who: Identity, action: str) -> User:
    """Return oneself, or a user with whose tokens one may do this.

    Raises:
        NotFound: there is no such user, or one may not see them.
        Forbidden: one may see them, and not do this.
    """
    user = get_record(session, User, user_id)
    if user.id != who.user_id:
        who.rights.require("users", action, None, user)
    elif action != "read" and not who.rights.may("profile.update", None):
        raise Forbidden("this needs the permission profile.update; ask an administrator")
    return user
