"""Who is asking: Bearer first, then Basic, never both (specification, section 5)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated

from fastapi import Depends, Request

from jobauto_prefect.errors import Forbidden, Unauthorized
from jobauto_prefect.facade.credentials import authorization, can_be_login, decode_basic
from jobauto_prefect.facade.permissions import (
    EVERYTHING,
    NO_RIGHTS,
    Membership,
    Rights,
    Role,
    rights_of,
)
from jobauto_prefect.facade.requests import request_id_of
from jobauto_prefect.facade.service import CurrentService, Service
from jobauto_prefect.ledger.audit import Actor, write_entry
from jobauto_prefect.ledger.queries import user_named
from jobauto_prefect.ledger.records import User
from jobauto_prefect.ledger.tokens import TokenKind, valid_token


@dataclass(frozen=True, slots=True)
class Identity:
    """Who is asking. `user_id` is None for workers and for the local operator."""

    actor: Actor
    rights: Rights = NO_RIGHTS
    worker_pools: tuple[str, ...] | None = None
    user_id: int | None = None
    token_id: int | None = None


Scheme = Callable[[Service, Request, str, str], Identity | None]
"""None: not my scheme. Raises Unauthorized: mine, and bad."""


def _bearer(service: Service, _request: Request, scheme: str, credentials: str) -> Identity | None:
    if scheme != "bearer":
        return None
    with service.ledger.reading() as session:
        token = valid_token(session, credentials, service.ledger.clock())
    if token is None:
        raise Unauthorized("the bearer token is unknown, expired or revoked; issue a new one")
    if token.kind == TokenKind.WORKER or token.user is None:
        actor = Actor(name=f"worker-token:{token.id}", door="worker")
        return Identity(actor, worker_pools=tuple(token.pools))
    return replace(_of_user(service, token.user), token_id=token.id)


def _basic(service: Service, request: Request, scheme: str, credentials: str) -> Identity | None:
    if scheme != "basic":
        return None
    login, password = decode_basic(credentials)
    return _of_user(service, verified_user(service, request, login, password))


def verified_user(service: Service, request: Request, login: str, password: str) -> User:
    """The enabled user of that login and password. What fails is counted and written down.

    Raises:
        Unauthorized: there is none; the message is the same for every reason.
        TooManyRequests: this account, or this address, has failed too often lately.
    """
    address = request.client.host if request.client else None
    with service.throttle.attempt(login, address):
        user = _known(service, login)
        matches = service.passwords.matches(
            user.id if user else None, user.password_hash if user else None, password
        )
        if user is not None and matches and user.enabled:
            return user
        _write_down(service, request, login)
        raise Unauthorized("login or password is wrong")


def _known(service: Service, login: str) -> User | None:
    if not can_be_login(login):
        return None
    with service.ledger.reading() as session:
        return user_named(session, login)


def _write_down(service: Service, request: Request, login: str) -> None:
    actor = located(request, Actor(name="unknown", door="rest"))
    named = login if can_be_login(login) else None
    with service.ledger.writing(actor) as session:
        write_entry(session, "Login", "refuse", {"login": [None, named]})


def _of_user(service: Service, user: User) -> Identity:
    rights = rights_of_user(user, service.ledger.clock())
    return Identity(Actor(name=user.login, door="rest", user_id=user.id), rights, user_id=user.id)


def rights_of_user(user: User, now: datetime) -> Rights:
    """What a user may now: expired roles count for nothing."""
    roles = frozenset(
        Role(one.role)
        for one in user.role_assignments
        if one.expires_at is None or one.expires_at > now
    )
    return rights_of(roles, {one.company_id: Membership(one.role) for one in user.memberships})


CHAIN: tuple[Scheme, ...] = (_bearer, _basic)


def identity(request: Request, service: CurrentService) -> Identity:
    """Who is asking.

    Raises:
        Unauthorized: nobody we know.
    """
    if service.operator is not None:
        return _at(request, Identity(service.operator, EVERYTHING))
    scheme, credentials = authorization(request.headers)
    for check in CHAIN:
        found = check(service, request, scheme, credentials)
        if found is not None:
            return _at(request, found)
    raise Unauthorized("this needs a bearer token or a login and password")


def _at(request: Request, found: Identity) -> Identity:
    return replace(found, actor=located(request, found.actor))


def located(request: Request, actor: Actor) -> Actor:
    """An actor with where the request came from."""
    return replace(
        actor,
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
