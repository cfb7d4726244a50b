"""Who stands at the door: a user, a worker, or this service itself."""

import base64
import hmac
from dataclasses import dataclass
from functools import partial

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection

from jobauto_prefect.engine.api import service_authorization
from jobauto_prefect.facade.auth import PREFECT_CHAIN, Identity, identified
from jobauto_prefect.facade.credentials import authorization
from jobauto_prefect.facade.passwords import RememberedPasswords
from jobauto_prefect.facade.remembered_tokens import RememberedTokens
from jobauto_prefect.facade.throttle import SignInThrottle
from jobauto_prefect.ledger.store import Ledger


@dataclass(frozen=True, slots=True)
class SignIn:
    """The facade's way of signing in, for Prefect's clients."""

    ledger: Ledger
    throttle: SignInThrottle
    passwords: RememberedPasswords
    tokens: RememberedTokens

    def is_service(self, given: str) -> bool:
        """Whether an Authorization header is that of this installation's own processes."""
        return hmac.compare_digest(given.encode(), service_authorization(self.ledger.box).encode())

    async def by_header(self, connection: HTTPConnection) -> Identity:
        """Who sends a request.

        Raises:
            Unauthorized: nobody we know.
            TooManyRequests: this account has failed too often lately.
        """
        return await self._identified(connection, *authorization(connection.headers))

    async def by_text(self, connection: HTTPConnection, text: str) -> Identity | None:
        """Who sends this text as the first message of a socket; None: this service itself.

        It is `PREFECT_API_AUTH_STRING`, or a token alone. Raises as `by_header`.
        """
        basic = base64.b64encode(text.encode("utf-8", "replace")).decode()
        if self.is_service(f"Basic {basic}"):
            return None
        scheme, credentials = ("basic", basic) if ":" in text else ("bearer", text)
        return await self._identified(connection, scheme, credentials)

    async def _identified(
        self, connection: HTTPConnection, scheme: str, credentials: str
    ) -> Identity:
        found = partial(identified, self, connection, scheme, credentials, PREFECT_CHAIN)
        return await run_in_threadpool(found)


def given_by(headers: Headers) -> str:
    """The Authorization header, empty where there is none or several."""
    values = headers.getlist("authorization")
    return values[0] if len(values) == 1 else ""
