"""The origin of a request: its peer, the trusted proxies' headers, and the page that sent it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

from jobauto_prefect.facade.auth.request_state import OPERATOR

Address = IPv4Address | IPv6Address
Networks = Sequence[IPv4Network | IPv6Network]
Origin = tuple[str, str | None, int | None]

DEVELOPMENT_HOST = "jobauto.local"
"""The one name beside localhost that is answered over plain HTTP (specification, section 5)."""

_LOCAL_HOST = re.compile(
    rf"(localhost|127\.0\.0\.1|\[::1\]|{re.escape(DEVELOPMENT_HOST)})(:[0-9]{{0,5}})?",
    re.IGNORECASE,
)
_PROXY_HEADERS = re.compile(
    r"forwarded|via|x-(forwarded|real|original|client|cluster-client|envoy)-.+|x-forwarded"
    r"|true-client-ip|cf-connecting-ip|fastly-client-ip|front-end-https|x-(url-)?scheme"
)
"""Headers that proxies add: with one of them the peer is not the client."""

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class ClientConnection:
    """How a request came; `client` is address and port, None where it has none.

    `is_private`: nobody between the client and here could read it. `hosts` are the names by
    which the client may have called this service.
    """

    scheme: str
    client: tuple[str, int] | None
    is_private: bool
    hosts: tuple[str, ...]

    def is_cross_site(self, headers: Headers) -> bool:
        """Whether a page of another site made the browser send this."""
        if any(value.lower() == "cross-site" for value in headers.getlist("sec-fetch-site")):
            return True
        scheme = "https" if _is_encrypted(self.scheme) else "http"
        own = {_origin(f"{scheme}://{host}") for host in self.hosts} - {None}
        return any(_origin(value) not in own for value in headers.getlist("origin"))


def read_connection(scope: Scope, headers: Headers, trusted: Networks) -> ClientConnection:
    """Return how this request came, according to its connection and the trusted proxies."""
    client: tuple[str, int] | None = scope.get("client")
    peer = _address(client[0]) if client else None
    hosts = headers.getlist("host")
    scheme = scope["scheme"]
    if client is None or peer is None or not _is_in(peer, trusted):
        # A server may have taken the scheme from this header, even a stranger's.
        encrypted = _is_encrypted(scheme) and "x-forwarded-proto" not in headers
        is_operator = scope.get("state", {}).get(OPERATOR) is not None
        local = is_operator or (peer is not None and _is_local(peer, hosts, headers))
        return ClientConnection(scheme, client, encrypted or local, tuple(hosts))
    schemes = _list_values(headers, "x-forwarded-proto")
    if schemes:
        encrypted = all(value.lower() in ("https", "wss") for value in schemes)
        plain = "ws" if scheme in ("ws", "wss") else "http"
        scheme = f"{plain}s" if encrypted else plain
    private = _is_encrypted(scheme) or _is_local(peer, hosts, headers)
    hosts += _list_values(headers, "x-forwarded-host")
    return ClientConnection(
        scheme, _client_behind_proxies(client, headers, trusted), private, tuple(hosts)
    )


def _is_encrypted(scheme: str) -> bool:
    return scheme in ("https", "wss")


def _is_local(peer: Address, hosts: list[str], headers: Headers) -> bool:
    return (
        peer.is_loopback
        and len(hosts) == 1
        and _LOCAL_HOST.fullmatch(hosts[0]) is not None
        and not any(_PROXY_HEADERS.fullmatch(name) for name in headers.keys())  # noqa: SIM118
    )


def _client_behind_proxies(
    client: tuple[str, int], headers: Headers, trusted: Networks
) -> tuple[str, int]:
    """Return the right-most untrusted address in X-Forwarded-For; entries left of it can be forged.

    The peer itself if there is none, or if it can't be parsed.
    """
    for text in reversed(_list_values(headers, "x-forwarded-for")):
        address = _address(_without_port(text))
        if address is None:
            return client
        if not _is_in(address, trusted):
            return str(address), 0
    return client


def _is_in(address: Address, networks: Networks) -> bool:
    return any(address in network for network in networks)


def _list_values(headers: Headers, name: str) -> list[str]:
    """Return the values of a list header, from all its lines."""
    return [item.strip() for line in headers.getlist(name) for item in line.split(",")]


def _address(text: str) -> Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _without_port(text: str) -> str:
    """Return `192.0.2.1:80` or `[2001:db8::1]:80` without the port."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


def _origin(text: str) -> Origin | None:
    """Return scheme, host and port of an origin; None: it is opaque, or no origin at all."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not parts.hostname:
        return None
    return parts.scheme, parts.hostname, port or _PORTS[parts.scheme]
