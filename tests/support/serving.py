"""A real server on a real socket, with a scripted model."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.abc
import pytest

from agentvm import Definition, ScriptedDriver, ServerConfig, start_server, wiring
from agentvm.config import MEMORY, SessionSettings, SystemSettings
from agentvm.drivers.base import Prompt, UserEntry
from agentvm.drivers.scripted import Pause, Script, ScriptStep, echo, last_user_text, reply, tool_calls
from agentvm.errors import ProviderOverloaded
from agentvm.model.limits import Limits
from agentvm.model.settings import TitleSource
from agentvm.model.tool_settings import ToolSettings
from agentvm.runtime.tools import ServerTools, Tool
from agentvm.server.local import RunningServer

DEFAULT_TITLES: TitleSource = ServerConfig().sessions.titles


@dataclass(frozen=True, slots=True)
class Served:
    """A running server and the model behind it."""

    url: str
    http: str
    port: int
    model: ScriptedDriver
    running: RunningServer


@asynccontextmanager
async def serving(
    script: Script = echo,
    *,
    data_dir: Path | None = None,
    definitions: Sequence[Definition] = (),
    limits: Limits | None = None,
    port: int = 0,
    titles: TitleSource = "off",
    tools: ToolSettings | None = None,
    public_url: str | None = None,
) -> AsyncIterator[Served]:
    """Without titles, so that a test hears what it asked for; with `DEFAULT_TITLES` it hears what everybody hears."""
    model = ScriptedDriver(script)
    config = ServerConfig(
        system=SystemSettings(port=port, data_dir=str(data_dir or MEMORY), shutdown_seconds=0, public_url=public_url),
        sessions=SessionSettings(titles=titles),
        limits=limits or Limits(),
        tools=tools or ToolSettings(),
    )
    async with start_server(config, definitions=definitions, drivers={"scripted": model}) as running:
        yield Served(running.ws_url, running.url, running.port, model, running)


def provide_tools(monkeypatch: pytest.MonkeyPatch, *tools: Tool) -> None:
    """Servers that start from now on have these tools instead of the built-in ones; an image that names none has them all."""
    source = ServerTools(tools, default=[tool.spec.name for tool in tools])
    monkeypatch.setattr(wiring, "ServerTools", lambda builtin, **options: source)


class Restartable:
    """A server that can be stopped and started again on the same port and data, while its clients live on."""

    def __init__(self, tasks: anyio.abc.TaskGroup, script: Script, data_dir: Path) -> None:
        self._tasks = tasks
        self._script = script
        self._data_dir = data_dir
        self._stop = anyio.Event()
        self._stopped = anyio.Event()
        self._port = 0

    async def start(self) -> Served:
        self._stop, self._stopped = anyio.Event(), anyio.Event()
        served: Served = await self._tasks.start(self._run)
        self._port = served.port
        return served

    async def stop(self) -> None:
        self._stop.set()
        with anyio.fail_after(60):
            await self._stopped.wait()

    async def _run(self, *, task_status: anyio.abc.TaskStatus[Served] = anyio.TASK_STATUS_IGNORED) -> None:
        async with serving(self._script, data_dir=self._data_dir, port=self._port) as served:
            task_status.started(served)
            await self._stop.wait()
        self._stopped.set()


@asynccontextmanager
async def restartable(script: Script, data_dir: Path) -> AsyncIterator[Restartable]:
    async with anyio.create_task_group() as tasks:
        server = Restartable(tasks, script, data_dir)
        yield server
        await server.stop()


class Play:
    """A script that does what the user's first word says; any other message is echoed word by word.

    `tool`: asks for the calculator, then says what it got. `slow`: says "w0 w1 " and waits for `gate`. `crash`: says
    "Partial" and fails. `fail`: fails before it says anything. `many N`: N deltas. `mute`: calls a tool without a word.
    `broken`: calls a tool that fails. `blank`: says only white space.
    """

    def __init__(self) -> None:
        self.gate = anyio.Event()

    def __call__(self, prompt: Prompt) -> Iterable[ScriptStep]:
        word, _, rest = last_user_text(prompt).partition(" ")
        asked = isinstance(prompt.conversation[-1], UserEntry)
        match word:
            case "tool" if asked:
                return tool_calls(("call_1", "calculator", {"expression": "2+3*4"}), text="Let me check.")
            case "mute" if asked:
                return tool_calls(("call_1", "calculator", {"expression": "6*7"}))
            case "broken" if asked:
                return tool_calls(("call_1", "calculator", {"expression": "1/0"}))
            case "tool" | "mute" | "broken":
                return reply("It is ", "done.")
            case "slow":
                first, *others = reply("w0 ", "w1 ", "w2 ")
                return [first, *others[:3], Pause(self.gate), *others[3:]]
            case "crash":
                return [*reply("Partial")[:3], ProviderOverloaded("the model is overloaded")]
            case "fail":
                return [ProviderOverloaded("the model is overloaded")]
            case "many":
                return reply(*(f"{number} " for number in range(int(rest))))
            case "blank":
                return reply(" ", "\n")
            case _:
                return echo(prompt)
