"""A server that is killed: everything it acknowledged is there afterwards."""

import os
import signal
import sys
from pathlib import Path

import anyio
import apsw
import pytest
from anyio.streams.text import TextReceiveStream
from tests.conformance.records import HOME, SESSION
from tests.conformance.store import ACME

from agentvm.storage.engine import open_store

WRITER = """
import sys
from pathlib import Path

import anyio

from agentvm.storage.engine import open_store
from tests.conformance.records import SESSION, image, message
from tests.conformance.store import settle


async def main():
    async with open_store(Path(sys.argv[1])) as store:
        home = await settle(store, image())

        async def write(writer):
            for number in range(1_000_000):
                await home.log(SESSION).record(messages=[message(f"{writer}-{number}", "x" * 300)], now=2)
                print(f"{writer}-{number}", flush=True)

        async with anyio.create_task_group() as tasks:
            for writer in range(8):
                tasks.start_soon(write, writer)


anyio.run(main)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
async def test_everything_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with anyio.fail_after(60):
        async with await anyio.open_process([sys.executable, "-c", WRITER, str(path)], env=environment, stderr=None) as child:
            assert child.stdout is not None
            heard = ""
            async for text in TextReceiveStream(child.stdout):
                heard += text
                # Late enough for a checkpoint to be under way at times, and always in the middle of writing.
                if heard.count("\n") >= 2_000 and child.returncode is None:
                    child.kill()
            assert await child.wait() == -signal.SIGKILL
        acknowledged = heard.splitlines() if heard.endswith("\n") else heard.splitlines()[:-1]
        async with open_store(path) as store:
            stored = [each.id for each in await store.tenant(ACME).container(HOME).list_messages(SESSION)]
    assert set(acknowledged) <= set(stored)
    # Nothing is doubled, and each writer's messages end where it was stopped, without a gap.
    for writer in range(8):
        own = [each for each in stored if each.startswith(f"{writer}-")]
        assert own == [f"{writer}-{number}" for number in range(len(own))]
    assert apsw.Connection(str(path)).pragma("integrity_check") == "ok"
