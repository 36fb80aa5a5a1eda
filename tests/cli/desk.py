"""Desk — `avm` in this process, at a real server that asks who is there."""

import io
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import anyio
import anyio.to_thread

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.cli.main import run
from agentvm.config import MEMORY, BillingSettings, SystemSettings
from agentvm.drivers.base import Driver
from agentvm.model.definition import Definition
from agentvm.model.money import ModelRate
from agentvm.runtime.tools import Tool
from agentvm.server.local import RunningServer

PRICES = {"scripted": ModelRate(input=Decimal(1), output=Decimal(10))}


@dataclass(frozen=True, slots=True)
class Done:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@contextmanager
def standing(variables: dict[str, str], given: str) -> Iterator[None]:
    """With these variables and nothing else of AgentVM, and with that as the input."""
    kept, stdin = dict(os.environ), sys.stdin
    for name in kept:
        if name.startswith(("AVM_", "LLM_")):
            del os.environ[name]
    # Nobody's profiles, unless the test has some of its own.
    os.environ["XDG_CONFIG_HOME"] = os.devnull
    os.environ.update(variables)
    sys.stdin = io.StringIO(given)
    try:
        yield
    finally:
        sys.stdin = stdin
        os.environ.clear()
        os.environ.update(kept)


def avm(
    *arguments: str, url: str | None, key: str | None = None, given: str = "", variables: dict[str, str] | None = None
) -> Done:
    """Runs a command to its end, in this thread. `variables` are set besides those of the URL and the key."""
    named = {"AVM_URL": url, "AVM_KEY": key, **(variables or {})}
    variables = {name: value for name, value in named.items() if value is not None}
    # Bytes below: a download writes them as they are.
    printed = io.BytesIO()
    out = io.TextIOWrapper(printed, encoding="utf-8", write_through=True)
    with standing(variables, given), redirect_stdout(out), redirect_stderr(io.StringIO()) as err:
        code = run(arguments)
    return Done(code, printed.getvalue().decode(errors="surrogateescape"), err.getvalue())


@dataclass(frozen=True, slots=True)
class Desk:
    """A running server, and whoever stands before it: the operator, unless a key says otherwise."""

    server: RunningServer
    operator: str

    async def avm(
        self, *arguments: str, key: str | None = None, given: str = "", variables: dict[str, str] | None = None
    ) -> Done:
        with anyio.fail_after(60):
            return await anyio.to_thread.run_sync(
                lambda: avm(*arguments, url=self.server.url, key=key or self.operator, given=given, variables=variables)
            )

    async def ok(self, *arguments: str, key: str | None = None, given: str = "") -> str:
        """What it printed; it must go well."""
        done = await self.avm(*arguments, key=key, given=given)
        assert done.code == 0, done.err
        return done.out

    async def record(self, *arguments: str, key: str | None = None, given: str = "") -> Any:
        """What it answered in JSON."""
        return json.loads(await self.ok(*arguments, "--json", key=key, given=given))


@asynccontextmanager
async def open_desk(
    driver: Driver | None = None, *, definitions: Sequence[Definition] = (), tools: Sequence[Tool] = ()
) -> AsyncIterator[Desk]:
    config = ServerConfig(
        system=SystemSettings(port=0, data_dir=MEMORY, shutdown_seconds=0, auth="on"), billing=BillingSettings(prices=PRICES)
    )
    drivers = {"scripted": driver or ScriptedDriver()}
    async with start_server(config, drivers=drivers, definitions=definitions, tools=tools) as server:
        assert server.first_key is not None
        yield Desk(server, server.first_key.reveal())
