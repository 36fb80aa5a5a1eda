import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.drivers.fixtures import called, prompt, settings
from tests.support import answers
from tests.support.provider import ScriptedProvider, open_provider

from agentvm.drivers.anthropic import AnthropicDriver, open_driver
from agentvm.drivers.anthropic_blocks import BlockKeeper
from agentvm.drivers.base import (
    AssistantEntry,
    ModelOutput,
    Prompt,
    ProviderContentReported,
    ProviderResult,
    ProviderTool,
    ToolCallStarted,
    UserEntry,
)
from agentvm.drivers.openai import open_driver as open_openai
from agentvm.model.message import ProviderContent
from agentvm.testing.conformance import driver as conformance

SEARCH = ProviderTool(name="search", type="web_search_20260209", options={"allowed_domains": ["a.org"], "max_uses": 3})
FOUND = {"type": "web_search_result", "url": "https://a.org/", "title": "A", "encrypted_content": "XYZ="}
CITATION = {"type": "web_search_result_location", "url": "https://a.org/", "encrypted_index": "I=", "cited_text": "a"}


@pytest.fixture
async def provider() -> AsyncIterator[ScriptedProvider]:
    async with open_provider() as provider:
        yield provider


@pytest.fixture
async def driver(provider: ScriptedProvider) -> AsyncIterator[AnthropicDriver]:
    async with open_driver(settings(provider)) as driver:
        yield driver


def asking(*said: AssistantEntry | UserEntry) -> Prompt:
    return Prompt(model="m", conversation=prompt(*said).conversation, max_tokens=100, provider_tools=(SEARCH,))


def sent(provider: ScriptedProvider) -> Any:
    return provider.requests[-1].json()


def content_of(outputs: list[ModelOutput]) -> ProviderContent:
    (reported,) = [output for output in outputs if isinstance(output, ProviderContentReported)]
    return reported.content


async def test_a_search_of_the_provider_is_told_kept_and_counted(driver: AnthropicDriver, provider: ScriptedProvider) -> None:
    cited = answers.block(
        3,
        {"type": "text", "text": "", "citations": []},
        [{"type": "text_delta", "text": "It is a."}, {"type": "citations_delta", "citation": CITATION}],
    )
    blocks = [*answers.text_block(0, "Let me look."), *answers.search_blocks(1, "srvtoolu_1", "a?", [FOUND]), *cited]
    usage: answers.Json = {"output_tokens": 9, "server_tool_use": {"web_search_requests": 1}}
    provider.play(answers.stream([answers.message_start(), *blocks, *answers.message_end(usage=usage)]))
    outputs = await conformance.collect(driver, asking())
    assert ToolCallStarted("srvtoolu_1", "web_search", by_provider=True) in outputs
    assert conformance.calls_of(outputs) == [("srvtoolu_1", "web_search", {"query": "a?"})]
    assert ProviderResult("srvtoolu_1", [{"type": "web_search_result", "url": "https://a.org/", "title": "A"}]) in outputs
    assert conformance.usage_of(outputs).web_searches == 1
    kept = json.loads(content_of(outputs).blocks)
    assert [block["type"] for block in kept] == ["text", "server_tool_use", "web_search_tool_result", "text"]
    assert kept[1]["input"] == {"query": "a?"}
    assert kept[2]["content"] == [FOUND]
    assert kept[3] == {"type": "text", "text": "It is a.", "citations": [CITATION]}
    assert sent(provider)["tools"] == [
        {
            "type": "web_search_20260209",
            "name": "web_search",
            "allowed_domains": ["a.org"],
            "max_uses": 3,
            "cache_control": {"type": "ephemeral"},
        }
    ]


async def test_the_blocks_go_back_unchanged_to_the_same_provider_and_to_no_other(
    driver: AnthropicDriver, provider: ScriptedProvider
) -> None:
    blocks = [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}, {"type": "text", "text": "a"}]
    own = ProviderContent(provider="anthropic", blocks=json.dumps(blocks), container="container_1")
    answered = AssistantEntry(text="a", provider_content=own)
    provider.play(answers.anthropic_text("on"))
    await conformance.collect(driver, asking(UserEntry(content="q"), answered))
    assert sent(provider)["messages"][-1] == {"role": "assistant", "content": blocks}
    assert sent(provider)["container"] == "container_1"
    other = AssistantEntry(text="a", provider_content=ProviderContent(provider="elsewhere", blocks=own.blocks))
    await conformance.collect(driver, asking(UserEntry(content="q"), other))
    told = sent(provider)["messages"]
    assert told[1]["content"] == [{"type": "text", "text": "a"}]
    assert told[2]["role"] == "user"
    provider.play(answers.openai_text("on"))
    async with open_openai(settings(provider)) as chat:
        await conformance.collect(chat, asking(UserEntry(content="q"), answered))
    assert "tools" not in sent(provider)
    assert [message["role"] for message in sent(provider)["messages"]] == ["user", "assistant", "user"]
    assert "server_tool_use" not in json.dumps(sent(provider))


async def test_calls_of_our_own_tools_beside_a_search_go_back_under_our_ids(
    driver: AnthropicDriver, provider: ScriptedProvider
) -> None:
    steps = [*answers.search_blocks(0, "s1", "q", [FOUND]), *answers.tool_block(2, ("toolu_1", "weather", ["{}"]))]
    provider.play(answers.stream([answers.message_start(), *steps, *answers.message_end("tool_use")]))
    content = content_of(await conformance.collect(driver, asking()))
    assert [block["type"] for block in json.loads(content.blocks)] == ["server_tool_use", "web_search_tool_result"]
    calls = called(("toolu_1_2", "weather")).tool_calls
    provider.play(answers.anthropic_text("x"))
    entry = AssistantEntry(text="", tool_calls=calls, provider_content=content)
    await conformance.collect(driver, asking(UserEntry(content="q"), entry, UserEntry(content="r")))
    message = sent(provider)["messages"][1]
    assert [block["type"] for block in message["content"]] == ["server_tool_use", "web_search_tool_result", "tool_use"]
    assert message["content"][-1]["id"] == "toolu_1_2"


async def test_a_search_that_failed_is_told_as_a_failure(driver: AnthropicDriver, provider: ScriptedProvider) -> None:
    failed: answers.Json = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    steps = [*answers.search_blocks(0, "s1", "q", failed), *answers.text_block(2, "no")]
    provider.play(answers.stream([answers.message_start(), *steps, *answers.message_end("pause_turn")]))
    outputs = await conformance.collect(driver, asking())
    assert ProviderResult("s1", "max_uses_exceeded", is_error=True) in outputs
    assert conformance.stop_reason_of(outputs) == "pause_turn"


async def test_an_answer_without_a_search_is_kept_as_any_other(driver: AnthropicDriver, provider: ScriptedProvider) -> None:
    provider.play(answers.anthropic_text("a"))
    outputs = await conformance.collect(driver, asking())
    assert not [output for output in outputs if isinstance(output, ProviderContentReported)]


@pytest.mark.parametrize("written", ["{", '{"a":' + "[" * 100_000], ids=["cut", "deep"])
def test_an_input_that_is_no_json_leaves_the_block_as_it_began(written: str) -> None:
    keeper = BlockKeeper("p")
    keeper.open({"type": "server_tool_use", "id": "s", "input": {}})
    keeper.grow({"type": "input_json_delta", "partial_json": written})
    keeper.close()
    content = keeper.content()
    assert content is not None
    assert json.loads(content.blocks) == [{"type": "server_tool_use", "id": "s", "input": {}}]
