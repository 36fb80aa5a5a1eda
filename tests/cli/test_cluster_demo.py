"""avm cluster demo: its model, its load balancer, and what is missing."""

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import cast

import anyio
import httpx2
import pytest
from tests.cli.program import COMMAND, WAIT, environment
from tests.faults.process import until
from tests.provision import Unavailable
from tests.provision.postgres import programs

from agentvm.cli.cluster_demo import WORD_SECONDS, Balancer, Counting, DemoNode, serve_node
from agentvm.drivers.base import Prompt, TextChunk, UserEntry


async def test_a_model_that_is_asked_again_catches_up_with_the_clock() -> None:
    asked_at = time.time() - 50 * WORD_SECONDS
    prompt = Prompt(model="demo", max_tokens=9, conversation=(UserEntry(content=f"Count from {asked_at:.3f}"),))
    told = ""
    with anyio.fail_after(60):
        async for output in Counting().run(prompt):
            told += output.text if isinstance(output, TextChunk) else ""
            if told.endswith(" 40 "):
                break
    assert told.split() == [str(number) for number in range(1, 41)]


class FakeNode:
    def __init__(self, name: str, port: int | None) -> None:
        self.name, self.port = name, port


async def test_a_connection_goes_to_the_next_node_that_is_there() -> None:
    async def greet(client: anyio.abc.SocketStream) -> None:
        async with client:
            await client.send(b"hello " + await client.receive())

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as there,
        await anyio.create_tcp_listener(local_host="127.0.0.1") as gone,
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        refused = gone.extra(anyio.abc.SocketAttribute.local_port)
        await gone.aclose()
        nodes = [FakeNode("a", None), FakeNode("b", refused), FakeNode("c", there.extra(anyio.abc.SocketAttribute.local_port))]
        balancer = Balancer(cast(list[DemoNode], nodes))
        tasks.start_soon(there.serve, greet)
        tasks.start_soon(listener.serve, balancer.handle)
        with anyio.fail_after(60):
            for _ in range(2):
                async with await anyio.connect_tcp("127.0.0.1", listener.extra(anyio.abc.SocketAttribute.local_port)) as client:
                    await client.send(b"you")
                    assert await client.receive() == b"hello you"
        assert balancer.last == "c"
        tasks.cancel_scope.cancel()


async def test_a_node_ends_when_it_is_drained(database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = ""

    def has_port() -> bool:
        nonlocal printed
        printed += capsys.readouterr().out
        return printed.endswith("\n")

    # Without a failure the block ends when the node has.
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks, httpx2.AsyncClient() as client:
            tasks.start_soon(serve_node, "a", str(tmp_path), database_url, "ab" * 32)
            await until(has_port)
            url = f"http://127.0.0.1:{int(printed)}/v1/cluster/nodes/0/drain"
            assert (await client.post(url, json={})).status_code == 200


def processes_with(text: str) -> list[str]:
    """The command lines that have the text."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in line:
            lines.append(line)
    return lines


def test_sigterm_ends_the_nodes_and_postgresql_and_removes_what_they_have_stored() -> None:
    try:
        programs()
    except Unavailable as reason:
        pytest.skip(str(reason))
    # The path of a socket has room for a hundred characters, and the user of PostgreSQL must come through.
    with tempfile.TemporaryDirectory(prefix="avm-") as name:
        Path(name).chmod(0o711)
        env = environment(Path(name), TMPDIR=name)
        demo = [*COMMAND, "cluster", "demo", "--nodes", "2"]
        # The input stays open and says nothing, as a terminal does.
        reading, writing = os.pipe()
        with subprocess.Popen(demo, env=env, stdin=reading, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert next(line for line in process.stdout if line.startswith("Load balancer"))
            # PostgreSQL, NATS and two nodes.
            assert len(processes_with(name)) >= 4
            process.send_signal(signal.SIGTERM)
            process.stdout.read()
            process.wait(WAIT)
        os.close(reading)
        os.close(writing)
        assert processes_with(name) == []
        assert list(Path(name).glob("avm-demo-*")) == []
