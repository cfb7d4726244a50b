"""Which databases an event source may name."""

from pathlib import Path

import pytest

from jobauto_prefect.errors import SourceUnavailable
from jobauto_prefect.sources.targets import (
    REFUSED,
    Network,
    Target,
    TargetRules,
    address_of,
    fault_of,
)


def at(host: str, port: str = "3306") -> Target:
    return Target("mysql", host, port, "changes")


def file(path: Path | str) -> Target:
    return Target("sqlite", "", "", str(path))


METADATA = (
    "169.254.169.254", "169.254.170.2", "169.254.42.42", "169.254.0.23", "fe80::a9fe:a9fe",
    "[fe80::1]", "fe80::1%eth0", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254",
    "fd00:c1::a9fe:a9fe", "fd00:42::42", "fd00:a9fe:a9fe::1", "100.100.100.200",
    "fd00:100::100:200", "168.63.129.16", "192.0.0.192", "0.0.0.0", "::", "224.0.0.1",
    "255.255.255.255",
)  # fmt: skip


@pytest.mark.parametrize("host", METADATA)
def test_link_local_and_metadata_addresses_are_refused(host: str) -> None:
    fault = fault_of(at(host), TargetRules())
    assert fault is not None
    assert "JOBAUTO_EVENT_SOURCE_TARGETS" in fault


@pytest.mark.parametrize("network", REFUSED, ids=str)
def test_every_refused_range_is_refused_from_end_to_end(network: Network) -> None:
    inside = (network[0], network[network.num_addresses // 2], network[-1])
    for address in inside:
        assert fault_of(at(str(address)), TargetRules()) is not None, address
    beside = [int(network[0]) - 1, int(network[-1]) + 1]
    free = [type(network[0])(number) for number in beside if 0 <= number < 2**network.max_prefixlen]
    for address in free:
        if not any(address in other for other in REFUSED):
            assert fault_of(at(str(address)), TargetRules()) is None, address


WRAPPED = (
    "::{}", "::ffff:{}", "::ffff:0:{}", "64:ff9b::{}", "64:ff9b:1::{}", "64:ff9b:1:ffff::{}",
    "2001:db8::5efe:{}", "2001:db8:1:2:200:5efe:{}", "fd00::5efe:{}",
)  # fmt: skip
"""The forms of IPv6 that end with an address of IPv4."""


@pytest.mark.parametrize("form", WRAPPED)
@pytest.mark.parametrize("network", [each for each in REFUSED if each.version == 4], ids=str)
def test_a_refused_address_is_refused_in_every_form(form: str, network: Network) -> None:
    for address in (network[0], network[-1]):
        if (form, str(address)) != ("::{}", "0.0.0.1"):
            assert fault_of(at(form.format(address)), TargetRules()) is not None


@pytest.mark.parametrize(
    "host",
    ["2002:a9fe:a9fe::", "2002:a83f:8110:1::1", "2001:0:a9fe:a9fe::1", "2001::1",
     "2001:0:808:808:0:0:5601:5601", "0:0:0:0:0:ffff:a9fe:a9fe", "[::ffff:a83f:8110]"],
)  # fmt: skip
def test_relays_to_refused_addresses_are_refused(host: str) -> None:
    assert fault_of(at(host), TargetRules()) is not None


@pytest.mark.parametrize(
    "host",
    ["::1", "127.0.0.1", "::ffff:127.0.0.1", "10.0.0.1", "64:ff9b::808:808", "2002:808:808::1",
     "fd00::1", "fd20:ce::253", "168.63.129.15", "2001:db8::1", "2001:4860:4860::8888"],
)  # fmt: skip
def test_other_addresses_are_free_in_every_form(host: str) -> None:
    assert fault_of(at(host), TargetRules()) is None


def test_an_entry_opens_an_address_in_every_form_and_no_other() -> None:
    rules = TargetRules(allowed=("169.254.7.1",))
    for form in ("{}", "::ffff:{}", "64:ff9b::{}"):
        assert fault_of(at(form.format("169.254.7.1")), rules) is None
        assert fault_of(at(form.format("169.254.7.2")), rules) is not None
    for wide in ("::/0", "::ffff:0:0/96", "64:ff9b::/96"):
        rules = TargetRules(allowed=(wide,))
        assert fault_of(at("::ffff:169.254.7.1"), rules) is not None
        assert fault_of(at("::ffff:10.0.0.1"), rules) is not None


def test_a_name_is_judged_by_the_address_it_leads_to() -> None:
    rules = TargetRules(allowed=("10.0.0.0/8",))
    assert fault_of(at("localhost"), rules) is None
    with pytest.raises(SourceUnavailable, match="not allowed"):
        address_of(at("localhost"), rules)
    # Numbers that only the resolver takes for an address.
    with pytest.raises(SourceUnavailable, match=r"169\.254\.169\.254"):
        address_of(at("0xA9FEA9FE"), TargetRules())


def test_without_a_list_other_addresses_are_free() -> None:
    assert address_of(at("127.0.0.1"), TargetRules()) == "127.0.0.1"
    assert fault_of(at("10.1.2.3"), TargetRules()) is None
    assert fault_of(at("2001:db8::1"), TargetRules()) is None


@pytest.mark.parametrize(
    ("entry", "opened"),
    [("169.254.7.0/24", True), ("169.254.7.1", True), ("0.0.0.0/0", False), ("10.0.0.0/8", False)],
)
def test_only_an_entry_that_means_it_opens_a_refused_address(entry: str, opened: bool) -> None:
    fault = fault_of(at("169.254.7.1"), TargetRules(allowed=(entry,)))
    assert (fault is None) is opened


@pytest.mark.parametrize(
    ("entry", "allowed"),
    [
        ("127.0.0.1", True),
        ("127.0.0.0/8", True),
        ("localhost", True),
        ("LOCALHOST", True),
        ("*.localhost", False),
        ("other.example", False),
        ("10.0.0.0/8", False),
    ],
)
def test_the_list_names_addresses_networks_and_hosts(entry: str, allowed: bool) -> None:
    rules = TargetRules(allowed=(entry,))
    if allowed:
        assert address_of(at("localhost"), rules) in {"127.0.0.1", "::1"}
    else:
        with pytest.raises(SourceUnavailable):
            address_of(at("localhost"), rules)


def test_subdomains_are_named_by_a_star() -> None:
    rules = TargetRules(allowed=("*.db.example",))
    assert rules.names("a.db.example")
    assert not rules.names("db.example")
    assert not rules.names("evildb.example")


@pytest.mark.parametrize(("host", "port"), [("", "1"), ("/run/x", "1"), ("h", "0"), ("h", "http")])
def test_what_is_no_host_or_port_is_refused(host: str, port: str) -> None:
    assert fault_of(at(host, port), TargetRules()) is not None


def test_files_are_absolute_and_none_of_the_service(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "link.db").symlink_to(home / "ledger.db")
    rules = TargetRules(home=home)
    assert fault_of(file(tmp_path / "adapter.db"), rules) is None
    for path in ("adapter.db", home / "ledger.db", tmp_path / "link.db", f"{home}/../home/x"):
        assert fault_of(file(path), rules) is not None


def test_the_list_names_folders_of_files(tmp_path: Path) -> None:
    rules = TargetRules(allowed=(f"{tmp_path}/adapters", "10.0.0.0/8"))
    assert fault_of(file(tmp_path / "adapters" / "a.db"), rules) is None
    assert fault_of(file(tmp_path / "adapters" / ".." / "a.db"), rules) is not None
    assert fault_of(file(tmp_path / "adapters-too" / "a.db"), rules) is not None
