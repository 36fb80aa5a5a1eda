"""The Worker as the tests of a server use one: a scripted model behind it, and a tenant of its own for each."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio.to_thread
from tests.support.edge import EdgeServer
from tests.support.edge_answers import played
from tests.support.provider import Answer, ProviderRequest, ScriptedProvider

from agentvm.drivers.base import AssistantEntry, ConversationEntry, Prompt, ToolResultsEntry, UserEntry
from agentvm.drivers.scripted import Script, echo


@dataclass
class EdgeModel:
    """What a script was asked, from the requests of the Worker to its provider."""

    script: Script
    provider: ScriptedProvider
    prompts: list[Prompt] = field(default_factory=list)

    @property
    def closed_early(self) -> int:
        return sum(request.abandoned.is_set() for request in self.provider.requests)

    def answer(self, request: ProviderRequest) -> Answer:
        self.prompts.append(prompt_of(request.json()))
        return played([list(self.script(self.prompts[-1]))])[0]


@dataclass(frozen=True)
class ServedAtEdge:
    """What `tests.support.serving.Served` is for a server."""

    url: str
    port: int
    model: EdgeModel


class EdgeServing:
    """Stands in for `serving` in tests that were written for a server. What survives there in a folder is a tenant here."""

    def __init__(self, edge: EdgeServer) -> None:
        self._edge = edge
        self._urls: dict[Path, str] = {}

    @asynccontextmanager
    async def __call__(self, script: Script = echo, *, data_dir: Path | None = None) -> AsyncIterator[ServedAtEdge]:
        if data_dir in self._urls:
            await anyio.to_thread.run_sync(self._edge.kill)
            await anyio.to_thread.run_sync(self._edge.start)
        url = self._urls.get(data_dir) if data_dir is not None else None
        url = url or self._edge.new_url()
        if data_dir is not None:
            self._urls[data_dir] = url
        async with self._edge.provider() as provider:
            model = EdgeModel(script, provider)
            provider.answer(model.answer)
            yield ServedAtEdge(url, self._edge.port, model)


def prompt_of(body: dict[str, Any]) -> Prompt:
    """The prompt that a request to Anthropic was made of, as far as scripts look at it."""
    entries = tuple(_entry(message["role"], message["content"]) for message in body["messages"])
    return Prompt(model=body["model"], conversation=entries, max_tokens=body["max_tokens"], system=body.get("system"))


def _entry(role: str, blocks: list[dict[str, Any]]) -> ConversationEntry:
    text = " ".join(block["text"] for block in blocks if block["type"] == "text")
    if role == "assistant":
        return AssistantEntry(text=text)
    return ToolResultsEntry(results=()) if blocks[0]["type"] == "tool_result" else UserEntry(content=text)
