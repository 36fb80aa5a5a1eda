"""F9, several providers: what their outages make of real requests over real HTTP."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal

import anyio
import anyio.lowlevel
import pytest
from tests.support import answers as play
from tests.support.provider import Disconnect, ScriptedProvider, Wait, open_provider
from tests.support.wire import Client19, Json, client

from agentvm import ServerConfig, start_server
from agentvm.config import MEMORY, BillingSettings, LlmSettings, SystemSettings
from agentvm.drivers.base import DriverSettings
from agentvm.drivers.models import Models, Provider
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.ledger import LedgerEntry
from agentvm.model.money import ModelRate
from agentvm.model.secret import Secret
from agentvm.server.local import RunningServer

DEAD = "http://127.0.0.1:9"
"""Nobody listens there."""


def claude(name: str, url: str) -> Provider:
    settings = DriverSettings(base_url=url, api_key=Secret(f"sk-{name}"), model="claude-sonnet-4-6", timeout=60)
    return Provider(name=name, driver="anthropic", settings=settings)


def gpt(name: str, url: str) -> Provider:
    settings = DriverSettings(base_url=f"{url}/v1", api_key=Secret(f"sk-{name}"), model="gpt-4o", timeout=60)
    return Provider(name=name, driver="openai", settings=settings)


@dataclass(slots=True)
class Place:
    server: RunningServer
    alice: Client19
    image_id: str

    @property
    def models(self) -> Models:
        return self.server.server.vm.runtime.models

    async def send(self, text: str = "go", image_id: str | None = None) -> str:
        asked = await self.alice.request("message_send_request", imageId=image_id or self.image_id, content=text)
        return str(asked["turnId"])

    async def turn(self, text: str = "go") -> Json:
        end: Json = (await self.alice.end_of(await self.send(text)))["data"]
        return end

    async def all_at_once(self, images: Sequence[str]) -> None:
        """A turn of each image, and all of them are answered."""
        asked = [await self.alice.ask("message_send_request", imageId=image_id, content="go") for image_id in images]
        for request_id in asked:
            turn_id = (await self.alice.answer(request_id))["data"]["turnId"]
            assert (await self.alice.end_of(turn_id))["data"]["outcome"] == "completed"

    def told(self, kind: str) -> list[Json]:
        return [event["data"] for event in self.alice.events if event["type"] == kind]

    @property
    def text(self) -> str:
        return "".join(str(data["text"]) for data in self.told("text_delta"))

    async def ledger(self) -> list[LedgerEntry]:
        ledger = self.server.server.vm.tenancy.store.accounts(DEFAULT_TENANT).ledger
        return [entry for _, entry in await ledger.list(limit=1_000)]


@asynccontextmanager
async def place(*providers: Provider, fallback: Sequence[str] = (), **prices: ModelRate) -> AsyncIterator[Place]:
    """A server with these providers, the first of them the default."""
    config = ServerConfig(
        system=SystemSettings(port=0, data_dir=MEMORY, shutdown_seconds=0),
        llm=LlmSettings(provider="scripted"),
        billing=BillingSettings(prices=prices),
    )
    with anyio.fail_after(200):
        async with start_server(config) as server, client(server.ws_url) as alice:
            await server.server.vm.runtime.models.configure(providers, default=providers[0].name, fallback=fallback)
            yield Place(server, alice, (await alice.image())["imageId"])


@asynccontextmanager
async def two() -> AsyncIterator[tuple[ScriptedProvider, ScriptedProvider]]:
    async with open_provider() as first, open_provider() as second:
        first.play(play.anthropic_text("from", " a"))
        second.play(play.openai_text("from", " b"))
        yield first, second


@pytest.mark.parametrize(
    ("status", "headers", "reason"),
    [
        (429, {"retry-after": "20"}, "provider_rate_limited"),
        (429, {"retry-after": "3600"}, "provider_rate_limited"),
        (529, {}, "provider_overloaded"),
        (500, {}, "provider_overloaded"),
        (401, {}, "provider_auth_failed"),
    ],
)
async def test_a_provider_that_refuses_is_asked_once_and_the_next_answers(
    status: int, headers: dict[str, str], reason: str
) -> None:
    async with two() as (first, second):
        first.play(play.failure(status, headers=headers))
        providers = claude("main", first.base_url), gpt("spare", second.base_url)
        async with place(*providers, fallback=["spare"]) as here:
            end = await here.turn()
            assert (end["outcome"], here.text) == ("completed", "from b")
            assert (len(first.requests), len(second.requests)) == (1, 1)
            assert second.requests[0].headers["authorization"] == "Bearer sk-spare"
            (told,) = here.told("provider_fallback")
            assert (told["from"], told["to"], told["reason"]) == ("main/claude-sonnet-4-6", "spare/gpt-4o", reason)
            (entry,) = await here.ledger()
            assert (entry.driver, entry.model, entry.usage.total) == ("openai", "gpt-4o", 15)
            if headers:
                # Nobody asks before the moment that was named.
                await here.turn()
                assert (len(first.requests), len(second.requests)) == (1, 2)


async def test_a_provider_that_cannot_be_reached_is_passed_over() -> None:
    async with two() as (_, second), place(claude("main", DEAD), gpt("spare", second.base_url), fallback=["spare"]) as here:
        assert (await here.turn())["outcome"] == "completed"
        assert [told["reason"] for told in here.told("provider_fallback")] == ["provider_unreachable"]
        main, spare = here.models.health()
        assert (main.state, main.failures, spare.state, spare.failures) == ("down", 1, "ok", 0)


async def test_an_answer_that_breaks_off_stays_a_failure() -> None:
    async with two() as (first, second):
        first.play(play.stream([play.message_start(), *play.text_block(0, "so")[:2], Disconnect()]))
        async with place(claude("main", first.base_url), gpt("spare", second.base_url), fallback=["spare"]) as here:
            assert (await here.turn())["outcome"] == "failed"
            assert (second.requests, here.told("provider_fallback")) == ([], [])
            assert [error["code"] for error in here.told("error_occurred")] == ["provider_unreachable"]


async def test_the_chosen_one_is_asked_again_when_its_moment_has_come() -> None:
    async with two() as (first, second):
        first.play(play.failure(429, headers={"retry-after": "1"}), play.anthropic_text("back"))
        async with place(claude("main", first.base_url), gpt("spare", second.base_url), fallback=["spare"]) as here:
            since = time.monotonic()
            while len(first.requests) < 2:
                await here.turn()
            assert time.monotonic() - since >= 0.95
            assert here.text.endswith("back")
            assert here.models.health()[0].state == "ok"


async def test_alone_the_moment_is_kept_by_everybody_while_the_library_tries_again() -> None:
    async with open_provider() as only:
        only.play(play.failure(429, headers={"retry-after": "1"}), play.anthropic_text("back"))
        async with place(claude("main", only.base_url)) as here:
            other = (await here.alice.image("other"))["imageId"]
            first = await here.send("one")
            await only.wait_request(1)
            since = time.monotonic()
            while here.models.health()[0].state != "limited":
                await anyio.lowlevel.checkpoint()
            second = await here.send("two", other)
            await only.wait_request(2)
            assert time.monotonic() - since >= 0.9
            for turn_id in (first, second):
                assert (await here.alice.end_of(turn_id))["data"]["outcome"] == "completed"
            assert len(only.requests) == 3


async def test_many_turns_in_an_outage_leave_the_dead_provider_alone() -> None:
    async with two() as (first, second):
        first.play(play.failure(529, headers={"retry-after": "30"}))
        async with place(claude("main", first.base_url), gpt("spare", second.base_url), fallback=["spare"]) as here:
            images = [(await here.alice.image(f"i{number}"))["imageId"] for number in range(30)]
            # Before anybody knows, each finds out for itself, once at most.
            await here.all_at_once(images)
            asked = len(first.requests)
            assert asked <= 30
            # Now everybody knows.
            await here.all_at_once(images)
            assert (len(first.requests), len(second.requests)) == (asked, 60)


async def test_providers_are_replaced_while_a_turn_streams() -> None:
    gate = anyio.Event()
    async with two() as (first, second):
        blocks = play.text_block(0, "slow", " answer")
        first.play(play.stream([play.message_start(), *blocks[:2], Wait(gate), *blocks[2:], *play.message_end()]))
        async with place(claude("main", first.base_url)) as here:
            running = await here.send()
            await here.alice.wait("text_delta")
            second.play(play.anthropic_text("new"))
            await here.models.configure([claude("main", second.base_url)], default="main")
            gate.set()
            assert (await here.alice.end_of(running))["data"]["outcome"] == "completed"
            assert here.text == "slow answer"
            await here.turn()
            assert here.text == "slow answernew"
            assert (len(first.requests), len(second.requests)) == (1, 1)


async def test_a_named_provider_has_its_own_price() -> None:
    prices = {
        "spare": ModelRate(input=Decimal(1), output=Decimal(2)),
        "openai": ModelRate(input=Decimal(50), output=Decimal(50)),
    }
    async with two() as (_, second):
        async with place(claude("main", DEAD), gpt("spare", second.base_url), fallback=["spare"], **prices) as here:
            end = await here.turn()
            (entry,) = await here.ledger()
            # Ten tokens in at $1, five out at $2, per million.
            assert (entry.driver, entry.cost) == ("openai", 10 * 1_000 + 5 * 2_000)
            assert end["price"] == entry.price == 21_000
