"""Local runtime — AgentVM within this process, for `create_agentx(local_runtime())` and `start_server()`."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import anyio.abc

from agentvm.app import open_agentvm
from agentvm.channels.host import open_channels
from agentvm.client.verbs import AgentX, RuntimeView
from agentvm.config import ServerConfig, load
from agentvm.drivers.base import Driver
from agentvm.errors import ConfigInvalid, Conflict, DataDirInUse
from agentvm.model.definition import Definition
from agentvm.model.secret import Secret
from agentvm.protocol.link import Unsubscribe
from agentvm.runtime.function_tool import as_tool
from agentvm.runtime.tasks import open_tasks
from agentvm.runtime.tools import Tool
from agentvm.server.announcement import announced, running_server
from agentvm.server.asgi import Application
from agentvm.server.local_link import LocalLink
from agentvm.server.serving import Listener
from agentvm.vm import AgentVM


class LocalServer:
    """The `server` of a local AgentX: `listen`, `close`, `on_connection`."""

    def __init__(self, vm: AgentVM, tasks: anyio.abc.TaskGroup) -> None:
        self.vm = vm
        self._tasks = tasks
        self._stop: anyio.Event | None = None
        self._stopped = anyio.Event()
        self.port: int | None = None
        self._listener = Listener(vm)

    @property
    def app(self) -> Application:
        return self._listener.app

    async def listen(self, *, port: int, host: str = "127.0.0.1") -> int:
        if self._stop is not None:
            raise Conflict(f"This runtime already listens on port {self.port}; close() it first")
        self._stop, self._stopped = anyio.Event(), anyio.Event()
        try:
            self.port = await self._tasks.start(self._run, host, port, self._stop, self._stopped)
        finally:
            if self.port is None:
                self._stop = None
        return self.port

    async def close(self) -> None:
        """Closes every connection. Turns continue: they belong to the runtime."""
        if self._stop is not None:
            self._stop.set()
            await self._stopped.wait()
            self._stop = self.port = None

    def refuse_new(self) -> None:
        self._listener.refuse_new()

    def on_connection(self, handler: Callable[[RuntimeView], None]) -> Unsubscribe:
        return self._listener.on_connection(handler)

    async def _run(
        self,
        host: str,
        port: int,
        stop: anyio.Event,
        stopped: anyio.Event,
        *,
        task_status: anyio.abc.TaskStatus[int] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        try:
            async with self._listener.listen(host, port) as bound:
                with announced(self.vm.config.data_dir, host, bound):
                    task_status.started(bound)
                    await stop.wait()
        finally:
            stopped.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRuntime:
    """A runtime in this process, for `create_agentx`."""

    config: ServerConfig
    definitions: Sequence[Definition]
    drivers: Mapping[str, Driver] | None
    tools: Sequence[Tool] = ()
    overrides: bool = True
    recovers_later: bool = False
    runs_channels: bool = False

    @asynccontextmanager
    async def open(self) -> AsyncIterator[AgentX]:
        async with AsyncExitStack() as stack:
            opened = open_agentvm(
                self.config,
                definitions=self.definitions,
                drivers=self.drivers,
                tools=self.tools,
                overrides=self.overrides,
                recovers_later=self.recovers_later,
            )
            try:
                vm = await stack.enter_async_context(opened)
            except DataDirInUse as error:
                raise DataDirInUse(_in_python(error), details=error.details) from None
            tasks = await stack.enter_async_context(open_tasks())
            peer = vm.attach()
            vm.runtime.broadcaster.own = peer.channel
            stack.callback(vm.detach, peer)
            stack.callback(tasks.cancel_scope.cancel)
            link = LocalLink(peer)
            tasks.start_soon(link.run)
            server = LocalServer(vm, tasks)
            if self.runs_channels:
                await stack.enter_async_context(open_channels(vm))
            stack.push_async_callback(_shut_down, vm, server)
            yield AgentX(link, server)


def _in_python(error: DataDirInUse) -> str:
    """Returns the error text with the remedy for a program, which has no flags."""
    url = running_server(Path(str(error.details.get("dataDir"))))
    socket = "url" if url is None else f'"{url.replace("http", "ws", 1)}/ws"'
    return (
        f"{error.details.get('fact', error)} Connect to that server with remote_runtime({socket}), or give this runtime a "
        "data directory of its own: local_runtime(ServerConfig(system=SystemSettings(data_dir=...))); "
        '":memory:" keeps everything in memory.'
    )


async def _shut_down(vm: AgentVM, server: LocalServer) -> None:
    """Shuts down in order: no new peers, turns finish or are ended, their peers get the events, sockets close."""
    with anyio.CancelScope(shield=True):
        server.refuse_new()
        await vm.runtime.drain(vm.config.system.shutdown_seconds if vm.grace_seconds is None else vm.grace_seconds)
        await server.close()


def local_runtime(
    config: ServerConfig | None = None,
    *,
    definitions: Sequence[Definition] = (),
    drivers: Mapping[str, Driver] | None = None,
    tools: Sequence[Tool | Callable[..., object]] = (),
    overrides: bool = True,
) -> LocalRuntime:
    """Runs agents in this process. Without a config the file and the environment decide, as for `avm serve`.

    `tools` are functions of this program that agents may call; see `agentvm.tool`.

    Without `overrides` it starts as if its settings had never been changed at run time.
    """
    return LocalRuntime(
        config=config or load(),
        definitions=tuple(definitions),
        drivers=drivers,
        tools=tuple(as_tool(tool) for tool in tools),
        overrides=overrides,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """A server that accepts connections."""

    app: Application
    agentx: AgentX
    server: LocalServer
    host: str
    port: int

    @property
    def first_key(self) -> Secret | None:
        """The operator's key, if this start has created it."""
        return self.server.vm.first_key

    @property
    def config(self) -> ServerConfig:
        """The effective configuration."""
        return self.server.vm.config

    async def wait_leaving(self) -> None:
        """Returns when the operator has asked this node of a cluster to stop."""
        await self.server.vm.leaving.wait()

    @property
    def url(self) -> str:
        return f"http://{_for_url(self.host)}:{self.port}"

    @property
    def ws_url(self) -> str:
        return f"ws://{_for_url(self.host)}:{self.port}/ws"


@asynccontextmanager
async def start_server(
    config: ServerConfig | None = None,
    *,
    definitions: Sequence[Definition] = (),
    drivers: Mapping[str, Driver] | None = None,
    tools: Sequence[Tool | Callable[..., object]] = (),
    overrides: bool = True,
) -> AsyncIterator[RunningServer]:
    """Yields a listening server, which stops when the block ends."""
    source = local_runtime(config, definitions=definitions, drivers=drivers, tools=tools, overrides=overrides)
    # Clients connect at once; what they ask for waits until the turns of the previous run are known.
    async with replace(source, recovers_later=True, runs_channels=True).open() as agentx:
        server = agentx.server
        if not isinstance(server, LocalServer):
            raise TypeError("a local runtime has a server")
        # Where it listens may have been changed while an earlier server ran.
        system = server.vm.config.system
        try:
            port = await server.listen(port=system.port, host=system.host)
        except ConfigInvalid as error:
            if server.vm.first_key is not None:
                await server.vm.tenancy.access.revoke_unshown(server.vm.first_key)
            raise server.vm.settings.blamed(error) from None
        yield RunningServer(app=server.app, agentx=agentx, server=server, host=system.host, port=port)


def _for_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
