"""The certificates that TLS connections need, loaded on demand."""

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl


def needs_certificates(url: str) -> bool:
    """Whether a client of this URL must load the trusted certificates."""
    return url.startswith("https:")


@functools.cache
def load_certificates(*, by_environment: bool = True) -> "ssl.SSLContext":
    """Load the trusted certificates, once for all clients of this process.

    That takes longer than most requests: in an event loop, call it in a thread.

    Args:
        by_environment: respect SSL_CERT_FILE and SSL_CERT_DIR.
    """
    import httpx

    return httpx.create_ssl_context(trust_env=by_environment)


def verification(url: str) -> "ssl.SSLContext | bool":
    """Return the `verify` argument of httpx for clients of this URL."""
    return load_certificates() if needs_certificates(url) else False
