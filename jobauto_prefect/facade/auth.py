"""Who is asking: Bearer first, then Basic, never both (specification, section 5)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Protocol

from fastapi import Depends, Request
from starlette.requests import HTTPConnection

from jobauto_prefect.errors import Forbidden, Unauthorized
from jobauto_prefect.facade.credentials import authorization, can_be_login, decode_basic
from jobauto_prefect.facade.passwords import RememberedPasswords
from jobauto_prefect.facade.peers import OPERATOR
from jobauto_prefect.facade.permissions import (
    EVERYTHING,
    NO_RIGHTS,
    Membership,
    Rights,
    Role,
    rights_of,
)
from jobauto_prefect.facade.remembered_tokens import RememberedTokens
from jobauto_prefect.facade.requests import request_id_of
from jobauto_prefect.facade.service import Service
from jobauto_prefect.facade.throttle import SignInThrottle
from jobauto_prefect.ledger.audit import Actor, write_entry
from jobauto_prefect.ledger.records import User
from jobauto_prefect.ledger.sign_ins import Account, Origin, Standing, account
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.ledger.tokens import TOKEN_PREFIX, Bearer

WORKER = "worker"
"""The login that goes with a worker's token."""

NO_CREDENTIALS = "this needs a bearer token or a login and password"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who is asking. `user_id` is None for workers and for the local operator."""

    actor: Actor
    rights: Rights = NO_RIGHTS
    worker_pools: tuple[str, ...] | None = None
    user_id: int | None = None
    token_id: int | None = None


class Keeper(Protocol):
    """What signing in takes."""

    @property
    def ledger(self) -> Ledger:
        """Where the users are."""

    @property
    def throttle(self) -> SignInThrottle:
        """Counts what fails."""

    @property
    def passwords(self) -> RememberedPasswords:
        """Compares."""

    @property
    def tokens(self) -> RememberedTokens:
        """Knows whose they are."""


Scheme = Callable[[Keeper, HTTPConnection, str, str], Identity | None]
"""None: not my scheme. Raises Unauthorized: mine, and bad."""


def _bearer(
    service: Keeper, _request: HTTPConnection, scheme: str, credentials: str
) -> Identity | None:
    if scheme != "bearer":
        return None
    found = service.tokens.bearer(credentials)
    if found is None:
        raise Unauthorized("the bearer token is unknown, expired or revoked; issue a new one")
    return _of_token(found)


def _of_token(found: Bearer) -> Identity:
    if found.login is None:
        actor = Actor(name=f"worker-token:{found.token_id}", door="worker")
        return Identity(actor, worker_pools=tuple(found.pools))
    actor = Actor(name=found.login, door="rest", user_id=found.user_id)
    rights = _rights_of(found.standing)
    return Identity(actor, rights, user_id=found.user_id, token_id=found.token_id)


def _rights_of(standing: Standing) -> Rights:
    members = {company: Membership(role) for company, role in standing.memberships.items()}
    return rights_of(frozenset(map(Role, standing.roles)), members)


def _token_as_password(
    service: Keeper, _request: HTTPConnection, scheme: str, credentials: str
) -> Identity | None:
    """A token where programs can give a login and a password only; a worker's login is worker."""
    if scheme != "basic":
        return None
    login, text = decode_basic(credentials)
    found = service.tokens.bearer(text) if text.startswith(TOKEN_PREFIX) else None
    return _of_token(found) if found and (found.login or WORKER) == login else None


def _basic(
    service: Keeper, request: HTTPConnection, scheme: str, credentials: str
) -> Identity | None:
    if scheme != "basic":
        return None
    login, password = decode_basic(credentials)
    found = signed_in(service, request, login, password)
    actor = Actor(name=found.login, door="rest", user_id=found.user_id)
    return Identity(actor, _rights_of(found.standing), user_id=found.user_id)


