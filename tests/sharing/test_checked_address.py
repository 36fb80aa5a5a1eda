from ipaddress import ip_address

import pytest

from agentvm.errors.tool import EgressRefused
from agentvm.model.address import IpAddress
from agentvm.model.public_address import AddressRules
from agentvm.sharing.checked_address import ADDRESSES_MAX, checked_addresses


def answering(*addresses: str) -> list[IpAddress]:
    return [ip_address(address) for address in addresses]


class Names:
    """A name server with one answer."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = tuple(answering(*addresses))
        self.asked: list[str] = []

    async def __call__(self, name: str, port: int) -> tuple[IpAddress, ...]:
        self.asked.append(name)
        if not self.addresses:
            raise OSError("no such name")
        return self.addresses


async def test_public_addresses_are_returned_and_only_a_few() -> None:
    names = Names(*(f"93.184.216.{number}" for number in range(1, 9)))
    addresses = await checked_addresses("Example.ORG", 443, AddressRules(), names)
    assert addresses == names.addresses[:ADDRESSES_MAX]
    assert names.asked == ["example.org"]


async def test_one_private_address_among_public_ones_refuses_the_host() -> None:
    with pytest.raises(EgressRefused):
        await checked_addresses("example.org", 443, AddressRules(), Names("93.184.216.34", "10.0.0.1"))


async def test_an_address_is_not_resolved_but_checked() -> None:
    names = Names("93.184.216.34")
    with pytest.raises(EgressRefused):
        await checked_addresses("127.0.0.1", 80, AddressRules(), names)
    assert await checked_addresses("127.0.0.1", 80, AddressRules.parse(["127.0.0.1:80"]), names) == (ip_address("127.0.0.1"),)
    assert names.asked == []


async def test_a_name_without_an_address_is_an_os_error_that_tells_nothing_else() -> None:
    with pytest.raises(OSError, match=r"^example\.org has no address$"):
        await checked_addresses("example.org", 443, AddressRules(), Names())


@pytest.mark.parametrize("name", ["2130706433", "0x7f.1", "127.1", "fe80::1%lo", "a b"])
async def test_a_text_that_is_no_host_is_refused(name: str) -> None:
    with pytest.raises(EgressRefused):
        await checked_addresses(name, 80, AddressRules(), Names("93.184.216.34"))
