"""Prefect's application behind the door, as ASGI servers start it."""

import secrets
from typing import cast

import httpx
from starlette.types import ASGIApp

from jobauto_prefect.engine.api import PrefectApi, authorization
from jobauto_prefect.engine.prefect_app import create_closed_app
from jobauto_prefect.facade.gateway.door import Door
from jobauto_prefect.facade.gateway.reach import Holdings
from jobauto_prefect.facade.gateway.sign_in import SignIn
from jobauto_prefect.facade.passwords import RememberedPasswords
from jobauto_prefect.facade.remembered_tokens import RememberedTokens
from jobauto_prefect.facade.throttle import SignInThrottle
from jobauto_prefect.facade.transport import TransportRules
from jobauto_prefect.jobs.timetable import announcements_of
from jobauto_prefect.ledger.store import Ledger, open_ledger
from jobauto_prefect.settings import Settings, load_settings


def application() -> ASGIApp:
    """For ASGI servers: `uvicorn --factory jobauto_prefect.facade.gateway.app:application`.

    Raises:
        NotReady: the installation lacks its key or its tables.
        LedgerUnavailable: the database does not answer.
    """
    settings = load_settings()
    return behind_door(settings, open_ledger(settings))


def behind_door(settings: Settings, ledger: Ledger) -> ASGIApp:
    """Prefect's application of this process, which answers nobody but through the door.

    It asks for a password that nobody else ever learns.
    """
    inner = f"door:{secrets.token_urlsafe(32)}"
    prefect = cast("ASGIApp", create_closed_app(inner))
    return TransportRules(door(settings, ledger, prefect, inner), settings)


def door(settings: Settings, ledger: Ledger, prefect: ASGIApp, inner: str) -> Door:
    """The door before an application that `inner`, a login and a password, opens."""
    signed_in = authorization(inner)
    transport = httpx.ASGITransport(prefect, raise_app_exceptions=False)
    inside = PrefectApi("http://prefect/api", authorization=signed_in, transport=transport)
    passwords = RememberedPasswords(ledger.clock)
    announcements = announcements_of(settings)
    tokens = RememberedTokens(ledger, announcements)
    sign_in = SignIn(ledger, SignInThrottle(settings, ledger), passwords, tokens)
    holdings = Holdings(ledger, inside, settings.pool)
    limit = settings.body_limit_bytes
    return Door(prefect, sign_in, holdings, inner, limit, announcements.run)
