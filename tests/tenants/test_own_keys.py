from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from decimal import Decimal

import anyio
import pytest

from agentvm.drivers.base import Driver, DriverSettings
from agentvm.drivers.models import Models, Provider
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.errors import AccessDenied, ConfigInvalid, DriverNotFound, InvalidInput, MissingKey, ProviderRateLimited
from agentvm.model.ids import ImageId, TenantId
from agentvm.model.money import ModelRate
from agentvm.model.secret import Secret
from agentvm.storage.engine import open_store
from agentvm.tenants import own_keys
from agentvm.tenants.own_keys import OwnKeys, secret_name
from agentvm.tenants.price import Prices
from agentvm.tenants.vault import Vault

ACME, RIVAL = TenantId("acme"), TenantId("rival")
IMAGE = ImageId("img_1")


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
        async with here.keys.choose(ACME, "openai/gpt") as (chosen,):
            assert (chosen.driver, chosen.model, chosen.own_key) == (here.server, "gpt", False)
        assert not await here.keys.has(ACME, None)
        assert here.open == []


async def test_what_keeps_a_model_from_answering_for_a_tenant_is_told_with_the_remedy() -> None:
    async with shop() as here:
        assert await here.keys.unusable(ACME, "openai/gpt") is None
        told = await here.keys.unusable(ACME, "anthropic")
        assert told is not None
        assert "choose one of: openai; or store a key of the tenant's own first: avm secret set provider.anthropic" in told
        await here.put("sk-acme", "anthropic")
        assert await here.keys.unusable(ACME, "anthropic/claude") is None
        assert await here.keys.unusable(RIVAL, "anthropic/claude") is not None
        keyless = await here.keys.unusable(ACME, "local")
        assert keyless == "'local' is not open on this server; choose one of: openai"


async def test_a_tenants_key_goes_to_the_providers_own_address_and_serves_nobody_else() -> None:
    async with shop() as here:
        await here.put("acmes own")
        async with here.keys.choose(ACME, "openai/gpt") as (chosen,):
            assert (chosen.model, chosen.own_key) == ("gpt", True)
            assert chosen.driver is not here.server
            assert here.used() == ["acmes own"]
            assert here.open[0].base_url is None
        async with here.keys.choose(RIVAL, "openai/gpt") as (chosen,):
            assert (chosen.driver, chosen.own_key) == (here.server, False)
        # Opened once, however many turns use it.
        async with here.keys.choose(ACME, None) as (first,), here.keys.choose(ACME, None) as (second,):
            assert first.driver is second.driver
        assert len(here.open) == 1


async def test_a_provider_the_server_has_no_key_for_is_there_for_who_brings_one() -> None:
    async with shop() as here:
        with pytest.raises(DriverNotFound):
            async with here.keys.choose(ACME, "anthropic/claude"):
                pass
        await here.put("own", "anthropic")
        assert await here.keys.has(ACME, "anthropic/claude")
        async with here.keys.choose(ACME, "anthropic/claude") as (chosen,):
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
        async with here.keys.choose(ACME, None) as (chosen,):
            assert not chosen.own_key


async def test_a_change_from_elsewhere_is_seen_after_a_while() -> None:
    async with shop() as here:
        assert not await here.keys.has(ACME, None)
        await here.vault.put(ACME, secret_name("openai"), Secret("own"))
        assert not await here.keys.has(ACME, None)
        here.now += own_keys.KEY_CACHE_MS + 1
        assert await here.keys.has(ACME, None)


async def test_drivers_nobody_uses_are_closed_when_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_keys, "OPEN_DRIVERS_MAX", 2)
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
            async with here.keys.choose(ACME, None) as (chosen,):
                assert chosen.own_key
                assert "second" in here.used()

        with anyio.fail_after(60):
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
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(here.keys.has, ACME, None)
                await vault.asked.wait()
                await here.put("own")
                vault.go.set()
            assert await here.keys.has(ACME, None)


