import itertools
from typing import Any

import anyio
import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, JSONRPCNotification, JSONRPCResponse, TextContent
from mcp_types.jsonrpc import jsonrpc_message_adapter
from tests.gateways.mcp.fixtures import ERAS, calling, handshake, management, tools_of
from tests.support.examples import examples
from tests.support.serving import Play

from agentvm import Definition
from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import Pause, reply
from agentvm.errors import ProviderOverloaded
from agentvm.gateways.mcp.agent_tool import ASK_OUTPUT, NAME_MAX, PROGRESS_SECONDS, AskStream, tool_name
from agentvm.gateways.mcp.messages import McpCall
from agentvm.gateways.talk import SentTurn
from agentvm.gateways.turn_parts import CallMade, CallWaits, TextAdded, TurnEnded, TurnPart, TurnWaits
from agentvm.model.ids import ContainerId, ImageId, MessageId, SessionId, TurnId
from agentvm.model.turn import Turn
from agentvm.model.wait import WaitId


def text_of(result: CallToolResult) -> str:
    return "".join(part.text for part in result.content if isinstance(part, TextContent))


@pytest.mark.parametrize("mode", ERAS)
async def test_a_text_turn_is_the_result_of_a_tool_and_goes_on_in_its_session(mode: str) -> None:
    async with calling(mode=mode) as (client, served):
        first = await client.call_tool("ask_default", {"message": "hello"})
        assert (text_of(first), first.is_error) == ("hello", False)
        about = first.structured_content
        assert about["answer"] == "hello"
        assert about["outcome"] == "completed"
        assert about["usage"]["outputTokens"] > 0
        second = await client.call_tool("ask_default", {"message": "again", "session_id": about["sessionId"]})
        assert second.structured_content["sessionId"] == about["sessionId"]
        assert second.structured_content["turnId"] != about["turnId"]
        assert len(served.model.prompts[-1].conversation) == 3


@pytest.mark.parametrize("mode", ERAS)
async def test_a_tool_turn_tells_its_progress(mode: str) -> None:
    heard: list[tuple[float, str | None]] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, message))

    async with calling(Play(), mode=mode) as (client, served):
        result = await client.call_tool("ask_default", {"message": "tool"}, progress_callback=progressed)
        assert "14" in repr(served.model.prompts[-1].conversation)
    assert text_of(result) == "Let me check.\n\nIt is done."
    assert heard
    assert [step for step, _ in heard] == sorted({step for step, _ in heard})
    assert text_of(result).startswith((heard[0][1] or "")[:3])


@pytest.mark.parametrize("mode", ERAS)
async def test_a_turn_is_interrupted_when_its_client_leaves(mode: str) -> None:
    started = anyio.Event()

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        started.set()

    async with calling(lambda prompt: [*reply("one")[:3], Pause(anyio.Event())]) as (observer, served):
        assert observer.protocol_version == "2026-07-28"

        async def ask() -> None:
            async with Client(f"{served.http}/mcp", mode=mode) as client:
                await client.call_tool("ask_default", {"message": "x"}, progress_callback=progressed)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                await started.wait()
                tasks.cancel_scope.cancel()
            outcome = None
            while outcome is None:
                outcome = (await management(served, "GET", "/v1/turns"))["items"][0].get("outcome")
        assert outcome == "interrupted"


@pytest.mark.parametrize("mode", ERAS)
async def test_a_turn_with_a_key_goes_on_for_whoever_asks_again(mode: str) -> None:
    gate, started = anyio.Event(), anyio.Event()
    script = [*reply("one ", "two")[:3], Pause(gate), *reply("one ", "two")[3:]]

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        started.set()

    async with calling(lambda prompt: script) as (_, served):

        async def ask(**about: Any) -> CallToolResult:
            http = httpx2.AsyncClient(headers={"Idempotency-Key": "once"}, timeout=60)
            async with http, Client(streamable_http_client(f"{served.http}/mcp", http_client=http), mode=mode) as client:
                return await client.call_tool("ask_default", {"message": "x"}, **about)

        async def lose() -> None:
            await ask(progress_callback=progressed)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lose)
                await started.wait()
                tasks.cancel_scope.cancel()
            gate.set()
            result = await ask()
        assert (text_of(result), result.structured_content["outcome"]) == ("one two", "completed")
        assert len(served.model.prompts) == 1


@pytest.mark.parametrize("mode", ERAS)
async def test_a_failed_turn_is_a_result_that_is_an_error(mode: str) -> None:
    def script(prompt: Prompt) -> Any:
        raise ProviderOverloaded("busy")

    async with calling(script, mode=mode) as (client, _):
        result = await client.call_tool("ask_default", {"message": "x"})
        assert result.is_error
        assert result.structured_content["outcome"] == "failed"
        assert text_of(result)


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("ask_nobody", {"message": "x"}),
        ("ask_img_nobody", {"message": "x"}),
        ("unknown", {"message": "x"}),
        ("ask_default", {"message": "x", "session_id": "sess_nobody"}),
        ("ask_default", {}),
        ("ask_default", {"message": 5}),
        ("read_session", {"id": "sess_nobody"}),
        ("search_sessions", {}),
    ],
)
async def test_what_does_not_exist_or_fit_is_refused_without_a_turn(mode: str, tool: str, arguments: dict[str, Any]) -> None:
    async with calling(mode=mode) as (client, served):
        with pytest.raises(MCPError) as failure:
            await client.call_tool(tool, arguments)
        assert failure.value.code == -32602
        assert served.model.prompts == []