def signed_in(service: Keeper, request: HTTPConnection, login: str, password: str) -> Account:
    """The account of that login and password. What fails is counted and written down.

    Raises:
        Unauthorized: there is none; the message is the same for every reason.
        TooManyRequests: this account has failed too often lately, from this network or from all.
    """
    address = request.client.host if request.client else None
    origin = service.throttle.origin(login, address)
    found = _account(service, login, origin) if can_be_login(login) else None
    user_id, stored = (found.user_id, found.password_hash) if found else (None, None)
    if (
        found is not None
        and service.throttle.is_open(found.history)
        and service.passwords.remembers(found.user_id, stored, password)
    ):
        service.throttle.succeed(origin, found.history)
        return found
    with service.throttle.attempt(login, address):
        if service.passwords.matches(user_id, stored, password) and found is not None:
            return found
        _write_down(service, request, login)
        raise Unauthorized("login or password is wrong")


def _account(service: Keeper, login: str, origin: Origin) -> Account | None:
    now = service.ledger.clock()
    with service.ledger.reading() as session:
        return account(session, login, origin, service.throttle.since(now), now)


def _write_down(service: Keeper, request: HTTPConnection, login: str) -> None:
    actor = located(request, Actor(name="unknown", door="rest"))
    named = login if can_be_login(login) else None
    with service.ledger.writing(actor) as session:
        write_entry(session, "Login", "refuse", {"login": [None, named]})


def rights_of_user(user: User, now: datetime) -> Rights:
    """What a user may now: expired roles count for nothing."""
    roles = frozenset(
        Role(one.role)
        for one in user.role_assignments
        if one.expires_at is None or one.expires_at > now
    )
    return rights_of(roles, {one.company_id: Membership(one.role) for one in user.memberships})


CHAIN: tuple[Scheme, ...] = (_bearer, _basic)
PREFECT_CHAIN: tuple[Scheme, ...] = (_bearer, _token_as_password, _basic)
"""For Prefect's clients: all they can be told is one text, `PREFECT_API_AUTH_STRING`."""


def identify(request: Request, service: Service) -> Identity:
    """Who is asking. It may take tens of milliseconds: not for the event loop.

    Whoever is at this machine's command line needs no credentials; what is given counts.

    Raises:
        Unauthorized: nobody we know.
        TooManyRequests: this account has failed too often lately.
    """
    if service.operator is not None:
        return _at(request, Identity(service.operator, EVERYTHING))
    at_socket: Actor | None = getattr(request.state, OPERATOR, None)
    if at_socket is not None and "authorization" not in request.headers:
        return _at(request, Identity(at_socket, EVERYTHING))
    return identified(service, request, *authorization(request.headers))


async def identity(request: Request) -> Identity:
    """Who is asking, as `Identification` found out before the request was read.

    Raises:
        Unauthorized: it has not.
    """
    found: Identity | None = getattr(request.state, "identity", None)
    if found is None:
        raise Unauthorized(NO_CREDENTIALS)
    return found


def identified(
    service: Keeper,
    request: HTTPConnection,
    scheme: str,
    credentials: str,
    chain: Sequence[Scheme] = CHAIN,
) -> Identity:
    """Who has these credentials; the scheme is in small letters.

    Raises:
        Unauthorized: nobody we know.
    """
    for check in chain:
        found = check(service, request, scheme, credentials)
        if found is not None:
            return _at(request, found)
    raise Unauthorized(NO_CREDENTIALS)


def _at(request: HTTPConnection, found: Identity) -> Identity:
    return replace(found, actor=located(request, found.actor))


def located(request: HTTPConnection, actor: Actor) -> Actor:
    """An actor with where the request came from."""
    return replace(
        actor,
        door=getattr(request.state, "door", actor.door),
        address=request.client.host if request.client else None,
        user_agent=request.headers.get("user-agent"),
        request_id=request_id_of(request),
    )


async def person(found: Annotated[Identity, Depends(identity)]) -> Identity:
    """A person or program with rights here; a worker's token opens nothing of it.

    Raises:
        Forbidden: a worker, or a user without a role.
    """
    if found.worker_pools is not None or not found.rights.anywhere("applications.read"):
        raise Forbidden("you have no role that allows this; ask an administrator")
    return found


async def worker(found: Annotated[Identity, Depends(identity)]) -> Identity:
    """A worker.

    Raises:
        Forbidden: it is not a worker's token.
    """
    if found.worker_pools is None:
        raise Forbidden("only a worker's token opens this; issue one: jobauto token issue --worker")
    return found


Person = Annotated[Identity, Depends(person)]
Worker = Annotated[Identity, Depends(worker)]
