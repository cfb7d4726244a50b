"""Prefect's application behind the door, as ASGI servers start it."""

import asyncio
import contextlib
import secrets
from typing import cast

import httpx
from starlette.types import ASGIApp

from jobauto_prefect.engine.api import PrefectApi, authorization
from jobauto_prefect.engine.prefect_app import create_closed_app
from jobauto_prefect.facade.gateway.door import Door
from jobauto_prefect.facade.gateway.reach import Holdings
from jobauto_prefect.facade.gateway.sign_in import SignIn
from jobauto_prefect.facade.metrics import ledger_check
from jobauto_prefect.facade.passwords import RememberedPasswords
from jobauto_prefect.facade.remembered_tokens import RememberedTokens
from jobauto_prefect.facade.throttle import SignInThrottle
from jobauto_prefect.facade.transport import TransportRules
from jobauto_prefect.jobs.timetable import announcements_of
from jobauto_prefect.ledger.store import Ledger, open_ledger
from jobauto_prefect.monitoring.health import answering
from jobauto_prefect.monitoring.instruments import DoorMonitor
from jobauto_prefect.monitoring.monitor import Monitor
from jobauto_prefect.monitoring.ports import Part, management_port
from jobauto_prefect.settings import Settings, load_settings


def application() -> ASGIApp:
    """For ASGI servers: `uvicorn --factory jobauto_prefect.facade.gateway.app:application`.

    Raises:
        NotReady: the installation lacks its key or its tables.
        LedgerUnavailable: the database does not answer.
    """
    settings = load_settings()
    ledger = open_ledger(settings)
    monitor = DoorMonitor()
    monitor.checks["ledger"] = ledger_check(ledger)
    monitor.checks["prefect"] = answering(f"{settings.prefect_api_url}/health")
    return behind_door(settings, ledger, monitor)


def behind_door(settings: Settings, ledger: Ledger, monitor: DoorMonitor | None = None) -> ASGIApp:
    """Prefect's application of this process, which answers nobody but through the door.

    It asks for a password that nobody else ever learns.
    """
    inner = f"door:{secrets.token_urlsafe(32)}"
    prefect = cast("ASGIApp", create_closed_app(inner))
    monitor = monitor or DoorMonitor()
    opened = door(settings, ledger, prefect, inner, monitor)
    return TransportRules(opened, settings, monitor.requests.note)


def door(
    settings: Settings, ledger: Ledger, prefect: ASGIApp, inner: str, monitor: Monitor | None = None
) -> Door:
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

    async def beside() -> None:
        served = management_port(settings, Part.PREFECT, monitor) if monitor is not None else None
        async with served or contextlib.nullcontext():
            await announcements.run()  # at once where the database has none
            await asyncio.Event().wait()

    return Door(prefect, sign_in, holdings, inner, limit, beside)
