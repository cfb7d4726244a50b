"""Sign-in of Prefect's clients: users, workers, and this service itself."""

import base64
import hmac
from dataclasses import dataclass, field
from functools import partial

from anyio import CapacityLimiter, to_thread
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection

from jobauto_prefect.engine.api import service_authorization
from jobauto_prefect.facade.auth.headers import parse_authorization
from jobauto_prefect.facade.auth.identity import PREFECT_CHAIN, Identity, check_credentials
from jobauto_prefect.facade.auth.passwords import PasswordVerifier, comparing_threads
from jobauto_prefect.facade.auth.throttle import SignInThrottle
from jobauto_prefect.facade.auth.token_cache import TokenCache
from jobauto_prefect.ledger.store import Ledger


@dataclass(frozen=True, slots=True)
class SignIn:
    """Authenticates Prefect's clients as the facade does."""

    ledger: Ledger
    throttle: SignInThrottle
    passwords: PasswordVerifier
    tokens: TokenCache
    comparing_threads: CapacityLimiter = field(default_factory=comparing_threads)

    def is_service(self, header: str) -> bool:
        """Whether an Authorization header comes from this installation's own processes."""
        return hmac.compare_digest(header.encode(), service_authorization(self.ledger.box).encode())

    async def identify_request(self, connection: HTTPConnection) -> Identity:
        """Identify the sender of a request.

        Raises:
            Unauthorized: the credentials are missing or wrong.
            TooManyRequests: this account has failed too often lately.
        """
        return await self._identify(connection, *parse_authorization(connection.headers))

    async def identify_socket(self, connection: HTTPConnection, text: str) -> Identity | None:
        """Identify the sender of a socket's first message. Raises as `identify_request`.

        The message has `PREFECT_API_AUTH_STRING`, or a token alone.

        Returns:
            None for this service itself.
        """
        basic = base64.b64encode(text.encode("utf-8", "replace")).decode()
        if self.is_service(f"Basic {basic}"):
            return None
        scheme, credentials = ("basic", basic) if ":" in text else ("bearer", text)
        return await self._identify(connection, scheme, credentials)

    async def _identify(
        self, connection: HTTPConnection, scheme: str, credentials: str
    ) -> Identity:
        identify = partial(check_credentials, self, connection, scheme, credentials, PREFECT_CHAIN)
        limiter = self.comparing_threads if scheme == "basic" else None
        return await to_thread.run_sync(identify, limiter=limiter)


def authorization_header(headers: Headers) -> str:
    """Read the Authorization header; empty if there is none, or several."""
    values = headers.getlist("authorization")
    return values[0] if len(values) == 1 else ""
