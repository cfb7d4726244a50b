"""The services that every request can use: settings, ledger, outbox worker, caches."""

import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, cast

from anyio import CapacityLimiter
from fastapi import Depends, Request, Response

from jobauto_prefect.engine.outbox_worker import OutboxWorker
from jobauto_prefect.facade.auth.passwords import PasswordVerifier, comparing_threads
from jobauto_prefect.facade.auth.throttle import SignInThrottle
from jobauto_prefect.facade.auth.token_cache import TokenCache
from jobauto_prefect.facade.concurrency import MAX_CONCURRENT, UserConcurrency
from jobauto_prefect.jobs.claims.credentials import layer_of
from jobauto_prefect.ledger.audit.trail import Actor
from jobauto_prefect.ledger.records import Credential
from jobauto_prefect.ledger.secrets import SecretBox
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from jobauto_prefect.sources.availability import Availability, check_availability

if TYPE_CHECKING:
    from jobauto_prefect.monitoring.instruments import FacadeMonitor


@dataclass(slots=True)
class AvailabilityCache:
    """Results of checks, cached for `seconds`; one claim at a time runs each check."""

    seconds: float = 10
    _found: dict[tuple[Any, ...], tuple[datetime, Availability]] = field(default_factory=dict)
    _locks: dict[int, threading.Lock] = field(default_factory=dict)

    def check(
        self, credential: Credential, settings: Settings, box: SecretBox, now: datetime
    ) -> Availability:
        """Whether a credential's target is reachable."""
        kind = credential.credential_type
        key = credential.id, credential.updated_at, kind.updated_at
        with self._locks.setdefault(credential.id, threading.Lock()):
            cached = self._found.get(key)
            if cached is not None and now - cached[0] < timedelta(seconds=self.seconds):
                return cached[1]
            layer = layer_of(credential, box)
            check = kind.availability or {}
            availability = check_availability(check, layer.values, layer.secrets, settings)
            for other in [checked for checked in self._found if checked[0] == credential.id]:
                del self._found[other]
            self._found[key] = now, availability
            return availability


MAX_FOLLOWED = 16
"""Maximum outputs that one user follows at once."""

FOLLOWING_THREADS = 2
"""Threads that read followed outputs, for all users: so many outputs are read at once."""

OUTPUT_THREADS = 2
"""Threads that read long outputs after their first batch, for all users."""

APPLYING_THREADS = 4
"""Threads that plan and apply files, one for each person."""


@dataclass(slots=True)
class Service:
    """`operator` is the person at this machine's command line, who needs no password.

    `sign_in_form` is the console's, `ask_to_sign_in` answers strangers who want a page.
    `monitor` is None in the command line's own copy of the facade.
    `applying` has a place for each person who plans or applies files, `following` for each output
    that is followed; their threads are apart, so that others need not wait for them. So are
    `comparing_threads`, for requests that bear a password.
    """

    settings: Settings
    ledger: Ledger
    outbox_worker: OutboxWorker
    throttle: SignInThrottle
    passwords: PasswordVerifier
    tokens: TokenCache
    sign_in_form: Callable[[Request], Response]
    ask_to_sign_in: Callable[[Request], Awaitable[Response]]
    operator: Actor | None = None
    monitor: "FacadeMonitor | None" = None
    availability: AvailabilityCache = field(default_factory=AvailabilityCache)
    applying: UserConcurrency = field(default_factory=lambda: UserConcurrency(1, MAX_CONCURRENT))
    applying_threads: CapacityLimiter = field(
        default_factory=lambda: CapacityLimiter(APPLYING_THREADS)
    )
    comparing_threads: CapacityLimiter = field(default_factory=comparing_threads)
    following: UserConcurrency = field(default_factory=lambda: UserConcurrency(MAX_FOLLOWED, 0))
    output_threads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(OUTPUT_THREADS))
    following_threads: CapacityLimiter = field(
        default_factory=lambda: CapacityLimiter(FOLLOWING_THREADS)
    )


async def service_of(request: Request) -> Service:
    """Return the services of this request. Async, so that FastAPI does not use a thread."""
    return cast("Service", request.app.state.service)


CurrentService = Annotated[Service, Depends(service_of)]
