"""Answers of one request are stored one after the other: a turn that waits for the next in between tells its client nothing."""

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2
import pytest
from tests.support.serving import serving

from agentvm.drivers.base import Prompt, ToolResultsEntry
from agentvm.drivers.scripted import ScriptStep, reply, tool_calls
from agentvm.gateways.talk import Talk
from agentvm.gateways.turn_parts import TurnEnded, TurnWaits
from agentvm.operations.tool import ToolAnswer

CALLS = {"call_oslo": "Oslo", "call_rome": "Rome"}
TOOL = {"name": "weather", "description": "", "parameters": {"type": "object"}}
FUNCTION = {"type": "function", "function": TOOL}
SAID = {"id": "m", "role": "user", "content": "hi"}
PARTS = [
    {"type": "tool-weather", "toolCallId": call, "state": "output-available", "output": f"sun in {city}"}
    for call, city in CALLS.items()
]
RESULTS = [{"id": call, "role": "tool", "toolCallId": call, "content": f"sun in {city}"} for call, city in CALLS.items()]
RUN = {"assistant_id": "default", "if_not_exists": "create", "context": {"tools": [TOOL]}}
CHAT_CALLS = [{"id": call, "type": "function", "function": {"name": "weather", "arguments": "{}"}} for call in CALLS]
OUTPUTS = [{"role": "tool", "tool_call_id": call, "content": f"sun in {city}"} for call, city in CALLS.items()]
ANSWERS: dict[str, tuple[str, Any, str, Any]] = {
    "agui": (
        "/ag-ui/default",
        {"threadId": "t", "runId": "1", "messages": [SAID], "tools": [TOOL]},
        "/ag-ui/default",
        {"threadId": "t", "runId": "2", "messages": [SAID, *RESULTS], "tools": [TOOL]},
    ),
    "ai_sdk": (
        "/ai-sdk/default",
        {"id": "c", "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "hi"}]}], "tools": [TOOL]},
        "/ai-sdk/default",
        {"id": "c", "messages": [{"id": "a", "role": "assistant", "parts": PARTS}], "tools": [TOOL]},
    ),
    "langgraph, awaited": (
        "/langgraph/threads/t/runs/wait",
        {**RUN, "input": {"messages": [SAID]}},
        "/langgraph/threads/t/runs/wait",
        {**RUN, "command": {"resume": [f"sun in {city}" for city in CALLS.values()]}},
    ),
    "langgraph, streamed": (
        "/langgraph/threads/s/runs/wait",
        {**RUN, "input": {"messages": [SAID]}},
        "/langgraph/threads/s/runs/stream",
        {**RUN, "command": {"resume": [f"sun in {city}" for city in CALLS.values()]}, "stream_mode": ["messages-tuple"]},
    ),
    "openai": (
        "/v1/chat/completions",
        {"model": "default", "messages": [SAID], "tools": [FUNCTION]},
        "/v1/chat/completions",
        {
            "model": "default",
            "messages": [SAID, {"role": "assistant", "content": None, "tool_calls": CHAT_CALLS}, *OUTPUTS],
            "tools": [FUNCTION],
        },
    ),
}
"""The request that the turn begins with, and the one that answers both of its calls."""


def script(prompt: Prompt) -> list[ScriptStep]:
    if isinstance(prompt.conversation[-1], ToolResultsEntry):
        return reply("both told")
    calls: list[tuple[str, str, dict[str, object]]] = [(call, "weather", {"city": city}) for call, city in CALLS.items()]
    return tool_calls(*calls)


def store_apart(monkeypatch: pytest.MonkeyPatch, turn_id: str) -> None:
    """Lets the turn wait again, or end, after each answer before the next one is stored."""
    ask = Talk.ask

    async def stops(talk: Talk, turn_id: str) -> int:
        parts, _ = await talk.read_parts(await talk.turn(turn_id))
        return sum(isinstance(part, TurnWaits | TurnEnded) for part in parts)

    async def ask_apart(talk: Talk, request: Any) -> Any:
        if not isinstance(request, ToolAnswer):
            return await ask(talk, request)
        before = await stops(talk, turn_id)
        reply_to_answer = await ask(talk, request)
        while await stops(talk, turn_id) == before:
            await anyio.lowlevel.checkpoint()
        return reply_to_answer

    monkeypatch.setattr(Talk, "ask", ask_apart)


@pytest.mark.parametrize("name", ANSWERS)
async def test_answers_that_are_stored_apart_are_one_answer_to_their_client(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(script) as served, httpx2.AsyncClient(base_url=served.http, timeout=60) as http:
        path, begins, answer_path, answers = ANSWERS[name]
        assert (await http.post(path, json=begins)).status_code == 200
        turns = [turn["turnId"] for turn in (await http.get("/v1/turns")).json()["items"]]
        store_apart(monkeypatch, turns[0])
        with anyio.fail_after(60):
            response = await http.post(answer_path, json=answers)
        assert (response.status_code, "both told" in response.text) == (200, True), response.text


async def told(lines: AsyncIterator[str], last: str) -> list[str]:
    """The lifecycle of a thread up to this state."""
    states: list[str] = []
    while last not in states:
        line = await anext(lines)
        if line.startswith("data: "):
            states.append(json.loads(line.removeprefix("data: "))["params"]["data"]["event"])
    return states


async def test_whoever_follows_a_thread_is_not_told_of_a_wait_between_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client for Python takes it for the end of the run."""
    async with serving(script) as served, httpx2.AsyncClient(base_url=f"{served.http}/langgraph/threads/t", timeout=60) as http:
        begun = await http.post("/runs/wait", json={**RUN, "input": {"messages": [SAID]}})
        turn_id = (await http.get("/runs")).json()[0]["run_id"]
        state = (await http.get("/state")).json()
        answers = [{"interrupt_id": wait["id"], "response": "sun"} for wait in state["interrupts"]]
        assert (begun.status_code, len(answers)) == (200, 2)
        respond = {"id": 1, "method": "input.respond", "params": {"responses": answers}}
        store_apart(monkeypatch, turn_id)
        async with http.stream("POST", "/stream/events", json={"channels": ["lifecycle"]}) as stream:
            lines = stream.aiter_lines()
            with anyio.fail_after(60):
                assert await told(lines, "interrupted") == ["running", "interrupted"]
                assert (await http.post("/commands", json=respond)).status_code == 200
                assert set(await told(lines, "completed")) == {"running", "completed"}


async def test_whoever_follows_a_thread_is_told_what_still_waits_after_one_answer() -> None:
    async with serving(script) as served, httpx2.AsyncClient(base_url=f"{served.http}/langgraph/threads/t", timeout=60) as http:
        await http.post("/runs/wait", json={**RUN, "input": {"messages": [SAID]}})
        waits = [wait["id"] for wait in (await http.get("/state")).json()["interrupts"]]
        async with http.stream("POST", "/stream/events", json={"channels": ["lifecycle"]}) as stream:
            lines = stream.aiter_lines()
            with anyio.fail_after(60):
                for wait in waits:
                    assert (await told(lines, "interrupted"))[-1] == "interrupted"
                    params = {"interrupt_id": wait, "response": "sun"}
                    answered = await http.post("/commands", json={"id": 1, "method": "input.respond", "params": params})
                    assert answered.status_code == 200
                assert (await told(lines, "completed"))[-1] == "completed"
