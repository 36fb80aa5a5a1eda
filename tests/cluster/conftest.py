"""Nodes within one process, over one PostgreSQL database."""

import itertools
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

import anyio
import psycopg
import pytest
from tests.provision.postgres import Postgres

from agentvm import ScriptedDriver, ServerConfig
from agentvm.app import open_agentvm
from agentvm.config import SessionSettings, SystemSettings
from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import Pause, ScriptStep, last_user_text, reply
from agentvm.model.cluster_settings import ClusterSettings
from agentvm.model.secret import Secret
from agentvm.vm import AgentVM

NUMBERS = itertools.count()
LEASE_SECONDS = 20.0


@pytest.fixture
def database_url(postgres: Postgres) -> Iterator[str]:
    """The address of an empty database."""
    name = f"cluster_{os.getpid()}_{next(NUMBERS)}"
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield postgres.url(name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@dataclass
class Gate:
    """Holds the answers to messages that begin with "hold" after their first word, until it is opened."""

    opened: anyio.Event = field(default_factory=anyio.Event)

    def script(self, prompt: Prompt) -> list[ScriptStep]:
        text = last_user_text(prompt)
        start, begin, first, *rest = reply(*[f"{text}:{number} " for number in range(5)])
        return [start, begin, first, Pause(self.opened), *rest] if text.startswith("hold") else [start, begin, first, *rest]


OpenNode = Callable[[str], AbstractAsyncContextManager[AgentVM]]


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def open_node(database_url: str, gate: Gate) -> OpenNode:
    """Opens a node of that name. Its lease is long: machines are busy, and nobody dies here."""

    @asynccontextmanager
    async def opened(name: str) -> AsyncIterator[AgentVM]:
        config = ServerConfig(
            system=SystemSettings(data_dir=":memory:", database=Secret(database_url), server_key=Secret("ab" * 32)),
            sessions=SessionSettings(titles="off"),
            cluster=ClusterSettings(enabled="on", name=name, lease_seconds=LEASE_SECONDS),
        )
        async with open_agentvm(config, drivers={"scripted": ScriptedDriver(gate.script)}) as vm:
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
