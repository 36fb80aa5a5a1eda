"""A server with a chat channel that is killed in the middle of an answer: the chat has the whole answer once, from the next."""

import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import httpx2
from tests.channels.fake_telegram import TOKEN, telegram
from tests.faults.process import WAIT, open_server, until
from tests.faults.server import text_of

from agentvm.storage.engines.sqlite.datadir import DATABASE

ABOUT = {"name": "bot", "kind": "telegram", "agent": "default"}
SAID = "go until restarted"


def kept(data_dir: Path) -> bytes:
    """What the adapter keeps of the only message."""
    with closing(sqlite3.connect(data_dir / DATABASE)) as database:
        ((facts,),) = database.execute("SELECT kept FROM channel_messages").fetchall()
    return bytes(facts)


async def test_the_answer_of_a_killed_server_is_in_the_chat_once(tmp_path: Path) -> None:
    with anyio.fail_after(4 * WAIT):
        async with telegram() as fake, open_server(tmp_path, "tests.faults.server", "0", "127.0.0.0/8") as server:
            async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{server.port}/v1", trust_env=False) as web:
                assert (await web.put("/secrets/telegram.token", json={"value": TOKEN})).is_success
                settings = {"address": fake.url, "token": "telegram.token"}
                assert (await web.post("/channels", json={**ABOUT, "settings": settings})).is_success
            fake.say(SAID)
            # As far as the first server says it: the message of the chat is there, and its id stored.
            await fake.calls.wait(lambda _: any(f"{SAID}:3 " in shown for shown in fake.messages.values()))
            await until(lambda: b'"m0"' in kept(tmp_path))
            await server.end(signal.SIGKILL)
            await server.start()
            await fake.calls.wait(lambda _: any(f"{SAID}:29" in shown for shown in fake.messages.values()))
            fake.say("after it")
            await fake.shown(text_of("after it"))
            await server.end(signal.SIGTERM)
    assert len(fake.messages) == 2
    assert fake.messages[min(fake.messages)] == text_of(SAID)
