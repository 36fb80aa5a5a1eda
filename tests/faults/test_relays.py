"""F28 for calls that clients word themselves: what a killed server had asked is billed by the next, once."""

import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import httpx2
from tests.faults.process import WAIT, open_server, until
from tests.support import answers
from tests.support.provider import Stall, open_provider

from agentvm.storage.engines.sqlite.datadir import DATABASE

BODY = {"model": "claude-test", "max_tokens": 100, "stream": True, "messages": [{"role": "user", "content": "word " * 300}]}


def count(data_dir: Path, table: str) -> int:
    with closing(sqlite3.connect(data_dir / DATABASE)) as database:
        (number,) = database.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(number)


async def test_f28_a_relayed_call_of_a_killed_server_is_billed_once(tmp_path: Path) -> None:
    with anyio.fail_after(4 * WAIT):
        async with open_provider() as provider, open_server(tmp_path, "tests.faults.billed", provider.base_url) as server:
            provider.play(answers.stream([answers.message_start(), *answers.text_block(0, "One ")[:2], Stall()]))
            async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", trust_env=False) as web:
                async with web.stream("POST", "/anthropic/v1/messages", json=BODY, timeout=WAIT) as response:
                    assert response.status_code == 200
                    assert (count(tmp_path, "asked"), count(tmp_path, "ledger")) == (1, 0)
                    await server.end(signal.SIGKILL)
            await server.start()
            await until(lambda: count(tmp_path, "asked") == 0)
    with closing(sqlite3.connect(tmp_path / DATABASE)) as database:
        ((key, read),) = database.execute("SELECT key, input_tokens FROM ledger").fetchall()
    assert key.startswith("relay_")
    assert read > 300
