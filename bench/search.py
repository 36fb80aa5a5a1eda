"""Search — finding what was said among many messages, next to the raw full-text query; and what the index costs an append.

    python -m bench.search [--messages 1000000] [--rounds 100]

The floor of a search is the same match in the same table, the best twenty by BM25, on a connection and in a thread of its own:
without rows, filters, snippets and context. An append is one message per commit in a database in memory, so that the disk's
sync hides nothing; its floor is the same with the index's tables left alone.
"""

import argparse
import random
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import anyio.to_thread
import apsw
from tests.conformance.records import HOME, SESSION, default_session, image, session

from agentvm.model.ids import MessageId, SessionId, TenantId
from agentvm.model.message import Message, UserMessage
from agentvm.storage.engine import open_store
from agentvm.storage.engines.sqlite.search import match_messages
from agentvm.storage.sessions import MessageSearch
from agentvm.storage.sql import session_write
from agentvm.storage.sql.container import ContainerStore
from agentvm.storage.sql.sessions.index import index, key_of
from agentvm.storage.sql.sessions.question import pieces_of
from bench.measure import percentile, table

TENANT = TenantId("default")
BATCH = 500
WORDS = "agent answer ask build chat code data draft edit explain find help list mail note plan read reply sum write".split()
CHINESE = "翻译 总结 编程 助手 邮件 计划 问候 写作 数据 解释".split()
QUESTIONS = {"rare": "zeppelin", "Chinese": "飞艇", "mixed": "zeppelin 飞艇", "phrase": "数据解释", "common": "helpful"}

Ask = Callable[[], Awaitable[object]]


def said(number: int, chance: random.Random) -> Message:
    text = " ".join(chance.choices(WORDS, k=20)) + "".join(chance.choices(CHINESE, k=5))
    text += " helpful" if number % 4 == 0 else ""
    text += " zeppelin 飞艇" if number % 5_000 == 0 else ""
    return UserMessage(id=MessageId(f"m{number}"), timestamp=number, role="user", content=text)


async def fill(home: ContainerStore, messages: int) -> None:
    """Sessions of `BATCH` messages each."""
    chance = random.Random(1)
    for start in range(0, messages, BATCH):
        session_id = SessionId(f"s{start}")
        await home.add_session(session(session_id))
        batch = [said(number, chance) for number in range(start, min(start + BATCH, messages))]
        await home.log(session_id).record(messages=batch, now=1)


async def timed(ask: Ask, rounds: int) -> list[float]:
    took = []
    for _ in range(rounds):
        start = time.perf_counter()
        await ask()
        took.append((time.perf_counter() - start) * 1000)
    return took


async def searches(path: Path, messages: int, rounds: int) -> list[list[str]]:
    rows = [["search", "p50 ms", "p95 ms", "raw p50", "raw p95", "ratio p95"]]
    async with open_store(path) as store:
        home = store.tenant(TENANT).container(HOME)
        await home.create(1)
        await home.add_image(image(), default_session(image()))
        await fill(home, messages)
        while await store.tend_search(limit=2_000):
            pass
        raw = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        query = "SELECT rowid FROM message_fts WHERE message_fts MATCH ? ORDER BY rank LIMIT 20"
        for name, text in QUESTIONS.items():
            match = match_messages(pieces_of(text), [key_of(TENANT, HOME)])
            wanted = MessageSearch(text=text, now=messages)

            def floor(match: str = match) -> list[object]:
                return list(raw.execute(query, (match,)))

            ours = await timed(partial(store.tenant(TENANT).sessions([HOME]).search, wanted), rounds)
            theirs = await timed(partial(anyio.to_thread.run_sync, floor), rounds)
            high, low = percentile(ours, 0.95), percentile(theirs, 0.95)
            halves = percentile(ours, 0.5), high, percentile(theirs, 0.5), low
            rows.append([name, *(f"{value:.2f}" for value in halves), f"{high / low:.2f}"])
        raw.close()
    return rows


async def appends(rounds: int) -> float:
    """Microseconds per message, each in a commit of its own."""
    chance = random.Random(2)
    async with open_store(None) as store:
        home = store.tenant(TENANT).container(HOME)
        await home.create(1)
        await home.add_image(image(), default_session(image()))
        batch = [said(number, chance) for number in range(rounds)]
        start = time.perf_counter()
        for number, message in enumerate(batch):
            await home.log(SessionId(SESSION)).record(messages=[message], now=1)
            if number % 50 == 49:
                await store.tend_search()
        return (time.perf_counter() - start) / rounds * 1_000_000


async def main(messages: int, rounds: int) -> None:
    with TemporaryDirectory() as folder:
        print(table(await searches(Path(folder) / "agentvm.db", messages, rounds)))
    indexed = await appends(2_000)
    session_write.index = lambda *_: None  # type: ignore[attr-defined]  # The floor: no index.
    plain = await appends(2_000)
    session_write.index = index  # type: ignore[attr-defined]
    costs = ["append", f"{indexed:.0f} µs", f"{plain:.0f} µs without the index", f"{indexed / plain:.2f}"]
    print(table([["", "with", "", "ratio"], costs]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Search")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=100)
    given = parser.parse_args()
    anyio.run(main, given.messages, given.rounds)
