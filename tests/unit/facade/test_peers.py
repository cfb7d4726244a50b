"""Whether plain HTTP is private, who the client is, and which pages are other sites'."""

from ipaddress import ip_network

import pytest
from starlette.datastructures import Headers

from jobauto_prefect.facade.middleware.proxies import ClientConnection, read_connection

PROXIES = (ip_network("10.0.0.0/8"), ip_network("127.0.0.9/32"), ip_network("2001:db8::/32"))


def _headers(*lines: tuple[str, str]) -> Headers:
    return Headers(raw=[(name.lower().encode(), value.encode("latin-1")) for name, value in lines])


def _arrival(
    *lines: tuple[str, str],
    peer: str | None = "127.0.0.1",
    scheme: str = "http",
    host: str | None = "localhost:8000",
) -> ClientConnection:
    headers = _headers(*([("Host", host)] if host is not None else []), *lines)
    client = None if peer is None else (peer, 40000)
    return read_connection({"scheme": scheme, "client": client}, headers, PROXIES)


@pytest.mark.spec("5.8")
@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LocalHost:1",
        "127.0.0.1",
        "127.0.0.1:65535",
        "[::1]",
        "[::1]:8000",
        "jobauto.local",
        "jobauto.local:8000",
        "localhost:",
    ],
)
@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"])
def test_plain_http_within_this_machine_is_private(peer: str, host: str) -> None:
    assert _arrival(peer=peer, host=host).is_private


@pytest.mark.spec("5.8")
@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "jobauto.example",
        "evil.example:8000",
        "localhost.evil.example",
        "evil.localhost",
        "localhost.",
        "127.0.0.2",
        "127.0.0.1.nip.io",
        "0.0.0.0",
        "2130706433",
        "[::]",
        "::1",
        "user@localhost",
        "localhost:8000:8000",
        "localhost:http",
        "localhost:٣",
        "localhost, evil.example",
        "localhost/",
        " localhost",
        "jobauto.local.evil.example",
    ],
)
def test_a_name_that_is_not_local_is_not_answered_over_plain_http(host: str | None) -> None:
    host = None if host is None else host.encode().decode("latin-1")
    assert not _arrival(host=host).is_private


def test_two_host_headers_are_one_too_many() -> None:
    assert not _arrival(("Host", "localhost")).is_private


@pytest.mark.parametrize("peer", [None, "192.0.2.7", "10.1.1.1", "fe80::1", "testclient", ""])
def test_plain_http_from_elsewhere_is_not_private_whatever_its_host(peer: str | None) -> None:
    assert not _arrival(peer=peer).is_private


@pytest.mark.parametrize(
    "name",
    [
        "Forwarded",
        "X-Forwarded-For",
        "X-Forwarded-Proto",
        "X-Forwarded-Host",
        "X-Forwarded-Port",
        "X-Forwarded-Prefix",
        "X-Forwarded-Anything",
        "X-Real-IP",
        "X-Client-IP",
        "X-Cluster-Client-IP",
        "X-Original-URL",
        "X-Original-Forwarded-For",
        "X-Envoy-External-Address",
        "X-Scheme",
        "Front-End-Https",
        "True-Client-IP",
        "CF-Connecting-IP",
        "Via",
    ],
)
@pytest.mark.parametrize("value", ["https", "127.0.0.1", ""])
def test_a_forwarding_header_says_that_the_peer_is_not_who_asks(name: str, value: str) -> None:
    assert not _arrival((name, value)).is_private


@pytest.mark.parametrize("scheme", ["https", "wss"])
def test_tls_is_private_whoever_asks_for_whatever_name(scheme: str) -> None:
    arrival = _arrival(peer="192.0.2.7", scheme=scheme, host="jobauto.example")
    assert arrival.is_private
    assert arrival.client == ("192.0.2.7", 40000)


def test_forwarding_headers_of_strangers_change_nothing() -> None:
    lines = (("X-Forwarded-Proto", "https"), ("X-Forwarded-For", "192.0.2.99"))
    for peer in ("192.0.2.7", "127.0.0.1"):
        arrival = _arrival(*lines, peer=peer)
        assert (arrival.scheme, arrival.client, arrival.is_private) == (
            "http",
            (peer, 40000),
            False,
        )


