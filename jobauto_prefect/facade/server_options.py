"""Uvicorn options that preserve the rules of `middleware/transport.py`."""

import ssl
from pathlib import Path
from typing import Any

from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.settings import Settings

SOCKET_BYTES = 4 * 1024 * 1024
"""Of a message in a socket."""


def server_options(settings: Settings) -> dict[str, Any]:
    """Return the options of every uvicorn of this service, besides address and application.

    Raises:
        InvalidInput: certificate or key can't be used.
    """
    return plain_options() | tls_options(settings)


def plain_options() -> dict[str, Any]:
    """Return the options of a uvicorn that is reachable only on this machine."""
    return {
        # httptools, which uvicorn prefers where it is installed, lets requests through that h11
        # refuses: two hosts in one request, folded headers.
        "http": "h11",
        # Only this service's rules decide which forwarding headers are trusted; uvicorn trusts any
        # process on this machine.
        "proxy_headers": False,
        # Requests are logged without their query strings, which hold passwords: uvicorn's access
        # log shows them, and so does what it says of sockets at the level of information.
        "access_log": False,
        "log_level": "warning",
        "log_config": None,
        "server_header": False,
        # Sockets are Prefect's; what its clients send there is parsed by the gateway.
        "ws_max_size": SOCKET_BYTES,
    }


def tls_options(settings: Settings) -> dict[str, Any]:
    """Return the certificate and key for uvicorn; empty if TLS is not configured.

    Raises:
        InvalidInput: one of the two is missing or unreadable, or they do not match.
    """
    certificate, key = settings.tls_cert, settings.tls_key
    if certificate is None and key is None:
        return {}
    if certificate is None or key is None:
        missing = "tls_cert" if certificate is None else "tls_key"
        raise _unusable(missing, f"JOBAUTO_{missing.upper()} must be given, too")
    for name, path in (("tls_cert", certificate), ("tls_key", key)):
        try:
            path.read_bytes()
        except OSError as error:
            raise _unusable(name, f"{path} can't be read: {error.strerror}") from None
    _require_pair(certificate, key)
    return {"ssl_certfile": str(certificate), "ssl_keyfile": str(key)}


def _require_pair(certificate: Path, key: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # An empty password is given: otherwise OpenSSL asks for one on the terminal.
        context.load_cert_chain(certificate, key, password="")
    except ssl.SSLError as error:
        reason = (error.reason or "no PEM").replace("_", " ").lower()
        message = f"{certificate} and {key} can't be used together, without a password: {reason}"
        raise _unusable("tls_cert", message) from None


def _unusable(name: str, message: str) -> InvalidInput:
    return InvalidInput([Fault(f"/{name}", "setting", message)], f"no HTTPS: {message}")
