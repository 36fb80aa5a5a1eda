import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from threading import Event

import anyio
import anyio.lowlevel
import pytest

from agentvm.model.address import IpAddress
from agentvm.sharing.name_lookup import DOMAIN_LOOKUPS_MAX, NameLookups, domain_of, resolve_host

HERE = (ip_address("192.0.2.1"),)


class SlowServer:
    """A name server that answers for `hangs.example` only when it is told to; any other name it knows, or not."""

    def __init__(self) -> None:
        self.answers = Event()

    def look_up(self, name: str, port: int) -> tuple[IpAddress, ...]:
        if name.endswith("hangs.example"):
            self.answers.wait(60)
        if name == "nobody.example":
            raise OSError("no such name")
        return HERE


@asynccontextmanager
async def lookups() -> AsyncIterator[tuple[NameLookups, SlowServer]]:
    server = SlowServer()
    names = NameLookups(server.look_up)
    with anyio.fail_after(60):
        try:
            yield names, server
        finally:
            server.answers.set()
            while names.running:  # noqa: ASYNC110 - a thread that nobody waits for tells nobody
                await anyio.sleep(0.001)


async def test_names_that_are_never_answered_keep_neither_other_names_nor_the_loop_waiting() -> None:
    async with lookups() as (names, _), anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(names.find, f"n{number}.hangs.example", 443)
        await anyio.lowlevel.checkpoint()
        assert await names.find("api.example", 443) == HERE
        assert await asyncio.get_running_loop().getaddrinfo("127.0.0.1", 80)
        assert names.running == DOMAIN_LOOKUPS_MAX
        tasks.cancel_scope.cancel()


async def test_who_gives_up_leaves_a_thread_that_counts_until_it_has_ended() -> None:
    async with lookups() as (names, server):
        for _ in range(3):
            with anyio.move_on_after(0.01):
                await names.find("www.hangs.example", 443)
        assert names.running == 3
        server.answers.set()
        assert await names.find("www.hangs.example", 443) == HERE


async def test_a_name_that_is_not_there_is_an_error_and_the_next_is_asked_for() -> None:
    async with lookups() as (names, _):
        with pytest.raises(OSError, match="no such name"):
            await names.find("nobody.example", 80)
        assert await names.find("api.example", 80) == HERE


@pytest.mark.parametrize(
    ("name", "domain"),
    [
        ("example.org", "example.org"),
        ("a.b.Example.ORG.", "example.org"),
        ("a.b.example.co.uk", "example.co.uk"),
        ("localhost", "localhost"),
    ],
)
def test_names_of_one_owner_have_one_domain(name: str, domain: str) -> None:
    assert domain_of(name) == domain


async def test_the_machine_knows_its_own_name() -> None:
    assert ip_address("127.0.0.1") in await resolve_host("localhost", 80)
