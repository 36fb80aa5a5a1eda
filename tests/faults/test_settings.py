"""Settings that change while the server works: no turn is lost, and no secret comes out anywhere."""

import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from tests.support import answers
from tests.support.provider import Answer, ScriptedProvider, Stall, Wait, open_provider

from agentvm import ServerConfig, start_server
from agentvm.client.agentx import create_agentx
from agentvm.client.remote import remote_runtime
from agentvm.config import MEMORY, LlmSettings, ProviderSettings, SystemSettings
from agentvm.errors import ConfigInvalid
from agentvm.log import concealed
from agentvm.model.image import ImageConfig
from agentvm.model.secret import Secret
from agentvm.observability.console import configure_logs
from agentvm.server.local import RunningServer

PLANTED = "sk-planted-in-the-settings"


def said(*words: str, until: anyio.Event | None = None) -> Answer:
    first, *rest = words
    steps: list[bytes | Wait] = [answers.delta({"role": "assistant", "content": first})]
    if until is not None:
        steps.append(Wait(until))
    return answers.stream([*steps, *(answers.delta({"content": word}) for word in rest), *answers.openai_end()])


def config_for(
    provider: ScriptedProvider,
    *,
    data_dir: str = MEMORY,
    providers: Mapping[str, ProviderSettings] | None = None,
    **system: Any,
) -> ServerConfig:
    url = f"{provider.base_url}/v1"
    entry = ProviderSettings(driver="openai", model="m1", api_key=Secret("k1"), base_url=url)
    return ServerConfig(
        system=SystemSettings(port=0, shutdown_seconds=0, data_dir=data_dir, **system),
        llm=LlmSettings(provider="first", providers=providers or {"first": entry}),
    )


@asynccontextmanager
async def serving(config: ServerConfig) -> AsyncIterator[tuple[RunningServer, httpx2.AsyncClient]]:
    async with start_server(config) as server, httpx2.AsyncClient(base_url=server.url, trust_env=False) as web:
        yield server, web


async def put(web: httpx2.AsyncClient, changes: object) -> httpx2.Response:
    return await web.put("/v1/config", content=json.dumps({"changes": changes}).encode())


async def ask(server: RunningServer, text: str, told: list[str], begun: anyio.Event | None = None) -> None:
    """One turn of its own conversation; what was answered is added in the end."""
    async with create_agentx(remote_runtime(server.ws_url)) as agentx:
        image = await agentx.images.create(ImageConfig(name=text), container_id=f"c-{text}")
        agent = await agentx.images.run(image.image_id)
        words = []
        async for event in agent.stream(text):
            if event.type == "text_delta":
                words.append(str(event.data["text"]))
                if begun is not None:
                    begun.set()
            elif event.type == "error_occurred":
                words.append(str(event.data["message"]))
        told.append("".join(words))


async def test_a_turn_that_streams_goes_on_while_everything_changes_and_the_next_follows() -> None:
    begun, gate, told = anyio.Event(), anyio.Event(), list[str]()
    async with open_provider() as old, open_provider() as new:
        old.play(said("one", " two", until=gate))
        new.play(said("three"))
        with anyio.fail_after(60):
            async with serving(config_for(old)) as (server, web), anyio.create_task_group() as tasks:
                tasks.start_soon(ask, server, "a", told, begun)
                await begun.wait()
                changes = {
                    "llm.providers.second": {
                        "driver": "openai",
                        "model": "m2",
                        "apiKey": PLANTED,
                        "baseUrl": f"{new.base_url}/v1",
                    },
                    "llm.provider": "second",
                    "limits": {"steps": 3, "turnSeconds": 100},
                    "defaults.maxTokens": 77,
                    "system.logLevel": "warning",
                }
                answer = await put(web, changes)
                assert answer.status_code == 200, answer.text
                assert answer.json()["restartRequired"] == []
                await ask(server, "b", told)
                assert told == ["three"]
                gate.set()
        assert told == ["three", "one two"]
        request = await new.wait_request()
        sent = request.json()
        assert (sent["model"], dict(request.headers)["authorization"]) == ("m2", f"Bearer {PLANTED}")
        assert 77 in (sent.get("max_tokens"), sent.get("max_completion_tokens"))


async def test_a_provider_that_falls_silent_is_given_up_after_the_timeout_that_was_set() -> None:
    async with open_provider() as provider:
        provider.play(answers.stream([answers.delta({"role": "assistant", "content": "one"}), Stall()]))
        with anyio.fail_after(60):
            async with serving(config_for(provider)) as (server, web):
                assert (await put(web, {"defaults": {"timeout": 200}})).status_code == 200
                told: list[str] = []
                await ask(server, "a", told)
        assert "was silent for 0.2 s" in told[0]