async def test_an_address_of_one_agent_has_its_tool_alone() -> None:
    definitions = [Definition(name="first"), Definition(name="second", description="Knows it")]
    async with calling(path="/mcp/second", definitions=definitions) as (client, _):
        tools = await tools_of(client)
        assert {name for name in tools if name.startswith("ask_")} == {"ask_second"}
        assert "Knows it" in (tools["ask_second"].description or "")
        assert text_of(await client.call_tool("ask_second", {"message": "x"})) == "x"
        with pytest.raises(MCPError):
            await client.call_tool("ask_first", {"message": "x"})
    async with calling(path="/mcp/nobody") as (client, _):
        with pytest.raises(MCPError) as failure:
            await client.list_tools()
        assert failure.value.code == -32602


async def test_an_agent_whose_name_is_no_name_of_a_tool_can_be_asked() -> None:
    async with calling(definitions=[Definition(name="翻译 助手")]) as (client, served):
        name = tool_name("翻译 助手")
        assert name in await tools_of(client)
        assert text_of(await client.call_tool(name, {"message": "x"})) == "x"
        assert len(served.model.prompts) == 1


async def test_a_client_that_reads_no_stream_gets_one_piece_and_a_repeated_request_is_one_turn() -> None:
    async with calling() as (_, served), httpx2.AsyncClient(base_url=served.http) as http:
        body = handshake("tools/call", name="ask_default", arguments={"message": "hi"})
        headers = {"Accept": "application/json", "Idempotency-Key": "k1"}
        replies = [await http.post("/mcp", json=body, headers=headers) for _ in range(2)]
        results = [answer.json()["result"]["structuredContent"] for answer in replies]
        assert results[0] == results[1]
        assert len(served.model.prompts) == 1
        refused = await http.post("/mcp", json=body, headers={"Idempotency-Key": "k" * 201})
        assert refused.json()["error"]["code"] == -32602


@given(st.text(max_size=200), st.text(max_size=200))
@settings(max_examples=examples(40, 2000))
def test_names_of_tools_are_short_plain_and_different(first: str, second: str) -> None:
    names = tool_name(first), tool_name(second)
    for name in names:
        assert len(name) <= NAME_MAX
        assert all(character.isascii() and (character.isalnum() or character in "_-") for character in name)
    assert (names[0] == names[1]) == (first == second)


texts = st.text(max_size=5)
turn_parts: st.SearchStrategy[TurnPart] = st.one_of(
    st.builds(TextAdded, texts),
    st.builds(CallMade, texts, st.just("f"), st.just({})),
    st.builds(CallWaits, texts, st.just("f"), st.just({}), st.just("approval"), st.just(WaitId("w")), texts),
    st.just(TurnWaits((WaitId("w"),))),
    st.builds(TurnEnded, st.sampled_from(["completed", "interrupted", "failed"]), st.just("end_turn")),
)


@given(st.lists(turn_parts, max_size=12), st.one_of(st.none(), st.just("token")), st.booleans())
@settings(max_examples=examples(40, 5000))
def test_any_order_of_parts_is_progress_that_grows_and_one_result(
    told: list[TurnPart], token: str | None, is_stateless: bool
) -> None:
    now = itertools.count()
    call = McpCall(7, "tools/call", {"_meta": {"progressToken": token}} if token else {}, is_stateless)
    turn = Turn(
        turn_id=TurnId("turn_1"), session_id=SessionId("sess_1"), container_id=ContainerId("c1"), image_id=ImageId("img_1"),
        message_id=MessageId("msg_1"), accepted_at=0,
    )  # fmt: skip
    stream = AskStream(call, SentTurn(turn, 0), lambda: next(now) * PROGRESS_SECONDS)
    raw = stream.begin() + b"".join(stream.write(part, 0) for part in told)
    messages = [
        jsonrpc_message_adapter.validate_json(piece.split("data: ", 1)[1], by_name=False)
        for piece in raw.decode().split("\n\n")
        if piece
    ]
    steps = [message.params["progress"] for message in messages if isinstance(message, JSONRPCNotification) and message.params]
    assert steps == sorted(set(steps))
    assert not steps or token
    results = [message for message in messages if isinstance(message, JSONRPCResponse)]
    assert len(results) == int(stream.is_done) == int(any(isinstance(part, TurnWaits | TurnEnded) for part in told))
    for result in results:
        assert messages[-1] is result
        assert set(ASK_OUTPUT["required"]) <= set(CallToolResult.model_validate(result.result).structured_content)
