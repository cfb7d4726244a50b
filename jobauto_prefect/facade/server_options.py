"""Options of uvicorn, so that the rules of `middleware/transport.py` hold under it."""

import ssl
from pathlib import Path
from typing import Any

from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.settings import Settings

SOCKET_BYTES = 4 * 1024 * 1024
"""Of a message in a socket."""


def server_options(settings: Settings) -> dict[str, Any]:
    """Return what every uvicorn of this service is started with, beside address and application.

    Raises:
        InvalidInput: certificate or key can't be used.
    """
    return plain_options() | tls_options(settings)


def plain_options() -> dict[str, Any]:
    """Return the options of a uvicorn that is reached within this machine alone."""
    return {
        # httptools, which uvicorn prefers where it is installed, lets requests through that h11
        # refuses: two hosts in one request, folded headers.
        "http": "h11",
        # Forwarding headers are believed by our rules alone; uvicorn takes them from any process
        # of this machine.
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
    """Return the certificate and key for uvicorn; empty where no TLS is configured.

    Raises:
        InvalidInput: one of both is missing, can't be read, or is not the other's.
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
        # A password is given, an empty one: else OpenSSL asks for it on the terminal.
        context.load_cert_chain(certificate, key, password="")
    except ssl.SSLError as error:
        reason = (error.reason or "no PEM").replace("_", " ").lower()
        message = f"{certificate} and {key} can't be used together, without a password: {reason}"
        raise _unusable("tls_cert", message) from None


def _unusable(name: str, message: str) -> InvalidInput:
    return InvalidInput([Fault(f"/{name}", "setting", message)], f"no HTTPS: {message}")