async def test_a_provider_that_is_known_to_be_slow_has_a_timeout_of_its_own() -> None:
    async with open_provider() as provider:
        provider.play(answers.stream([answers.delta({"role": "assistant", "content": "one"}), Stall()]))
        url = f"{provider.base_url}/v1"
        slow = ProviderSettings(driver="openai", model="m1", api_key=Secret("k1"), base_url=url, timeout=300)
        with anyio.fail_after(60):
            async with serving(config_for(provider, providers={"first": slow})) as (server, _):
                told: list[str] = []
                await ask(server, "a", told)
        assert "was silent for 0.3 s" in told[0]


async def test_a_provider_that_cannot_be_opened_changes_nothing() -> None:
    async with open_provider() as provider:
        provider.play(said("still here"))
        async with serving(config_for(provider)) as (server, web):
            for changes, word in (
                ({"llm.provider": "anthropic"}, "needs a key"),
                ({"llm.providers.x": {"driver": "openai", "baseUrl": "nonsense"}}, "http(s) URL"),
                ({"llm.providers.x": {"driver": "openai", "apiKey": f"{PLANTED} with spaces"}}, "contains spaces"),
            ):
                refused = await put(web, changes)
                assert (refused.status_code, word in refused.text, PLANTED in refused.text) == (400, True, False)
            assert (await web.get("/v1/config")).json()["revision"] == 0
            told: list[str] = []
            with anyio.fail_after(60):
                await ask(server, "a", told)
            assert told == ["still here"]


async def test_a_secret_that_is_planted_is_found_nowhere(tmp_path: Path) -> None:
    stream, root = StringIO(), logging.getLogger()
    before = (list(root.handlers), root.level, logging.getLogger("agentvm").level)
    configure_logs("debug", stream=stream)
    # Of other tests.
    concealed.clear()
    seen: list[str] = []
    try:
        async with open_provider() as provider, serving(config_for(provider, data_dir=str(tmp_path))) as (server, web):
            for changes in (
                {"llm.apiKey": PLANTED, "llm.providers.x": {"driver": "openai", "apiKey": PLANTED}},
                # Refused while authentication is off.
                {"system.adminKey": PLANTED},
                {"llm.apiKey": [PLANTED]},
                {"llm.apiKey": {PLANTED: 1}},
                {"llm": {"apiKey": f"{PLANTED}\n"}},
                {"llm.baseUrl": f"http://me:{PLANTED}@127.0.0.1:1/v1?key={PLANTED}"},
                {"llm.apiKey": None, "system": None, "llm.baseUrl": None},
            ):
                seen.append((await put(web, changes)).text)
            seen.append((await web.post("/v1/config/rollback", content=b'{"to": 1}')).text)
            paths = ["", "?view=full", "/llm", "/llm.apiKey", "/history", "/diff?from=0", "/schema", "/llm.providers.x.apiKey"]
            seen += [(await web.get(f"/v1/config{path}")).text for path in paths]
            seen += [(await web.get("/v1/audit")).text, repr(server.config), repr(server.server.vm.settings.values(None))]
            logging.getLogger("agentvm.x").warning("the key is %s", PLANTED)
    finally:
        root.handlers, root.level = before[0], before[1]
        logging.getLogger("agentvm").setLevel(before[2])
        concealed.clear()
    seen.append(stream.getvalue())
    assert [text for text in seen if PLANTED in text] == []
    assert "the key is ***" in seen[-1]
    async for path in anyio.Path(tmp_path).rglob("*"):
        assert not await path.is_file() or PLANTED.encode() not in await path.read_bytes(), path


async def test_what_was_changed_counts_after_a_restart_also_where_the_server_listens(tmp_path: Path) -> None:
    async with open_provider() as provider:
        config = config_for(provider, data_dir=str(tmp_path))
        async with serving(config) as (server, web):
            changed = (await put(web, {"system.host": "127.0.0.2", "limits.steps": 4})).json()
            assert (changed["restartRequired"], server.host) == (["system.host"], "127.0.0.1")
        async with start_server(config) as server:
            assert (server.host, server.config.limits.steps) == ("127.0.0.2", 4)
            async with httpx2.AsyncClient(base_url=server.url, trust_env=False) as web:
                await put(web, {"system.host": "192.0.2.7"})
        with pytest.raises(ConfigInvalid, match="--no-overrides"):
            async with start_server(config):
                pass
        async with start_server(config, overrides=False) as server:
            assert (server.host, server.config.limits.steps) == ("127.0.0.1", 25)
