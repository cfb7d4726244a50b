"""Which databases and addresses this service may be made to connect to.

A source or a webhook names any host, and whoever may write them could make the service knock at
every door of its network. So link-local and metadata addresses are refused, and a list can say
what else is.
"""

import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from urllib.parse import urlsplit

from jobauto_prefect.errors import SourceUnavailable

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

REFUSED: Sequence[Network] = tuple(
    map(
        ip_network,
        (
            "169.254.0.0/16", "fe80::/10",  # link-local, where clouds serve their metadata
            "fd00:ec2::/32", "100.100.100.200/32", "192.0.0.192/32",  # metadata elsewhere
            "0.0.0.0/8", "::/128", "224.0.0.0/4", "ff00::/8",  # no host's address
        ),
    )
)  # fmt: skip
HIGHEST_PORT = 65535
NAT64 = IPv6Network("64:ff9b::/96")
SCHEMES = {"http": 80, "https": 443}
LONGEST_URL = 2000  # characters


@dataclass(frozen=True, slots=True)
class Target:
    """An adapter database, or (of the kind `web`) an address of a webhook or a check; of SQLite
    only `database` counts, the path of its file.
    """

    kind: str
    host: str
    port: str
    database: str = ""
    username: str | None = None
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class TargetRules:
    """`allowed` are addresses, networks, host names (`*.example.org` too) and folders of SQLite
    files; empty: all. Files below `home` are this service's own and never a source. `use` and
    `setting` are what faults call a target and the list.
    """

    allowed: Sequence[str] = ()
    home: Path | None = None
    use: str = "an event source"
    setting: str = "JOBAUTO_EVENT_SOURCE_TARGETS"

    @property
    def advice(self) -> str:
        """What helps where a target is refused."""
        return f"name it in {self.setting}"

    @property
    def networks(self) -> list[Network]:
        """The addresses and networks among the allowed."""
        return [network for entry in self.allowed if (network := _network(entry)) is not None]

    def names(self, host: str) -> bool:
        """Whether the list has this host by its name."""
        wanted = host.lower().rstrip(".")
        return any(
            wanted == entry.lower()
            or (entry.startswith("*.") and wanted.endswith(entry[1:].lower()))
            for entry in self.allowed
        )

    def has_folder_of(self, path: Path) -> bool:
        """Whether the list has a folder with this file in it."""
        folders = [Path(network) for network in self.allowed if network.startswith("/")]
        return any(path.is_relative_to(folder.resolve()) for folder in folders)


def fault_of(target: Target, rules: TargetRules) -> str | None:
    """Return why a target may not be used, by what its names tell; None: they tell nothing."""
    if target.kind == "sqlite":
        return _fault_of_file(target.database, rules)
    if not target.host or "/" in target.host:
        return "the host must be a name or an address"
    if target.port and not (target.port.isdecimal() and 0 < int(target.port) <= HIGHEST_PORT):
        return f"the port must be a number from 1 to {HIGHEST_PORT}"
    literal = _literal(target.host)
    return _fault_of_address(literal, target.host, rules) if literal else None


def web_target(url: str) -> Target:
    """Return where a request to this URL goes.

    Raises:
        ValueError: nothing may be asked or told there; the message says why.
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
    """Return why the address of a webhook or a check may not be used, as `fault_of` does.

    None: its names tell nothing.
    """
    try:
        return fault_of(web_target(url), rules)
    except ValueError as error:
        return str(error)


def address_of(target: Target, rules: TargetRules) -> str:
    """Return the address to connect to. Connecting by name again could lead elsewhere.

    Raises:
        SourceUnavailable: the host has no address, or none that may be used.
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
        SourceUnavailable: it may not be used.
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
    real = _embedded(address)
    networks = rules.networks
    for refused in REFUSED:
        if real in refused:
            opened = any(
                real in network
                and network.version == refused.version
                and network.subnet_of(refused)  # type: ignore[arg-type]
                for network in networks
            )
            message = f"the address {address} can't be {rules.use}'s; {rules.advice}"
            return None if opened else message
    if rules.allowed and not rules.names(host) and not any(real in network for network in networks):
        return f"{host} is not allowed as {rules.use}; {rules.advice}"
    return None


def _embedded(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address only wraps."""
    if isinstance(address, IPv4Address):
        return address
    if address in NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


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