@asynccontextmanager
async def chain(*fallback: str) -> AsyncIterator[tuple[OwnKeys, Vault, list[tuple[str, DriverSettings]]]]:
    """Three providers with the server's keys, two of them under names of the operator's; and what tenants have open."""
    opened: list[tuple[str, DriverSettings]] = []

    @asynccontextmanager
    async def open_one(name: str, settings: DriverSettings) -> AsyncIterator[Driver]:
        opened.append((name, settings))
        yield Plain("scripted" if name == "local" else name)

    providers = [
        Provider(name="openai", driver="openai", settings=DriverSettings(base_url="http://server.test")),
        Provider(name="corp", driver="openai", settings=DriverSettings(base_url="http://corp.test")),
        Provider(name="local", driver="local", settings=DriverSettings()),
    ]
    async with open_store(None) as store, Models(open_one=open_one) as models:
        vault = Vault(store, key=bytes(32), clock=lambda: 1)
        await models.configure(providers, default="openai/gpt", fallback=fallback)
        opened.clear()
        keys = OwnKeys(models, vault, lambda name: SETTINGS, lambda: 1, open_one=open_one, with_keys=("openai", "anthropic"))
        yield keys, vault, opened
        await keys.aclose()


class Plain(ScriptedDriver):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


async def test_who_pays_the_provider_itself_is_not_sent_to_one_that_the_server_would_charge_for() -> None:
    async with chain("corp", "local") as (keys, vault, _):
        async with keys.choose(ACME, None) as candidates:
            assert [(one.name, one.own_key) for one in candidates] == [
                ("openai/gpt", False), ("corp/scripted", False), ("local/scripted", False),
            ]  # fmt: skip
        await vault.put(ACME, secret_name("openai"), Secret("own"))
        keys.forget(ACME)
        async with keys.choose(ACME, None) as candidates:
            assert [(one.provider, one.own_key) for one in candidates] == [("openai", True), ("local", False)]
        # Who is charged for the chosen one anyway may be sent to one that they pay themselves.
        async with keys.choose(ACME, "corp") as candidates:
            assert [(one.provider, one.own_key) for one in candidates] == [("corp", False), ("local", False)]


async def test_a_model_of_this_machine_that_the_operator_charges_for_is_no_free_stand_in() -> None:
    prices = Prices({"local": ModelRate(input=Decimal(0), output=Decimal("0.01"))})
    async with chain("local") as (keys, vault, _):
        keys._free = lambda one: prices.is_free(one.driver.name, one.model, one.provider)
        await vault.put(ACME, secret_name("openai"), Secret("own"))
        async with keys.choose(ACME, None) as candidates:
            assert [one.provider for one in candidates] == ["openai"]
        prices.replace({})
        async with keys.choose(ACME, None) as candidates:
            assert [one.provider for one in candidates] == ["openai", "local"]


async def test_a_key_for_a_named_provider_goes_to_the_address_of_that_name() -> None:
    async with chain("corp") as (keys, vault, opened):
        for name in ("openai", "corp"):
            await vault.put(ACME, secret_name(name), Secret(f"own {name}"))
        async with keys.choose(ACME, None) as candidates:
            assert [(one.provider, one.own_key) for one in candidates] == [("openai", True), ("corp", True)]
        went = [(name, settings.base_url, settings.api_key) for name, settings in opened]
        assert went == [("openai", None, Secret("own openai")), ("openai", "http://corp.test", Secret("own corp"))]


async def test_a_key_is_ignored_where_the_operator_takes_none_of_tenants() -> None:
    async with chain("corp") as (keys, vault, opened):
        keys._allowed = lambda provider: provider != "corp"
        await vault.put(ACME, secret_name("corp"), Secret("not-a-real-key"))
        async with keys.choose(ACME, "corp") as candidates:
            assert [(one.provider, one.own_key) for one in candidates] == [("corp", False)]
        assert not await keys.has(ACME, "corp")
        assert opened == []
        keys.check_secret(secret_name("openai"))
        keys.check_secret("corp")
        with pytest.raises(AccessDenied, match=r"llm\.providers\.corp\.ownKeys"):
            keys.check_secret(secret_name("corp"))


async def test_a_key_that_goes_to_an_address_of_the_operators_says_so() -> None:
    async with chain("corp") as (keys, vault, _):
        for name in ("openai", "corp"):
            await vault.put(ACME, secret_name(name), Secret(f"own {name}"))
        async with keys.choose(ACME, None) as candidates:
            assert [(one.provider, one.hosted) for one in candidates] == [("openai", False), ("corp", True)]


async def test_an_outage_of_a_tenants_account_is_that_tenants() -> None:
    async with chain() as (keys, vault, _):
        await vault.put(ACME, secret_name("openai"), Secret("own"))
        async with keys.choose(ACME, None) as (own,), keys.choose(RIVAL, None) as (servers,):
            own.health.begin().failed(ProviderRateLimited("slow down", retry_after=5))
            assert (own.health.shown.state, servers.health.shown.state) == ("limited", "unknown")
        async with keys.choose(ACME, None) as (again,):
            assert again.health is own.health