def test_a_scheme_that_may_be_from_a_strangers_header_does_not_count() -> None:
    """As under a server that believes forwarding headers of this machine's processes."""
    line = ("X-Forwarded-Proto", "https")
    for peer in ("127.0.0.1", "192.0.2.7"):
        assert not _arrival(line, peer=peer, scheme="https").is_private


@pytest.mark.parametrize("peer", ["10.1.2.3", "127.0.0.9", "2001:db8::5", "::ffff:10.1.2.3"])
def test_a_trusted_proxy_says_that_its_client_came_over_https(peer: str) -> None:
    arrival = _arrival(("X-Forwarded-Proto", "https"), peer=peer, host="jobauto.example")
    assert (arrival.scheme, arrival.is_private) == ("https", True)
    socket = _arrival(("X-Forwarded-Proto", "https"), peer=peer, host="x", scheme="ws")
    assert (socket.scheme, socket.is_private) == ("wss", True)


@pytest.mark.parametrize("header", ["http", "", "https, http", "http, https", "on", "httpss"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_trusted_proxy_whose_client_came_over_plain_http_is_refused(
    header: str, scheme: str
) -> None:
    arrival = _arrival(("X-Forwarded-Proto", header), peer="10.1.2.3", scheme=scheme)
    assert (arrival.scheme, arrival.is_private) == ("http", False)


def test_a_trusted_proxy_that_says_nothing_is_refused() -> None:
    assert not _arrival(peer="10.1.2.3").is_private


@pytest.mark.parametrize(
    ("header", "client"),
    [
        ("192.0.2.99", "192.0.2.99"),
        ("127.0.0.1, 192.0.2.99", "192.0.2.99"),
        ("192.0.2.99, 10.0.0.7", "192.0.2.99"),
        ("192.0.2.99:1234", "192.0.2.99"),
        ("[2001:db9::1]:1234", "2001:db9::1"),
        ("2001:db9::1", "2001:db9::1"),
        ("192.0.2.99, unknown", "10.1.2.3"),
        ("10.0.0.7", "10.1.2.3"),
        ("", "10.1.2.3"),
    ],
)
def test_the_client_is_the_nearest_address_that_is_no_trusted_proxy(
    header: str, client: str
) -> None:
    arrival = _arrival(("X-Forwarded-For", header), peer="10.1.2.3")
    assert arrival.client is not None
    assert arrival.client[0] == client


@pytest.mark.parametrize(
    ("origin", "foreign"),
    [
        ("http://localhost:8000", False),
        ("http://LOCALHOST:8000", False),
        ("http://localhost", True),
        ("https://localhost:8000", True),
        ("http://127.0.0.1:8000", True),
        ("http://evil.example", True),
        ("http://localhost:8000.evil.example", True),
        ("http://localhost:99999", True),
        ("null", True),
        ("", True),
        ("file://", True),
    ],
)
def test_a_page_of_another_origin_is_another_site(origin: str, foreign: bool) -> None:
    assert _arrival().is_cross_site(_headers(("Origin", origin))) is foreign


@pytest.mark.parametrize("site", ["cross-site", "Cross-Site"])
def test_what_the_browser_calls_cross_site_is(site: str) -> None:
    assert _arrival().is_cross_site(_headers(("Sec-Fetch-Site", site)))
    assert not _arrival().is_cross_site(_headers(("Sec-Fetch-Site", "same-origin")))


def test_programs_send_no_origin_and_are_no_site() -> None:
    assert not _arrival().is_cross_site(_headers())


def test_a_foreign_origin_beside_the_own_one_is_foreign() -> None:
    both = _headers(("Origin", "http://localhost:8000"), ("Origin", "http://evil.example"))
    assert _arrival().is_cross_site(both)


def test_behind_a_trusted_proxy_its_name_is_ours() -> None:
    lines = (("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "jobauto.example"))
    origin = _headers(("Origin", "https://jobauto.example"))
    assert not _arrival(*lines, peer="10.1.2.3").is_cross_site(origin)
    assert _arrival(*lines, peer="192.0.2.7").is_cross_site(origin)


def test_a_default_port_may_be_left_out() -> None:
    arrival = _arrival(scheme="https", host="jobauto.example:443")
    assert not arrival.is_cross_site(_headers(("Origin", "https://jobauto.example")))


def test_a_request_without_a_host_has_no_own_origin() -> None:
    arrival = _arrival(scheme="https", host="")
    assert arrival.is_cross_site(_headers(("Origin", "null")))
