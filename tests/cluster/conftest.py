"""Nodes within one process, over one PostgreSQL database."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

import anyio
import pytest
from tests.faults.process import until
from tests.provision.nats import Nats

from agentvm import ScriptedDriver, ServerConfig, tool
from agentvm.app import open_agentvm
from agentvm.config import SessionSettings, SystemSettings
from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import Pause, ScriptStep, last_user_text, reply, tool_calls
from agentvm.model.cluster_settings import ClusterSettings
from agentvm.model.secret import Secret
from agentvm.vm import AgentVM

LEASE_SECONDS = 20.0


@dataclass
class Gate:
    """Holds the answers to messages that begin with "hold" after their first word, until it is opened.

    A message that begins with "delete" calls a tool that waits for an approval.
    """

    opened: anyio.Event = field(default_factory=anyio.Event)
    asked: list[Prompt] = field(default_factory=list)
    """What the models of all nodes were told."""

    def script(self, prompt: Prompt) -> list[ScriptStep]:
        self.asked.append(prompt)
        text = last_user_text(prompt)
        if text.startswith("delete"):
            return tool_calls(("call_1", "delete", {"name": text}))
        start, begin, first, *rest = reply(*[f"{text}:{number} " for number in range(5)])
        return [start, begin, first, Pause(self.opened), *rest] if text.startswith("hold") else [start, begin, first, *rest]


@tool(effect="destructive", world="closed")
async def delete(name: str) -> str:
    """Delete something for good."""
    return name


class OpenNode(Protocol):
    """Opens a node of that name, with an address of NATS or without."""

    def __call__(self, name: str, nats: str | None = None) -> AbstractAsyncContextManager[AgentVM]: ...


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def open_node(shipped_url: str, gate: Gate) -> OpenNode:
    """Opens a node of that name. Its lease is long: machines are busy, and nobody dies here."""

    @asynccontextmanager
    async def opened(name: str, nats: str | None = None) -> AsyncIterator[AgentVM]:
        config = ServerConfig(
            system=SystemSettings(data_dir=":memory:", database=Secret(shipped_url), server_key=Secret("ab" * 32)),
            sessions=SessionSettings(titles="off"),
            cluster=ClusterSettings(
                enabled="on", name=name, lease_seconds=LEASE_SECONDS, nats=None if nats is None else Secret(nats)
            ),
        )
        async with open_agentvm(config, drivers={"scripted": ScriptedDriver(gate.script)}, tools=[delete]) as vm:
            assert vm.membership is not None
            with anyio.fail_after(60):
                while not vm.membership.rows:
                    await vm.membership.wait_beat()
            yield vm

    return opened


@pytest.fixture
async def nodes(open_node: OpenNode) -> AsyncIterator[tuple[AgentVM, AgentVM]]:
    """Two nodes that know each other."""
    async with open_node("a") as a, open_node("b") as b:
        assert a.membership is not None
        a.membership.rows = await a.membership.nodes.list_all()
        yield a, b


@pytest.fixture
async def on_bus(open_node: OpenNode, nats: Nats) -> AsyncIterator[tuple[AgentVM, AgentVM]]:
    """Two nodes that hear each other on NATS, and would read the database four times a second without it."""
    async with open_node("a", nats.url) as a, open_node("b", nats.url) as b:
        assert a.membership is not None
        a.membership.rows = await a.membership.nodes.list_all()
        await both_hear(a, b)
        yield a, b


async def both_hear(*nodes: AgentVM) -> None:
    """Returns when each of the nodes hears all others."""
    with anyio.fail_after(60):
        await until(lambda: all(hears(node, other) for node in nodes for other in nodes if other is not node))


def hears(node: AgentVM, other: AgentVM) -> bool:
    return node.hearing is not None and node.hearing.is_heard(other.store.node_id)
