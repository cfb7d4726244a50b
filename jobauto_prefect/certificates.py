"""Which connections need certificates to judge by, and these."""

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl


def needs_certificates(url: str) -> bool:
    """Whether a client of this address has to load the certificates that are trusted."""
    return url.startswith("https:")


@functools.cache
def load_certificates(*, by_environment: bool = True) -> "ssl.SSLContext":
    """Load the certificates that are trusted, once for all clients of this process.

    That takes longer than most requests: where an event loop runs, call it in a thread.

    Args:
        by_environment: heed SSL_CERT_FILE and SSL_CERT_DIR.
    """
    import httpx

    return httpx.create_ssl_context(trust_env=by_environment)


def verification(url: str) -> "ssl.SSLContext | bool":
    """Return by what a client of this address judges its server, as httpx takes it."""
    return load_certificates() if needs_certificates(url) else False
