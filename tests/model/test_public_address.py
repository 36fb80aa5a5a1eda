from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.model.public_address import AddressRules, Host, carried_addresses, is_public, parse_host

PRIVATE = (
    "0.0.0.0", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.255", "169.254.169.254", "172.16.0.1",
    "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.168.1.1", "198.18.0.1", "198.51.100.7", "203.0.113.9", "224.0.0.1",
    "255.255.255.255", "240.0.0.1", "168.63.129.16", "::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:7f00:1",
    "::ffff:a9fe:a9fe", "64:ff9b::7f00:1", "64:ff9b::10.0.0.1", "64:ff9b:1::8.8.8.8", "2002:7f00:1::", "2002:a9fe:a9fe::1",
    "2001:0:7f00:1::f7f7:f7f7", "2001:0:808:808::80ff:fffe", "2001:db8::1", "3fff::1", "fc00::1", "fd00:ec2::254", "fe80::1",
    "fe80::1%eth0", "2606:4700::1%eth0", "fec0::1", "ff02::1", "100::1", "5f00::1", "2a00:1450::5efe:10.0.0.1",
    "2a00:1450::200:5efe:127.0.0.1",
)  # fmt: skip
PUBLIC = (
    "8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "192.0.1.1", "168.63.129.17", "2606:4700::1111", "2a00:1450:4001::200e",
    "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1", "2001:0:808:808::f7f7:f7f7", "2001:4860:4860::8888",
    "2a00:1450::5efe:8.8.8.8",
)  # fmt: skip


@pytest.mark.parametrize("text", PRIVATE)
def test_an_address_that_is_not_of_the_public_internet_is_refused_in_every_wrapping(text: str) -> None:
    assert not is_public(ip_address(text))


@pytest.mark.parametrize("text", PUBLIC)
def test_a_public_address_is_allowed_in_every_wrapping(text: str) -> None:
    assert is_public(ip_address(text))


@given(st.ip_addresses(v=4))
def test_a_wrapping_never_changes_the_verdict(address: IPv4Address) -> None:
    number = int(address)
    for wrapped in ((0xFFFF << 32) + number, (0x64FF9B << 96) + number, (0x2002 << 112) + (number << 80)):
        assert carried_addresses(IPv6Address(wrapped)) == (address,)
        assert is_public(IPv6Address(wrapped)) == is_public(address)


@given(st.ip_addresses(v=4))
def test_nothing_that_python_calls_private_is_public_here(address: IPv4Address) -> None:
    assert not (is_public(address) and (address.is_private or address.is_multicast or address.is_reserved))


@pytest.mark.parametrize(
    "text",
    [
        "2130706433", "0x7f000001", "0x7f.0.0.1", "017700000001", "0177.0.0.1", "127.1", "127.0.1", "1.2.3.4.5", "256.1.1.1",
        "127.0.0.1.", "a.0x", "a.1", "", ".", "a..b", "-a.b", "a b", "a/b", "a@b", "a:b", "[::1]", "fe80::1%eth0", "::1%25lo",
        "１２７.0.0.1", "ⓛocalhost", "a" * 64, "a." * 127 + "ab", "ex\x00ample.org", "127.0.0.1\n",
    ],
)  # fmt: skip
def test_a_host_that_programs_read_differently_is_no_host(text: str) -> None:
    assert parse_host(text) is None


def test_a_host_has_one_form() -> None:
    assert parse_host("API.Example.ORG.") == Host("api.example.org")
    assert parse_host("xn--bcher-kva.example") == Host("xn--bcher-kva.example")
    assert parse_host("::FFFF:7f00:1") == Host("::ffff:7f00:1", ip_address("::ffff:7f00:1"))
    assert parse_host("8.8.8.8") == Host("8.8.8.8", ip_address("8.8.8.8"))
    assert parse_host("3com.example") is not None


def test_an_operator_allows_networks_addresses_with_a_port_and_named_endpoints() -> None:
    rules = AddressRules.parse(["10.0.0.0/8", "127.0.0.1:8888", "[::1]:9", "search.corp:8080"])
    ten, loopback, six = ip_address("10.1.2.3"), ip_address("127.0.0.1"), ip_address("::1")
    assert rules.allows(Host("x.example"), ten, 443)
    assert rules.allows(Host("x.example"), ip_address("::ffff:10.1.2.3"), 443)
    assert rules.allows(Host("x.example"), loopback, 8888)
    assert not rules.allows(Host("x.example"), loopback, 8889)
    assert rules.allows(Host("x.example"), six, 9)
    assert not rules.allows(Host("x.example"), six, 10)
    assert rules.allows(Host("search.corp"), loopback, 8080)
    assert not rules.allows(Host("search.corp"), loopback, 80)
    assert not rules.allows(Host("evil.example"), ip_address("192.168.0.1"), 8080)
    assert rules.allows(Host("evil.example"), ip_address("8.8.8.8"), 1)


@pytest.mark.parametrize("entry", ["", "example.org", "example.org:0", "example.org:99999", "10.0.0.0/40", "127.1:80", "*:80"])
def test_an_entry_that_is_neither_network_nor_endpoint_is_named(entry: str) -> None:
    with pytest.raises(ValueError, match="neither a network"):
        AddressRules.parse([entry])
