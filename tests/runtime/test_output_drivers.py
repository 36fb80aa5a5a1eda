"""Answers of a wanted form with every driver that asks a provider: enforced in its words, repaired, refused, billed."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.drivers.fixtures import settings
from tests.drivers.weight_files import gguf
from tests.runtime.fixtures import World, open_world
from tests.support import answers
from tests.support.provider import Answer, ScriptedProvider, open_provider

from agentvm.drivers import anthropic, openai
from agentvm.drivers.base import Driver, DriverSettings
from agentvm.drivers.local import LocalDriver, open_pool
from agentvm.drivers.output_schema import enforced_schema
from agentvm.drivers.registry import DRIVERS
from agentvm.drivers.sidecar_host import Endpoint, Shape
from agentvm.model.definition import Definition
from agentvm.model.message import AssistantMessage
from agentvm.model.turn import OutputFormat
from agentvm.runtime.output_check import REPAIRS_MAX

SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "people": {"type": "integer", "minimum": 0}},
    "required": ["city", "people"],
}
CITY = OutputFormat(name="city", schema=SCHEMA)
GOOD, NEGATIVE = '{"city": "Ulm", "people": 126000}', '{"city": "Ulm", "people": -1}'
FORM = {"name": "city", "schema": enforced_schema(SCHEMA), "strict": True}


class Lease:
    """Stands for the host of the embedded model's process."""

    def __init__(self, url: str) -> None:
        self.endpoint = Endpoint(url, "key")

    @asynccontextmanager
    async def lease(self, model: Path, shape: Shape) -> AsyncIterator[Endpoint]:
        yield self.endpoint


@asynccontextmanager
async def open_local(provider: ScriptedProvider, folder: Path) -> AsyncIterator[Driver]:
    (folder / "m.gguf").write_bytes(gguf("{{ messages }}"))
    async with open_pool() as pool:
        host: Any = Lease(provider.base_url)
        yield LocalDriver(host, pool, DriverSettings(model_dir=folder, model="m"))


@dataclass(frozen=True, slots=True)
class Way:
    """A driver, how its provider answers, and where its requests have the schema and the instructions."""

    open: Callable[[ScriptedProvider, Path], AbstractAsyncContextManager[Driver]]
    said: Callable[[str], Answer]
    member: str
    enforced: object
    output_tokens: int = 5


WAYS = {
    "anthropic": Way(
        lambda provider, folder: anthropic.open_driver(settings(provider)),
        answers.anthropic_text,
        "output_config",
        {"format": {"type": "json_schema", "schema": enforced_schema(SCHEMA)}},
    ),
    "openai": Way(
        lambda provider, folder: openai.open_driver(settings(provider)),
        answers.openai_text,
        "response_format",
        {"type": "json_schema", "json_schema": FORM},
    ),
    "local": Way(open_local, answers.openai_text, "response_format", {"type": "json_schema", "json_schema": FORM}),
}
each_driver = pytest.mark.parametrize("name", WAYS)


def test_no_driver_is_left_out() -> None:
    # The scripted one has no provider; what it answers is checked beside this file.
    assert set(WAYS) | {"scripted"} == set(DRIVERS)


@asynccontextmanager
async def asked(name: str, folder: Path, *played: Answer) -> AsyncIterator[tuple[World, ScriptedProvider]]:
    way = WAYS[name]
    async with open_provider() as provider, way.open(provider, folder) as driver:
        provider.play(*played)
        async with open_world(driver, definition=Definition(name="default", model=f"{name}/m", output=CITY)) as world:
            await world.say(world.start(), "Which city?")
            yield world, provider


async def ended(world: World) -> tuple[dict[str, Any], list[str]]:
    """The end of the turn, and the codes of its failures."""
    heard = await world.hear("turn_response")
    return heard[-1]["data"], [event["data"]["code"] for event in heard if event["type"] == "error_occurred"]


@each_driver
async def test_the_schema_is_enforced_and_the_answer_is_the_output(name: str, tmp_path: Path) -> None:
    way = WAYS[name]
    async with asked(name, tmp_path, way.said(GOOD)) as (world, provider):
        data, failures = await ended(world)
        assert (data["outcome"], data["output"], failures) == ("completed", {"city": "Ulm", "people": 126000}, [])
        (request,) = provider.requests
        assert request.json()[way.member] == way.enforced


@each_driver
async def test_what_a_provider_cannot_enforce_is_repaired_and_each_call_is_billed(name: str, tmp_path: Path) -> None:
    way = WAYS[name]
    async with asked(name, tmp_path, way.said(NEGATIVE), way.said(GOOD)) as (world, provider):
        data, failures = await ended(world)
        assert (data["outcome"], data["output"]["people"], failures) == ("completed", 126000, [])
        once, again = provider.requests
        assert "-1 is less than the minimum of 0" in again.body.decode()
        assert len(again.body) > len(once.body)
        assert again.json()[way.member] == way.enforced
        assert data["usage"]["outputTokens"] == 2 * way.output_tokens


@each_driver
async def test_an_answer_that_never_fits_fails_the_turn_after_two_repairs(name: str, tmp_path: Path) -> None:
    way = WAYS[name]
    async with asked(name, tmp_path, way.said("I would rather not.")) as (world, provider):
        data, failures = await ended(world)
        assert (data["outcome"], failures, "output" in data) == ("failed", ["output_misfit"], False)
        assert len(provider.requests) == 1 + REPAIRS_MAX
        kept = [message.text for message in await world.messages() if isinstance(message, AssistantMessage)]
        assert kept == ["I would rather not."] * (1 + REPAIRS_MAX)


@each_driver
async def test_a_provider_that_refuses_the_schema_is_told_it_in_words(name: str, tmp_path: Path) -> None:
    way = WAYS[name]
    refused = answers.failure(400, {"error": {"type": "invalid_request_error", "message": f"{way.member}: not supported"}})
    async with asked(name, tmp_path, refused, way.said(GOOD)) as (world, provider):
        data, failures = await ended(world)
        assert (data["outcome"], data["output"]["city"], failures) == ("completed", "Ulm", [])
        first, second = provider.requests
        assert way.member in first.json()
        assert way.member not in second.json()
        assert "fits this JSON Schema" in second.body.decode()
