"""Tools that the model's provider runs: over real HTTP, in a whole server."""

import json
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from tests.drivers.fixtures import settings
from tests.operations.fixtures import Desk, open_desk
from tests.support import answers
from tests.support.provider import Answer, ScriptedProvider, Stall, open_provider

from agentvm.app import open_agentvm
from agentvm.config import ServerConfig, SystemSettings
from agentvm.drivers.anthropic import open_driver
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.policy import Policy, PolicyRule
from agentvm.model.tool_settings import ToolSettings

SEARCH = {"description": "Searches the web.", "runtime": "provider", "entry": "anthropic/web_search_20260209"}
FOUND = [{"type": "web_search_result", "url": "https://a.org/", "title": "A", "encrypted_content": "XYZ="}]
SHOWN = [{"type": "web_search_result", "url": "https://a.org/", "title": "A"}]
COUNTED: answers.Json = {"output_tokens": 9, "server_tool_use": {"web_search_requests": 1}}


def searched(text: str, *more: bytes, stop: str = "end_turn", call_id: str = "srvtoolu_1") -> Answer:
    blocks = [*answers.search_blocks(0, call_id, "a?", FOUND), *answers.text_block(2, text), *more]
    return answers.stream([answers.message_start(), *blocks, *answers.message_end(stop, usage=COUNTED)])


@asynccontextmanager
async def opened(*rules: PolicyRule, **content: object) -> AsyncIterator[tuple[Desk, ScriptedProvider, Any]]:
    """A desk whose agent searches with its provider, and the image of the agent."""
    tools = ToolSettings(policy=Policy(rules=rules)) if rules else None
    async with open_provider() as provider, open_driver(settings(provider)) as driver:
        async with open_desk(driver, tool_settings=tools) as desk:
            await desk.publish("tools", "search", {**SEARCH, **content})
            yield desk, provider, await desk.create_image(tools=["resource://tools/search", "calculator"])


async def send(desk: Desk, image: Mapping[str, Any], text: str = "go", times: int = 1) -> list[Any]:
    await desk.ask("message_send", imageId=image["imageId"], content=text)
    return await desk.hear("turn_response", times)


def sent(provider: ScriptedProvider, number: int = -1) -> Any:
    return provider.requests[number].json()


async def test_a_search_is_a_card_for_people_and_an_entry_of_the_ledger() -> None:
    async with opened() as (desk, provider, image):
        provider.play(searched("It is a."), answers.anthropic_text("Again."))
        heard = await send(desk, image)
        kinds = [event["type"] for event in heard]
        assert kinds.index("tool_planned") < kinds.index("tool_completed") < kinds.index("turn_response")
        completed = next(event["data"] for event in heard if event["type"] == "tool_completed")
        assert (completed["toolName"], completed["result"]) == ("web_search", SHOWN)
        assert "encrypted" not in json.dumps(heard)
        turn = heard[-1]["data"]
        assert turn["usage"]["webSearches"] == 1
        entries = await desk.vm.store.accounts(desk.peer.tenant_id).ledger.of_turn(turn["turnId"])
        assert [entry.usage.web_searches for entry in entries] == [1]
        await send(desk, image, "and?", 2)
        told = sent(provider)["messages"][1]["content"]
        assert [block["type"] for block in told] == ["server_tool_use", "web_search_tool_result", "text"]
        assert told[1]["content"] == FOUND


async def test_a_call_of_ours_after_a_search_is_that_of_a_tainted_turn() -> None:
    async with opened(PolicyRule(tool="calculator", tainted=True, do="deny")) as (desk, provider, image):
        call = answers.tool_block(3, ("toolu_1", "calculator", ['{"expression": "1+1"}']))
        provider.play(searched("so", *call, stop="tool_use"), answers.anthropic_text("done"))
        await send(desk, image)
        assert "tool_denied" in desk.types()
        blocks = sent(provider)["messages"]
        assert [block["type"] for block in blocks[1]["content"]][-1] == "tool_use"
        assert [block["type"] for block in blocks[2]["content"]] == ["tool_result"]


async def test_a_provider_that_pauses_goes_on_with_its_own_words_and_each_call_is_billed() -> None:
    async with opened() as (desk, provider, image):
        provider.play(searched("First", stop="pause_turn"), searched("then.", call_id="srvtoolu_2"))
        heard = await send(desk, image)
        turn = heard[-1]["data"]
        assert (turn["outcome"], turn["usage"]["webSearches"]) == ("completed", 2)
        last = sent(provider)["messages"][-1]
        assert last["role"] == "assistant"
        assert last["content"][1]["content"] == FOUND
        entries = await desk.vm.store.accounts(desk.peer.tenant_id).ledger.of_turn(turn["turnId"])
        assert [entry.usage.web_searches for entry in entries] == [1, 1]


async def test_a_provider_that_pauses_for_ever_is_stopped_by_the_limit_of_steps() -> None:
    async with opened() as (desk, provider, image):
        provider.play(searched("on", stop="pause_turn"))
        turn = (await send(desk, image))[-1]["data"]
        assert turn["outcome"] == "failed"


