"""Who sends a request: Bearer first, then Basic, never both (specification, section 5)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Protocol

from fastapi import Depends, Request
from starlette.requests import HTTPConnection

from jobauto_prefect.errors import Forbidden, Unauthorized
from jobauto_prefect.facade.auth.headers import decode_basic, is_possible_login, parse_authorization
from jobauto_prefect.facade.auth.passwords import PasswordVerifier
from jobauto_prefect.facade.auth.permissions import (
    EVERYTHING,
    NO_RIGHTS,
    Membership,
    Rights,
    Role,
    combine_rights,
)
from jobauto_prefect.facade.auth.request_state import OPERATOR, request_id_of
from jobauto_prefect.facade.auth.throttle import UNKNOWN, WRONG_PASSWORD, SignInThrottle
from jobauto_prefect.facade.auth.token_cache import TokenCache
from jobauto_prefect.facade.auth.visitor_sessions import DOOR, session_token
from jobauto_prefect.ledger.access.sign_ins import Account, Grants
from jobauto_prefect.ledger.access.sign_ins import account as load_account
from jobauto_prefect.ledger.access.tokens import (
    SESSION_KINDS,
    TOKEN_PREFIX,
    Bearer,
    TokenKind,
    issue_user_token,
)
from jobauto_prefect.ledger.audit.trail import Actor, write_entry
from jobauto_prefect.ledger.queries.lookup import get_record
from jobauto_prefect.ledger.records import User
from jobauto_prefect.ledger.store import Ledger

WORKER = "worker"
"""The login of a worker's token."""

STREAM_CHECK_SECONDS = 30.0
"""How often an open stream or socket checks again what its client may do."""

NO_CREDENTIALS = "this needs a bearer token or a login and password"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who sends a request. `user_id` is None for workers and for the local operator.

    `in_session`: the request came with a console session.
    """

    actor: Actor
    rights: Rights = NO_RIGHTS
    worker_pools: tuple[str, ...] | None = None
    user_id: int | None = None
    token_id: int | None = None
    in_session: bool = False

    def require_password(self, what: str) -> None:
        """Require that the user's password came with this request: a token may be stolen.

        Raises:
            Forbidden: it came with a token; the message begins with `what`.
        """
        if self.token_id is not None:
            raise Forbidden(f"{what}: send login and password (Basic) instead of a token")


class SignInServices(Protocol):
    """The services that sign-in needs."""

    @property
    def ledger(self) -> Ledger:
        """The store of the users."""

    @property
    def throttle(self) -> SignInThrottle:
        """The counter of failed sign-ins."""

    @property
    def passwords(self) -> PasswordVerifier:
        """The password verifier with its 5-minute cache."""

    @property
    def tokens(self) -> TokenCache:
        """The cache of tokens and their owners."""


class IdentifyingServices(SignInServices, Protocol):
    """The services that identifying any request needs."""

    @property
    def operator(self) -> Actor | None:
        """The person at this machine's command line."""


Scheme = Callable[[SignInServices, HTTPConnection, str, str], Identity | None]
"""Checks one scheme: None for credentials of another scheme, Unauthorized for invalid ones."""


def _check_bearer(
    service: SignInServices, _request: HTTPConnection, scheme: str, credentials: str
) -> Identity | None:
    if scheme != "bearer":
        return None
    bearer = service.tokens.bearer(credentials)
    if bearer is None:
        raise Unauthorized("the bearer token is unknown, expired or revoked; issue a new one")
    return _identity_of(bearer)


def _identity_of(bearer: Bearer) -> Identity:
    if bearer.kind is TokenKind.WORKER:
        actor = Actor(name=f"worker-token:{bearer.token_id}", door="worker")
        return Identity(actor, worker_pools=tuple(bearer.pools))
    actor = Actor(name=bearer.login or "", door="rest", user_id=bearer.user_id)
    rights = _rights_of(bearer.grants)
    return Identity(actor, rights, user_id=bearer.user_id, token_id=bearer.token_id)


def _rights_of(grants: Grants) -> Rights:
    members = {company: Membership(role) for company, role in grants.memberships.items()}
    return combine_rights(frozenset(map(Role, grants.roles)), members)


def _check_token_as_password(
    service: SignInServices, _request: HTTPConnection, scheme: str, credentials: str
) -> Identity | None:
    """Accept a token as the password of a Basic header; a worker's login is `worker`.

    Return None if it is not a token, or belongs to another login.
    """
    if scheme != "basic":
        return None
    login, text = decode_basic(credentials)
    bearer = service.tokens.bearer(text) if text.startswith(TOKEN_PREFIX) else None
    if bearer is None:
        return None
    owner = WORKER if bearer.kind is TokenKind.WORKER else bearer.login
    return _identity_of(bearer) if owner == login else None


def _check_basic(
    service: SignInServices, request: HTTPConnection, scheme: str, credentials: str
) -> Identity | None:
    if scheme != "basic":
        return None
    return check_password(service, request, *decode_basic(credentials))


def check_password(
    service: SignInServices, request: HTTPConnection, login: str, password: str
) -> Identity:
    """Identify the holder of a login and password. Raises as `sign_in` does."""
    account = sign_in(service, request, login, password)
    actor = Actor(name=account.login, door="rest", user_id=account.user_id)
    found = Identity(actor, _rights_of(account.grants), user_id=account.user_id)
    return _located(request, found)


