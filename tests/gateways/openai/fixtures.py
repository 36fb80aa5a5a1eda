"""The official client of OpenAI against a real server with a scripted model."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from openai import AsyncOpenAI
from tests.support.serving import Served, serving

from agentvm.drivers.scripted import Script, echo


@asynccontextmanager
async def talking(
    script: Script = echo, *, prefix: str = "/openai/v1", **about: Any
) -> AsyncIterator[tuple[AsyncOpenAI, Served]]:
    async with serving(script, **about) as served, AsyncOpenAI(api_key="any", base_url=f"{served.http}{prefix}") as client:
        yield client, served


async def management(client: AsyncOpenAI, served: Served, path: str) -> Any:
    """One answer of the management API."""
    return await client.get(f"{served.http}{path}", cast_to=object)