async def test_a_search_that_is_cut_off_has_a_result_and_is_not_sent_back() -> None:
    async with opened() as (desk, provider, image):
        begun = answers.search_blocks(0, "srvtoolu_1", "a?", FOUND)[:4]
        provider.play(answers.stream([answers.message_start(), *begun, Stall()]), answers.anthropic_text("ok"))
        await desk.ask("message_send", imageId=image["imageId"], content="go")
        await desk.hear("tool_use_stop")
        await desk.ask("agent_interrupt", imageId=image["imageId"])
        heard = await desk.hear("turn_response")
        failed = [event["data"] for event in heard if event["type"] == "tool_failed"]
        assert [data["toolId"] for data in failed] == ["srvtoolu_1"]
        await send(desk, image, "again", 2)
        assert "srvtoolu_1" not in json.dumps(sent(provider))


@pytest.mark.usefixtures("sqlite_file")
async def test_a_crash_in_the_middle_of_a_search_is_recovered_from_and_each_call_is_billed_once(tmp_path: Path) -> None:
    def config(folder: str) -> ServerConfig:
        return ServerConfig(system=SystemSettings(data_dir=str(tmp_path / folder)))

    async with open_provider() as provider, open_driver(settings(provider)) as driver:
        begun = answers.search_blocks(0, "srvtoolu_1", "a?", FOUND)[:4]
        provider.play(answers.stream([answers.message_start(), *begun, Stall()]), answers.anthropic_text("ok"))
        async with open_agentvm(config("before"), drivers={"anthropic": driver}) as vm:
            desk = Desk(vm, vm.attach())
            await desk.publish("tools", "search", SEARCH)
            image = await desk.create_image(tools=["resource://tools/search"])
            turn_id = (await desk.ask("message_send", imageId=image["imageId"], content="go"))["turnId"]
            await desk.hear("tool_use_stop")
            # Whatever the disk holds now is what a crash leaves.
            shutil.copytree(tmp_path / "before", tmp_path / "after")
        with anyio.fail_after(60):
            async with open_agentvm(config("after"), drivers={"anthropic": driver}) as vm:
                turns = vm.store.tenant(DEFAULT_TENANT)
                while (turn := await turns.find_turn(turn_id)) is None or turn.outcome is None:
                    await anyio.lowlevel.checkpoint()
                asked = {"sessionId": image["sessionId"]}
                messages = (await Desk(vm, vm.attach()).ask("session_messages", **asked))["messages"]
                entries = await vm.store.accounts(DEFAULT_TENANT).ledger.of_turn(turn_id)
        assert turn.outcome == "completed"
        results = [message["toolCallId"] for message in messages if message["role"] == "tool"]
        assert results == ["srvtoolu_1"]
        # The result stands right behind its call, before the answer that was given after the crash.
        assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
        assert messages[1]["toolCall"]["id"] == messages[2]["toolCallId"] == "srvtoolu_1"
        # The call that was cut off, and the one that was made after the crash: the search itself is not sent back.
        assert len({entry.key for entry in entries}) == len(entries) == len(provider.requests) == 2
        assert "srvtoolu_1" not in json.dumps(sent(provider))


@pytest.mark.parametrize(
    ("rules", "content"),
    [
        ((PolicyRule(runtime="provider", do="deny"),), {}),
        ((PolicyRule(runtime="provider", do="ask"),), {}),
        ((), {"effect": "write"}),
    ],
)
async def test_a_tool_that_a_rule_would_ask_about_is_not_offered(
    rules: tuple[PolicyRule, ...], content: dict[str, object]
) -> None:
    async with opened(*rules, **content) as (desk, provider, image):
        provider.play(answers.anthropic_text("x"))
        await send(desk, image)
        assert [tool["name"] for tool in sent(provider)["tools"]] == ["calculator"]


async def test_a_tool_of_another_provider_is_warned_of_and_one_that_nobody_runs_is_refused() -> None:
    driver = ScriptedDriver()
    async with open_desk(driver) as desk:
        await desk.publish("tools", "search", SEARCH)
        reply = await desk.ask("image_create", containerId="c1", config={"tools": ["resource://tools/search"]})
        assert any("run by anthropic for its own models" in text for text in reply["warnings"])
        await desk.ask("message_send", imageId=reply["record"]["imageId"], content="go")
        await desk.hear("turn_response")
        assert driver.prompts[0].provider_tools == ()
        await desk.publish("tools", "chat", {**SEARCH, "entry": "openai/web_search"})
        refused = await desk.ask("image_create", containerId="c1", config={"tools": ["resource://tools/chat"]})
        assert (refused["errorCode"], "an API that runs no tools" in refused["error"]) == ("invalid_input", True)


async def test_a_tool_that_a_skill_does_not_allow_is_not_offered_once_the_skill_is_read() -> None:
    async with opened() as (desk, provider, _):
        text = "---\nname: pdf\ndescription: Reads PDF.\nallowed-tools: calculator web*\n---\nDo it.\n"
        await desk.publish("skills", "pdf", {"text": text})
        tools = ["resource://tools/search", "calculator"]
        image = await desk.create_image(tools=tools, skills=["resource://skills/pdf"])
        provider.play(answers.anthropic_tools(("toolu_1", "load_skill", ['{"name": "pdf"}'])), answers.anthropic_text("x"))
        await send(desk, image)
        offered = [{tool["name"] for tool in sent(provider, number)["tools"]} for number in (0, 1)]
        assert offered == [{"calculator", "load_skill", "web_search"}, {"calculator", "load_skill"}]