def sign_in(service: SignInServices, request: HTTPConnection, login: str, password: str) -> Account:
    """Return the account of a login and password; a wrong password is counted and audited once.

    Raises:
        Unauthorized: login or password is wrong; the message is the same for every reason.
        TooManyRequests: this account has failed too often lately, from this network or from all.
    """
    address = request.client.host if request.client else None
    origin = service.throttle.origin(login, address)
    named = login if is_possible_login(login) else None
    account = None
    if named:
        now = service.ledger.clock()
        with service.ledger.reading() as session:
            account = load_account(session, named, origin, service.throttle.since(now), now)
    user_id, stored = (account.user_id, account.password_hash) if account else (None, None)
    if (
        account is not None
        and service.throttle.is_open(account.history)
        and service.passwords.remembers(account.user_id, stored, password)
    ):
        service.throttle.record_success(origin, account.history)
        return account
    actor = with_request_origin(request, UNKNOWN)
    with service.throttle.attempt(origin, stored, password, actor, named):
        if service.passwords.matches(user_id, stored, password) and account is not None:
            return account
        raise Unauthorized(WRONG_PASSWORD)


def issue_login_token(
    service: SignInServices, request: Request, user: Account, kind: TokenKind, lifetime: timedelta
) -> tuple[str, datetime]:
    """Issue a token for a user who has signed in; return its text and when it expires.

    Raises:
        Unauthorized: the password was changed meanwhile.
    """
    actor = with_request_origin(request, Actor(name=user.login, door="rest", user_id=user.user_id))
    expires_at = service.ledger.clock() + lifetime
    with service.ledger.writing(actor) as session:
        record = get_record(session, User, user.user_id)
        text, _ = issue_user_token(session, record, expires_at, kind)
        if record.password_hash != user.password_hash:
            raise Unauthorized(WRONG_PASSWORD)
        write_entry(session, "Login", "login", {}, entity_id=user.user_id)
    return text, expires_at


def current_rights(user: User, now: datetime) -> Rights:
    """Return what a user may do now; expired roles are ignored."""
    roles = frozenset(
        Role(assignment.role)
        for assignment in user.role_assignments
        if assignment.expires_at is None or assignment.expires_at > now
    )
    return combine_rights(
        roles,
        {membership.company_id: Membership(membership.role) for membership in user.memberships},
    )


CHAIN: tuple[Scheme, ...] = (_check_bearer, _check_basic)
PREFECT_CHAIN: tuple[Scheme, ...] = (_check_bearer, _check_token_as_password, _check_basic)
"""For Prefect's clients: the only credential they accept is `PREFECT_API_AUTH_STRING`."""


def identify(request: Request, service: IdentifyingServices) -> Identity:
    """Identify the sender of a request. Takes tens of milliseconds: not for the event loop.

    The operator at this machine's command line needs no credentials; any that are sent are checked.

    Raises:
        Unauthorized: the credentials are missing or invalid.
        TooManyRequests: this account has failed too often lately.
    """
    if service.operator is not None:
        return _located(request, Identity(service.operator, EVERYTHING))
    at_socket: Actor | None = getattr(request.state, OPERATOR, None)
    if at_socket is not None and "authorization" not in request.headers:
        return _located(request, Identity(at_socket, EVERYTHING))
    token = session_token(request) if "authorization" not in request.headers else None
    if token is not None:
        request.state.door = DOOR
        bearer = service.tokens.bearer(token, SESSION_KINDS)
        if bearer is None:
            raise Unauthorized("the session has ended; sign in again")
        return replace(_located(request, _identity_of(bearer)), in_session=True)
    return check_credentials(service, request, *parse_authorization(request.headers))


async def current_identity(request: Request) -> Identity:
    """Return the identity that `IdentificationMiddleware` found before the request was read.

    Raises:
        Unauthorized: it found none.
    """
    identity: Identity | None = getattr(request.state, "identity", None)
    if identity is None:
        raise Unauthorized(NO_CREDENTIALS)
    return identity


def check_credentials(
    service: SignInServices,
    request: HTTPConnection,
    scheme: str,
    credentials: str,
    chain: Sequence[Scheme] = CHAIN,
) -> Identity:
    """Identify the holder of credentials; `scheme` is in lower case.

    Raises:
        Unauthorized: no check accepts them.
    """
    for check in chain:
        identity = check(service, request, scheme, credentials)
        if identity is not None:
            return _located(request, identity)
    raise Unauthorized(NO_CREDENTIALS)


def _located(request: HTTPConnection, identity: Identity) -> Identity:
    return replace(identity, actor=with_request_origin(request, identity.actor))


def with_request_origin(request: HTTPConnection, actor: Actor) -> Actor:
    """Return the actor with the request's address, client and id."""
    return replace(
        actor,
        door=getattr(request.state, "door", actor.door),
        address=request.client.host if request.client else None,
        user_agent=request.headers.get("user-agent"),
        request_id=request_id_of(request),
    )


async def require_person(identity: Annotated[Identity, Depends(current_identity)]) -> Identity:
    """Require a user with a role; a worker's token is refused.

    Raises:
        Forbidden: a worker, or a user without a role.
    """
    if identity.worker_pools is not None or not identity.rights.anywhere("applications.read"):
        raise Forbidden("you have no role that allows this; ask an administrator")
    return identity


async def require_worker(identity: Annotated[Identity, Depends(current_identity)]) -> Identity:
    """Require a worker's token.

    Raises:
        Forbidden: it is not a worker's token.
    """
    if identity.worker_pools is None:
        raise Forbidden("this needs a worker's token; issue one: jobauto token issue --worker")
    return identity


CurrentUser = Annotated[Identity, Depends(require_person)]
CurrentWorker = Annotated[Identity, Depends(require_worker)]
