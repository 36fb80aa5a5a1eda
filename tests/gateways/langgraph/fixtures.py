"""The official client of LangGraph against a real server with a scripted model."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from langgraph_sdk import get_client
from tests.support.serving import Served, serving

from agentvm.drivers.scripted import Script, echo

HI: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}


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