async def test_a_stand_in_that_cannot_be_opened_keeps_nobody_from_being_answered() -> None:
    async with chain("corp") as (keys, vault, _):
        await vault.put(ACME, secret_name("corp"), Secret("own"))
        keys._open_one = broken
        async with keys.choose(ACME, None) as candidates:
            assert [one.provider for one in candidates] == ["openai"]
        with pytest.raises(ConfigInvalid):
            async with keys.choose(ACME, "corp"):
                pass


def broken(name: str, settings: DriverSettings) -> AbstractAsyncContextManager[Driver]:
    raise ConfigInvalid("the key holds spaces")


async def test_a_tenant_may_have_a_default_of_its_own_and_another_at_any_time() -> None:
    async with chain() as (keys, _, _):
        keys.default_of = {ACME: "corp/big"}.get
        async with keys.choose(ACME, None) as (own,), keys.choose(RIVAL, None) as (servers,):
            assert (own.name, servers.name) == ("corp/big", "openai/gpt")
        async with keys.choose(ACME, "openai/mini") as (named,):
            assert named.name == "openai/mini"
        keys.default_of = {ACME: "local"}.get
        async with keys.choose(ACME, None) as (own,):
            assert own.provider == "local"


async def test_a_turn_that_begins_while_providers_are_replaced_begins_with_those_there_are() -> None:
    async with chain() as (keys, vault, _):
        held = Held(vault._store, key=bytes(32), clock=lambda: 1)
        held.asked, held.go = anyio.Event(), anyio.Event()
        keys._vault = held
        began: list[str] = []

        async def turn() -> None:
            async with keys.choose(ACME, None) as (chosen,):
                began.append(chosen.name)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(turn)
                await held.asked.wait()
                other = Provider(name="corp", driver="openai", settings=DriverSettings(base_url="http://new.test"))
                await keys._models.configure([other], default="corp/new")
                held.go.set()
        assert began == ["corp/new"]


async def test_the_key_of_an_image_pays_for_that_image_and_goes_to_its_provider_only() -> None:
    async with shop() as here:
        await here.put("sk-acme")
        await here.keys.seal_image_key(ACME, IMAGE, "openai/gpt", Secret("sk-image"))
        async with here.keys.choose(ACME, "openai/gpt", IMAGE) as (chosen,):
            assert chosen.own_key
            assert here.used() == ["sk-image"]
            async with here.keys.choose(ACME, "openai/gpt") as (other,):
                assert other.own_key
                assert sorted(here.used()) == ["sk-acme", "sk-image"]
        places = {settings.api_key.reveal(): settings.key_place for settings in here.open if settings.api_key is not None}
        assert places == {"sk-acme": "the secret provider.openai", "sk-image": f"the apiKey of the image {IMAGE}"}
        # Nobody else pays for it: neither the tenant, nor the server.
        for model, owner in (("anthropic/claude", IMAGE), ("openai/gpt", ImageId("img_2"))):
            with pytest.raises(MissingKey, match="has a key of its own, but none for"):
                async with here.keys.choose(ACME, model, owner):
                    pass
        await here.keys.remove_image_key(ACME, IMAGE)
        assert [name for name, _ in await here.vault.names(ACME)] == ["provider.openai"]
        with pytest.raises(MissingKey):
            async with here.keys.choose(ACME, "openai/gpt", IMAGE):
                pass


@pytest.mark.parametrize("key", [" ", "sk-a\nb", " sk-a", "ключ", "sk\x00"])
async def test_a_key_that_no_request_can_carry_is_refused_with_the_image(key: str) -> None:
    async with shop() as here:
        with pytest.raises(InvalidInput, match="copy it again"):
            await here.keys.seal_image_key(ACME, IMAGE, "openai/gpt", Secret(key))
        assert await here.vault.names(ACME) == ()


async def test_an_image_has_no_key_for_a_provider_that_takes_none() -> None:
    async with shop() as here:
        with pytest.raises(AccessDenied, match="accepts no keys of images"):
            await here.keys.seal_image_key(ACME, IMAGE, "local/smollm2-135m", Secret("sk-image"))
        assert await here.vault.names(ACME) == ()
