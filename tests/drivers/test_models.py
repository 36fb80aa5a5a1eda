from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

from agentvm.drivers.base import Driver, DriverSettings
from agentvm.drivers.models import DEFAULT_CALLS_MAX, Models, Provider, slots_of
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.errors import AgentVMError, ConfigInvalid, DriverNotFound, MissingKey, ProviderRateLimited, ShuttingDown
from agentvm.model.ids import TenantId
from agentvm.model.secret import Secret

ONE, TWO = ScriptedDriver(), ScriptedDriver()
MODELS = Models({"one": ONE, "two": TWO}, "two/fast")


@pytest.mark.parametrize(
    ("name", "driver", "model"),
    [
        (None, TWO, "fast"),
        ("", TWO, "fast"),
        ("one", ONE, "scripted"),
        ("one/", ONE, "scripted"),
        ("one/big", ONE, "big"),
        ("one/org/big", ONE, "org/big"),
        ("two", TWO, "scripted"),
    ],
)
def test_a_name_chooses_its_driver_and_model(name: str | None, driver: ScriptedDriver, model: str) -> None:
    chosen = MODELS.choose(name)
    assert (chosen.driver, chosen.model) == (driver, model)


@pytest.mark.parametrize("name", ["three/big", "three", "/one", "ONE/big"])
def test_a_driver_nobody_configured_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(DriverNotFound) as refused:
        MODELS.choose(name)
    assert "one, two" in str(refused.value)


class Garage:
    """Opens drivers, and knows which are open."""

    def __init__(self) -> None:
        self.open: list[tuple[str, DriverSettings]] = []
        self.made: list[ScriptedDriver] = []

    @asynccontextmanager
    async def __call__(self, name: str, settings: DriverSettings) -> AsyncIterator[Driver]:
        if name == "nobody":
            raise DriverNotFound("no driver named 'nobody'")
        if settings.model == "keyless":
            raise MissingKey("the driver needs a key")
        self.open.append((name, settings))
        self.made.append(ScriptedDriver())
        # A driver may have tasks of its own, and these end where they were started.
        async with anyio.create_task_group():
            yield self.made[-1]
        self.open.remove((name, settings))

    @property
    def urls(self) -> list[str | None]:
        return [settings.base_url for _, settings in self.open]


def provider(name: str, url: str = "http://one.test", driver: str = "openai", **settings: Any) -> Provider:
    return Provider(name=name, driver=driver, settings=DriverSettings(base_url=url, **settings))


async def closed(garage: Garage, left: int) -> None:
    with anyio.fail_after(60):
        while len(garage.open) > left:
            await anyio.lowlevel.checkpoint()


async def test_providers_are_opened_once_and_closed_at_the_end() -> None:
    garage = Garage()
    async with Models(open_one=garage) as models:
        await models.configure([provider("a"), provider("b", "http://two.test")], default="a/big")
        chosen = models.choose(None)
        assert (chosen.driver, chosen.name) == (garage.made[0], "a/big")
        await models.configure([provider("a"), provider("b", "http://two.test")], default="b")
        assert models.choose(None).driver is garage.made[1]
        assert len(garage.made) == 2
    assert garage.open == []
    # A server that ends still answers: its clients are to ask again elsewhere.
    with pytest.raises(ShuttingDown):
        models.choose(None)


async def test_what_is_gone_or_changed_is_closed_when_its_last_turn_has_ended() -> None:
    garage = Garage()
    async with Models(open_one=garage) as models:
        await models.configure([provider("a"), provider("b", "http://two.test")], default="a")
        async with models.use_chain(None) as (first,), models.use_chain(None):
            await models.configure([provider("a", "http://new.test")], default="a")
            await closed(garage, 2)
            assert garage.urls == ["http://one.test", "http://new.test"]
            async with models.use_chain(None) as (second,):
                assert (first.driver, second.driver) == (garage.made[0], garage.made[2])
                assert first.health is not second.health
        await closed(garage, 1)
        assert garage.urls == ["http://new.test"]
        with pytest.raises(DriverNotFound, match="configured: a"):
            models.choose("b")


async def test_another_key_opens_a_provider_anew_and_the_same_does_not() -> None:
    garage = Garage()
    async with Models(open_one=garage) as models:
        for key, opened in (("k1", 1), ("k1", 1), ("k2", 2)):
            await models.configure([provider("a", api_key=Secret(key))], default="a")
            assert len(garage.made) == opened


@pytest.mark.parametrize(
    ("providers", "default", "fallback", "error"),
    [
        ([provider("a", "http://new.test"), provider("x", driver="nobody")], "a", [], DriverNotFound),
        ([provider("a", "http://new.test"), provider("x", model="keyless")], "a", [], MissingKey),
        ([provider("a"), provider("a")], "a", [], ConfigInvalid),
        ([provider("a/b")], "a/b", [], ConfigInvalid),
        ([provider("")], "", [], ConfigInvalid),
        ([provider("A")], "A", [], ConfigInvalid),
        ([provider("a")], "b", [], DriverNotFound),
        ([provider("a")], "a", ["b/x"], DriverNotFound),
    ],
)
async def test_what_cannot_be_opened_changes_nothing(
    providers: list[Provider], default: str, fallback: list[str], error: type[AgentVMError]
) -> None:
    garage = Garage()
    async with Models(open_one=garage) as models:
        await models.configure([provider("a")], default="a/m")
        with pytest.raises(error):
            await models.configure(providers, default=default, fallback=fallback)
        await closed(garage, 1)
        assert models.choose(None).name == "a/m"
        assert garage.urls == ["http://one.test"]


