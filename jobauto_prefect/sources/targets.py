"""Which databases and addresses this service may connect to.

A source or a webhook names any host, so its author could make the service probe its whole network.
Therefore link-local and metadata addresses are refused, and a list can allow exceptions or restrict
targets further.
"""

import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from urllib.parse import urlsplit

from jobauto_prefect.errors import SourceUnavailable
from jobauto_prefect.ledger.records import EventSource
from jobauto_prefect.ledger.secrets import SecretBox
from jobauto_prefect.settings import Settings

Address = IPv4Address | IPv6Address

Network = IPv4Network | IPv6Network

METADATA: Sequence[Network] = tuple(
    map(
        ip_network,
        (
            # Link-local (RFC 3927, RFC 4291): AWS, Azure, Google, OpenStack, Oracle, Tencent …
            "169.254.0.0/16", "fe80::/10",
            "fd00:ec2::/32",  # AWS EC2 User Guide, "Access instance metadata"; EKS Pod Identity
            "fd20:ce::254/128",  # Google Compute Engine, "View and query VM metadata"
            "fd00:c1::a9fe:a9fe/128",  # Oracle Cloud: its SDK for Python, oci/auth
            "fd00:42::42/128",  # Scaleway: cloud-init's reference, "Scaleway"
            "fd00:a9fe:a9fe::1/128",  # Akamai (Linode): cloud-init's reference, "Akamai"
            "100.100.100.200/32", "fd00:100::100:200/128",  # Alibaba ECS, "Instance metadata"
            "168.63.129.16/32",  # Azure, "What is IP address 168.63.129.16?"
            "192.0.0.192/32",  # Oracle Cloud Infrastructure Classic, "Instance metadata"
        ),
    )
)  # fmt: skip
"""Metadata services of clouds, which reveal a machine's passwords, and their documentation."""

UNUSABLE: Sequence[Network] = tuple(
    map(
        ip_network,
        (
            # Not addresses of hosts (IANA's registries of special-purpose addresses).
            "0.0.0.0/8", "255.255.255.255/32", "224.0.0.0/4", "::/128", "ff00::/8",
            # Lead to any IPv4 address: a network's own NAT64 (RFC 8215), Teredo (RFC 4380).
            "64:ff9b:1::/48", "2001::/32",
        ),
    )
)  # fmt: skip

REFUSED = (*METADATA, *UNUSABLE)

ENDING_WITH_IPV4: Sequence[IPv6Network] = tuple(
    map(
        IPv6Network,
        (
            "::/96", "::ffff:0:0/96",  # IPv4-compatible and IPv4-mapped (RFC 4291, 2.5.5)
            "::ffff:0:0:0/96",  # IPv4-translated (RFC 2765, 2.1)
            "64:ff9b::/96",  # NAT64 (RFC 6052)
        ),
    )
)  # fmt: skip

ISATAP = frozenset({0x0000_5EFE, 0x0200_5EFE})
"""Bits before the IPv4 address at the end of an ISATAP address of any network (RFC 5214, 6.1)."""

HIGHEST_PORT = 65535

SCHEMES = {"http": 80, "https": 443}

LONGEST_URL = 2000  # characters


@dataclass(frozen=True, slots=True)
class Target:
    """An adapter database, or (kind `web`) the address of a webhook or a check.

    For SQLite only `database` counts, the path of its file.
    """

    kind: str
    host: str
    port: str
    database: str = ""
    username: str | None = None
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class TargetRules:
    """Allowed targets, and the words for them in messages.

    `allowed` are addresses, networks, host names (`*.example.org` too) and folders of SQLite files;
    empty: all. Files below `home` belong to this service and are never a source. `use` and
    `setting` are the names of a target and of the list in messages.
    """

    allowed: Sequence[str] = ()
    home: Path | None = None
    use: str = "an event source"
    setting: str = "JOBAUTO_EVENT_SOURCE_TARGETS"

    @property
    def advice(self) -> str:
        """Advice for a refused target."""
        return f"name it in {self.setting}"

    def names(self, host: str) -> bool:
        wanted = host.lower().rstrip(".")
        return any(
            wanted == entry.lower()
            or (entry.startswith("*.") and wanted.endswith(entry[1:].lower()))
            for entry in self.allowed
        )

    def has_folder_of(self, path: Path) -> bool:
        """Whether the list has a folder that contains this file."""
        folders = [Path(network) for network in self.allowed if network.startswith("/")]
        return any(path.is_relative_to(folder.resolve()) for folder in folders)


def fault_of(target: Target, rules: TargetRules) -> str | None:
    """Return why a target may not be used, judging by its names; None: they do not tell."""
    if target.kind == "sqlite":
        return _fault_of_file(target.database, rules)
    if not target.host or "/" in target.host:
        return "the host must be a name or an address"
    if target.port and not (target.port.isdecimal() and 0 < int(target.port) <= HIGHEST_PORT):
        return f"the port must be a number from 1 to {HIGHEST_PORT}"
    literal = _literal(target.host)
    return _fault_of_address(literal, target.host, rules) if literal else None


