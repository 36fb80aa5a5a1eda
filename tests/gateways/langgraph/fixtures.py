"""The official client of LangGraph against a real server with a scripted model."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
from langgraph_sdk import get_client
from tests.support.serving import Served, serving

from agentvm.drivers.base import Prompt, UserEntry
from agentvm.drivers.scripted import Pause, Script, ScriptStep, echo, last_user_text, reply, tool_calls
from agentvm.errors import ProviderOverloaded
from agentvm.model.policy import Policy, PolicyRule
from agentvm.model.tool_settings import ToolSettings

ASKING = ToolSettings(policy=Policy(rules=(PolicyRule(tool="current_time", do="ask"), PolicyRule(do="allow"))))
"""Somebody has to approve one of the tools."""
HI: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}


def converse(prompt: Prompt) -> Sequence[ScriptStep]:
    """Does as it is told: uses a tool, one that has to be approved, one of the client, waits without end, or fails."""
    is_answered = not isinstance(prompt.conversation[-1], UserEntry)
    match last_user_text(prompt):
        case "tool" | "ask" | "place" if is_answered:
            return reply("It is 2")
        case "tool":
            return tool_calls(("call_1", "calculator", {"expression": "1+1"}))
        case "ask":
            return tool_calls(("call_2", "current_time", {}))
        case "place":
            return tool_calls(("call_3", "find_place", {"name": "Oslo"}))
        case "wait":
            return [*reply("one ")[:3], Pause(anyio.Event())]
        case "fail":
            raise ProviderOverloaded("busy")
        case text:
            return reply(f"You said {text}")


def interrupted_by(*gates: anyio.Event) -> Script:
    """Says `slow` in two pieces, with a pause in between that ends with the next of the events; else as `converse`."""
    left = iter(gates)

    def script(prompt: Prompt) -> Sequence[ScriptStep]:
        if last_user_text(prompt) != "slow":
            return converse(prompt)
        return [*reply("one ")[:3], Pause(next(left)), *reply("two")[2:]]

    return script


def client_at(port: int, **about: Any) -> Any:
    return get_client(url=f"http://127.0.0.1:{port}/langgraph", api_key=None, **about)


@asynccontextmanager
async def talking(script: Script = echo, **about: Any) -> AsyncIterator[tuple[Any, Served]]:
    async with serving(script, **about) as served, client_at(served.port) as client:
        yield client, served


@asynccontextmanager
async def asking(served: Served) -> AsyncIterator[httpx2.AsyncClient]:
    """Plain requests, for what the client does not send."""
    async with httpx2.AsyncClient(base_url=f"{served.http}/langgraph") as http:
        yield http


async def streamed(parts: Any) -> list[tuple[str, Any]]:
    return [(part.event, part.data) async for part in parts]


def texts(values: Any) -> list[Any]:
    return [message["content"] for message in values["messages"]]
