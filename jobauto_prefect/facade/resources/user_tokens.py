"""Bearer tokens of users: listed, issued and revoked.

The text of a token is in the answer that issues it, and nowhere else.
"""

from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from jobauto_prefect.errors import Forbidden, NotFound
from jobauto_prefect.facade.answers import key_by_id
from jobauto_prefect.facade.auth.identity import CurrentUser, Identity
from jobauto_prefect.facade.http.field_types import READ_INTEGER, Integer, OrText
from jobauto_prefect.facade.http.requests import Body, BodyFields, parse
from jobauto_prefect.facade.http.responses import respond_plain
from jobauto_prefect.facade.kinds.users import serialize_token
from jobauto_prefect.facade.resources.natural_keys import key_type
from jobauto_prefect.facade.service import CurrentService
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


def add_routes(router: APIRouter) -> None:
    """Add them to the contract."""
    router.get("/user/{user_id}/tokens.{suffix}")(list_tokens)
    router.get("/user/{user_id}/tokens", include_in_schema=False)(list_tokens)
    for path, in_schema in (("tokens/", True), ("tokens", False)):
        issue = router.post(
            f"/user/{{user_id}}/{path}", status_code=201, include_in_schema=in_schema
        )
        issue(issue_token)
    router.delete("/user/{user_id}/token/{token_id}")(revoke_token)


def list_tokens(
    user_id: UserKey, request: Request, who: CurrentUser, service: CurrentService
) -> Response:
    """Return what is known of a user's tokens, by id."""
    with service.ledger.reading() as session:
        user = _get_user(session, user_id, who, "read")
        shown = [serialize_token(token) for token in tokens_of(session, user.id)]
    return respond_plain(request, who, f"Tokens of {user.login}", key_by_id(shown))


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


def revoke_token(
    user_id: UserKey,
    token_id: Integer,
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
