"""What every request can reach: settings, ledger, and the way to Prefect."""

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, cast

from fastapi import Depends, Request

from jobauto_prefect.engine.wishes import Carrier
from jobauto_prefect.facade.availability import AvailabilityCache
from jobauto_prefect.facade.passwords import RememberedPasswords
from jobauto_prefect.facade.remembered_tokens import RememberedTokens
from jobauto_prefect.facade.throttle import SignInThrottle
from jobauto_prefect.ledger.audit import Actor
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings

if TYPE_CHECKING:
    from jobauto_prefect.monitoring.instruments import FacadeMonitor


@dataclass(slots=True)
class Service:
    """`operator` is the person at this machine's command line, who needs no password.

    `monitor` is None in the command line's own copy of the facade.
    `applying` is held by the request that plans or applies files: the others wait for it without
    a connection to the database.
    """

    settings: Settings
    ledger: Ledger
    carrier: Carrier
    throttle: SignInThrottle
    passwords: RememberedPasswords
    tokens: RememberedTokens
    operator: Actor | None = None
    monitor: "FacadeMonitor | None" = None
    availability: AvailabilityCache = field(default_factory=AvailabilityCache)
    applying: asyncio.Lock = field(default_factory=asyncio.Lock)


async def service_of(request: Request) -> Service:
    """The service this request was made to. Async: it waits for nothing and needs no thread."""
    return cast("Service", request.app.state.service)


CurrentService = Annotated[Service, Depends(service_of)]