def web_target(url: str) -> Target:
    """Return the target of a request to this URL.

    Raises:
        ValueError: it is invalid or forbidden; the message says why.
    """
    if len(url) > LONGEST_URL or not url.isprintable():
        raise ValueError(f"must be at most {LONGEST_URL} printable characters")
    parts = urlsplit(url)  # raises ValueError, too
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise ValueError("must be an address like https://host/path")
    if "@" in parts.netloc or parts.fragment:
        raise ValueError("must hold no user, password or fragment")
    return Target("web", parts.hostname, str(parts.port or SCHEMES[parts.scheme]))


def fault_of_url(url: str, rules: TargetRules) -> str | None:
    """Return why the URL of a webhook or a check may not be used, like `fault_of`.

    None: its names do not tell.
    """
    try:
        return fault_of(web_target(url), rules)
    except ValueError as error:
        return str(error)


def address_of(target: Target, rules: TargetRules) -> str:
    """Return the address to connect to, because resolving the name again could lead elsewhere.

    Raises:
        SourceUnavailable: the host has no address, or none that is allowed.
    """
    fault = fault_of(target, rules)
    if fault is not None:
        raise SourceUnavailable(fault)
    fault = f"the host {target.host} has no address"
    try:
        addresses = socket.getaddrinfo(target.host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        addresses = []
    for *_, place in addresses:
        text = str(place[0])
        fault = _fault_of_address(ip_address(text.partition("%")[0]), target.host, rules)
        if fault is None:
            return text
    raise SourceUnavailable(fault or "")


def file_of(target: Target, rules: TargetRules) -> Path:
    """Return the file of an SQLite source.

    Raises:
        SourceUnavailable: it is not allowed.
    """
    fault = _fault_of_file(target.database, rules)
    if fault is not None:
        raise SourceUnavailable(fault)
    return Path(target.database).resolve()


def _fault_of_file(database: str, rules: TargetRules) -> str | None:
    if not database.startswith("/") or "\0" in database:
        return "the database must be the absolute path of an SQLite file"
    path = Path(database).resolve()
    if rules.home is not None and path.is_relative_to(rules.home.resolve()):
        return "files of this service can't be event sources"
    if rules.allowed and not rules.has_folder_of(path):
        return f"this file is not allowed as {rules.use}; {rules.advice}"
    return None


def _fault_of_address(address: Address, host: str, rules: TargetRules) -> str | None:
    wrapped = list(_wrapped(address))
    networks = [network for entry in rules.allowed if (network := _network(entry)) is not None]
    hits = [
        (real, refused) for real in (address, *wrapped) for refused in REFUSED if real in refused
    ]
    for real, refused in hits:
        if not any(real in network and _is_part(network, refused) for network in networks):
            return f"the address {address} can't be {rules.use}'s; {rules.advice}"
    is_listed = all(any(real in network for network in networks) for real in wrapped or (address,))
    if rules.allowed and not (hits or rules.names(host) or is_listed):
        return f"{host} is not allowed as {rules.use}; {rules.advice}"
    return None


def _is_part(network: Network, of: Network) -> bool:
    return network.version == of.version and network.subnet_of(of)  # type: ignore[arg-type]


def _wrapped(address: Address) -> Iterator[IPv4Address]:
    """Yield the IPv4 addresses that an IPv6 address leads to."""
    if isinstance(address, IPv4Address) or address.is_loopback:
        return
    before, last = int(address) >> 32 & 0xFFFFFFFF, int(address) & 0xFFFFFFFF
    if before in ISATAP or any(address in network for network in ENDING_WITH_IPV4):
        yield IPv4Address(last)
    if address.sixtofour is not None:
        yield address.sixtofour


def _literal(host: str) -> Address | None:
    try:
        return ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None


def _network(text: str) -> Network | None:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


PASSWORD = "db_password"  # noqa: S105 - the name of a column


def source_target(source: EventSource, box: SecretBox) -> Target:
    """Return the database of a source, with its password in plain text.

    Raises:
        KeyMissing: the password was stored with another key.
    """
    sealed = {PASSWORD: source.db_password} if source.db_password else {}
    return Target(
        kind=source.db_connection,
        host=source.db_host,
        port=source.db_port,
        database=source.db_database,
        username=source.db_username,
        password=box.open(sealed).get(PASSWORD),
    )


def source_rules(settings: Settings) -> TargetRules:
    """Return the databases that the settings allow."""
    return TargetRules(settings.event_source_targets, settings.home)


def webhook_rules(settings: Settings) -> TargetRules:
    """Return the targets that the settings allow for webhooks."""
    return TargetRules(settings.webhook_targets, use="a webhook", setting="JOBAUTO_WEBHOOK_TARGETS")