async def test_who_stands_in_comes_in_order_each_once_and_never_for_itself() -> None:
    async with Models(open_one=Garage()) as models:
        names = [provider(name) for name in ("a", "b", "c")]
        await models.configure(names, default="a", fallback=["b/small", "a/old", "c", "b/big", "b/small"])
        assert models.chain(None) == ("a", "b/small", "c")
        assert models.chain("b/huge") == ("b/huge", "a/old", "c")
        async with models.use_chain("c/x") as chain:
            assert [one.name for one in chain] == ["c/x", "b/small", "a/old"]


async def test_a_provider_with_a_stand_in_is_opened_without_retries_of_its_own() -> None:
    garage = Garage()
    async with Models(open_one=garage) as models:
        await models.configure([provider("a"), provider("b", "http://two.test")], default="a", fallback=["b"])
        assert [settings.max_retries for _, settings in garage.open] == [0, 2]
        # Nobody stands in for the last one, so its library tries again.
        assert (models.choose("a").asks, models.choose("b").asks) == (3, 1)
        await models.configure([provider("a"), provider("b", "http://two.test")], default="a")
        await closed(garage, 2)
        assert sorted(settings.max_retries for _, settings in garage.open) == [2, 2]


async def test_health_says_how_each_is_and_shows_no_secret() -> None:
    async with Models(open_one=Garage(), clock=lambda: 7) as models:
        url = "https://user:pass-word@llm.test:8443/v1?key=hidden#x"
        await models.configure([provider("a", url, api_key=Secret("sk-1")), provider("b")], default="a/m", fallback=["b"])
        chosen = models.choose(None)
        attempt = chosen.health.begin()
        attempt.sent()
        attempt.failed(ProviderRateLimited("slow down, sk-1", retry_after=5))
        first, second = models.health()
        shown = msgspec.json.encode(first).decode()
        assert "sk-1" not in shown
        assert "pass-word" not in shown
        assert "hidden" not in shown
        assert msgspec.json.decode(shown) == {
            "name": "a",
            "driver": "openai",
            "defaultModel": "scripted",
            "baseUrl": "https://llm.test:8443/v1",
            "role": "default",
            "state": "limited",
            "since": 7,
            "lastError": "provider_rate_limited",
            "retryAt": first.retry_at,
            "calls": 1,
            "failures": 1,
            "consecutiveFailures": 1,
        }
        assert first.retry_at is not None
        assert 4_000 < first.retry_at <= 5_007
        assert (second.name, second.role, second.state, second.calls) == ("b", "fallback", "unknown", 0)


async def test_what_is_known_of_a_provider_outlives_a_change_of_others() -> None:
    async with Models(open_one=Garage()) as models:
        await models.configure([provider("a")], default="a")
        models.choose("a").health.begin().failed(ProviderRateLimited("slow down", retry_after=5))
        await models.configure([provider("a"), provider("b", "http://two.test")], default="b")
        assert [one.state for one in models.health()] == ["limited", "unknown"]


async def test_a_moment_that_was_named_outlives_a_change_of_how_the_account_is_asked() -> None:
    async with Models(open_one=Garage()) as models:
        await models.configure([provider("a", api_key=Secret("k"), timeout=600)], default="a")
        models.choose(None).health.limited(3_600)
        # Another limit of turns, and somebody who stands in: the driver is opened anew, the account is the same.
        await models.configure([provider("a", api_key=Secret("k"), timeout=60), provider("b")], default="a", fallback=["b"])
        assert models.health()[0].state == "limited"
        for other in (provider("a", api_key=Secret("k2")), provider("a", "http://new.test", api_key=Secret("k2"))):
            models.choose(None).health.limited(3_600)
            await models.configure([other], default="a")
            assert models.health()[0].state == "unknown"


async def test_models_are_configured_while_they_are_entered() -> None:
    with pytest.raises(RuntimeError, match="entered"):
        await Models(open_one=Garage()).configure([], default="a")


async def test_a_driver_is_opened_with_the_operators_name_for_its_errors() -> None:
    garage = Garage()
    async with Models(open_one=garage) as models:
        await models.configure([provider("vllm", "http://one.test")], default="vllm")
        assert [settings.name for _, settings in garage.open] == ["vllm"]


def test_a_provider_answers_so_many_calls_at_a_time_as_somebody_says() -> None:
    class Small(ScriptedDriver):
        max_calls = 4

    plain, small = ScriptedDriver(), Small()
    assert slots_of(DriverSettings(), plain).capacity == DEFAULT_CALLS_MAX
    assert slots_of(DriverSettings(), small).capacity == 4
    assert slots_of(DriverSettings(max_calls=2), small).capacity == 2
    # Where there are many, one tenant leaves some to the others.
    assert [slots_of(DriverSettings(max_calls=calls), plain).share for calls in (1, 4, 8, 200)] == [1, 4, 6, 150]


async def test_calls_beyond_the_bound_wait_tenant_by_tenant() -> None:
    garage, served = Garage(), list[str]()
    with anyio.fail_after(60):
        async with Models(open_one=garage) as models:
            await models.configure([Provider(name="p", driver="p", settings=DriverSettings(max_calls=1))], default="p")
            async with models.use(None) as chosen, anyio.create_task_group() as tasks:

                async def call(name: str) -> None:
                    async with models.choose("p/m").slot(TenantId(name[0])):
                        served.append(name)

                async with chosen.slot(TenantId("a")):
                    for name in ("a1", "a2", "a3", "b1"):
                        tasks.start_soon(call, name)
                        await anyio.wait_all_tasks_blocked()
                    assert served == []
    assert served == ["a1", "b1", "a2", "a3"]
