from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from agentvm.drivers.base import Driver, DriverSettings
from agentvm.drivers.models import Models
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.errors import DriverNotFound
from agentvm.model.ids import TenantId
from agentvm.model.secret import Secret
from agentvm.storage.sqlite import open_store
from agentvm.tenants import own_keys
from agentvm.tenants.own_keys import OwnKeys, secret_name
from agentvm.tenants.vault import Vault

pytestmark = pytest.mark.anyio

ACME, RIVAL = TenantId("acme"), TenantId("rival")


class Shop:
    """Opens drivers, and knows which are open and with what."""

    def __init__(self, vault: Vault) -> None:
        self.now = 1_000_000
        self.vault = vault
        self.open: list[DriverSettings] = []
        self.closing = anyio.Event()
        self.may_close = anyio.Event()
        self.may_close.set()
        self.server = ScriptedDriver()
        models = Models({"openai": self.server}, "openai")
        self.keys = OwnKeys(
            models, vault, lambda name: SETTINGS, lambda: self.now, open_one=self._open, with_keys=("openai", "anthropic")
        )

    @asynccontextmanager
    async def _open(self, name: str, settings: DriverSettings) -> AsyncIterator[Driver]:
        self.open.append(settings)
        try:
            yield ScriptedDriver()
        finally:
            self.closing.set()
            await self.may_close.wait()
            self.open.remove(settings)

    async def put(self, key: str, driver: str = "openai", tenant_id: TenantId = ACME) -> None:
        await self.vault.put(tenant_id, secret_name(driver), Secret(key))
        self.keys.forget(tenant_id)

    def used(self) -> list[str]:
        return [settings.api_key.reveal() for settings in self.open if settings.api_key is not None]


SETTINGS = DriverSettings(api_key=Secret("the server's"), base_url="http://the.servers.own")


@asynccontextmanager
async def shop() -> AsyncIterator[Shop]:
    async with open_store(None) as store:
        shop = Shop(Vault(store, key=bytes(32), clock=lambda: 1))
        yield shop
        await shop.keys.aclose()
        assert shop.open == []


async def test_a_tenant_without_a_key_uses_the_servers() -> None:
    async with shop() as here:
        async with here.keys.choose(ACME, "openai/gpt") as chosen:
            assert (chosen.driver, chosen.model, chosen.own_key) == (here.server, "gpt", False)
        assert not await here.keys.has(ACME, None)
        assert here.open == []


async def test_a_tenants_key_goes_to_the_providers_own_address_and_serves_nobody_else() -> None:
    async with shop() as here:
        await here.put("acmes own")
        async with here.keys.choose(ACME, "openai/gpt") as chosen:
            assert (chosen.model, chosen.own_key) == ("gpt", True)
            assert chosen.driver is not here.server
            assert here.used() == ["acmes own"]
            assert here.open[0].base_url is None
        async with here.keys.choose(RIVAL, "openai/gpt") as chosen:
            assert (chosen.driver, chosen.own_key) == (here.server, False)
        # Opened once, however many turns use it.
        async with here.keys.choose(ACME, None) as first, here.keys.choose(ACME, None) as second:
            assert first.driver is second.driver
        assert len(here.open) == 1


async def test_a_provider_the_server_has_no_key_for_is_there_for_who_brings_one() -> None:
    async with shop() as here:
        with pytest.raises(DriverNotFound):
            async with here.keys.choose(ACME, "anthropic/claude"):
                pass
        await here.put("own", "anthropic")
        assert await here.keys.has(ACME, "anthropic/claude")
        async with here.keys.choose(ACME, "anthropic/claude") as chosen:
            assert chosen.own_key


async def test_a_changed_key_is_used_by_the_next_turn_and_the_running_one_goes_on() -> None:
    async with shop() as here:
        await here.put("old")
        async with here.keys.choose(ACME, None):
            await here.put("new")
            async with here.keys.choose(ACME, None):
                assert here.used() == ["old", "new"]
        assert here.used() == ["new"]


async def test_a_removed_key_is_no_longer_used() -> None:
    async with shop() as here:
        await here.put("own")
        await here.vault.remove(ACME, secret_name("openai"))
        here.keys.forget(ACME)
        async with here.keys.choose(ACME, None) as chosen:
            assert not chosen.own_key


async def test_a_change_from_elsewhere_is_seen_after_a_while() -> None:
    async with shop() as here:
        assert not await here.keys.has(ACME, None)
        await here.vault.put(ACME, secret_name("openai"), Secret("own"))
        assert not await here.keys.has(ACME, None)
        here.now += own_keys.REMEMBERED + 1
        assert await here.keys.has(ACME, None)


async def test_drivers_nobody_uses_are_closed_when_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_keys, "MAX_OPEN", 2)
    async with shop() as here:
        for number in range(4):
            tenant_id = TenantId(f"t{number}")
            await here.put(f"key {number}", tenant_id=tenant_id)
            async with here.keys.choose(tenant_id, None):
                pass
        assert here.used() == ["key 2", "key 3"]


async def test_a_driver_is_not_closed_before_its_first_turn_has_used_it() -> None:
    async with shop() as here:
        await here.put("first")
        async with here.keys.choose(ACME, None):
            pass
        await here.put("second")
        here.may_close = anyio.Event()

        async def turn() -> None:
            async with here.keys.choose(ACME, None) as chosen:
                assert chosen.own_key
                assert "second" in here.used()

        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                # It waits for the first driver to close, and meanwhile the second is replaced.
                tasks.start_soon(turn)
                await here.closing.wait()
                await here.put("third")
                async with here.keys.choose(ACME, None):
                    here.may_close.set()
        assert here.used() == ["third"]


class Held(Vault):
    """Answers late: the test lets it."""

    asked: anyio.Event
    go: anyio.Event

    async def get(self, tenant_id: TenantId, name: str) -> Secret | None:
        found = await super().get(tenant_id, name)
        self.asked.set()
        await self.go.wait()
        return found


async def test_a_key_that_was_changed_while_it_was_read_is_read_again() -> None:
    async with open_store(None) as store:
        vault = Held(store, key=bytes(32), clock=lambda: 1)
        vault.asked, vault.go = anyio.Event(), anyio.Event()
        here = Shop(vault)
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(here.keys.has, ACME, None)
                await vault.asked.wait()
                await here.put("own")
                vault.go.set()
            assert await here.keys.has(ACME, None)
