"""Resources — resolving URIs and searching among many resources, next to the raw SQLite query.

    python -m bench.resources [--resources 100000] [--rounds 200]

Resolving is measured for one prompt and for one with a closure of 50 versions: as it is asked again within seconds
(remembered), and from the database. Its floor reads the same contents by their keys, on a connection and in a thread of its
own, as the store does. A search is for an English word, a Chinese one, and a word that every fourth resource has; its floor
is the same full-text match with the same order, without tenants, counts and records. What is told is the best median of three
series.
"""

import argparse
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import anyio
import anyio.to_thread
import apsw

from agentvm.model.ids import TenantId, id_factory
from agentvm.model.resource import VersionId
from agentvm.resources.centre import ResourceCentre, make_centre
from agentvm.resources.registry import Author, NewVersion
from agentvm.storage.engine import open_store
from agentvm.storage.engines.sqlite.search import WEIGHTS, match_resources
from agentvm.storage.resources import Search
from agentvm.storage.sql.resources.words import pieces_of, scopes_of
from agentvm.vm import system_clock
from bench.measure import table

TENANT = TenantId("default")
AUTHOR = Author(tenant_id=TENANT, actor="bench", may_publish=True)
BATCH = 1_000
CLOSURE = 50
WORDS = "agent answer ask build chat code data draft edit explain find help list mail note plan read reply sum write".split()
CHINESE = "翻译 总结 编程 助手 邮件 计划 问候 写作 数据 解释".split()
RARE_WORD, RARE_CHINESE, COMMON_WORD = "zeppelin", "飞艇", "helpful"

Ask = Callable[[], Awaitable[object]]


async def fill(centre: ResourceCentre, resources: int) -> None:
    chance = random.Random(1)
    for start in range(0, resources, BATCH):
        batch = []
        for number in range(start, min(start + BATCH, resources)):
            rare = number % 5_000 == 0
            said = " ".join(chance.choices(WORDS, k=20) + chance.choices(CHINESE, k=5))
            text = f"You are a {COMMON_WORD if number % 4 == 0 else 'terse'} agent. {said}"
            text += f" {RARE_WORD} {RARE_CHINESE}" if rare else ""
            draft = NewVersion(type="prompts", name=f"prompt-{number}", content={"text": text}, description=said[:40])
            batch.append(await centre.registry.prepare(AUTHOR, draft))
        await centre.registry.publish(AUTHOR, batch)


async def add_closure(centre: ResourceCentre) -> None:
    """A prompt with seven includes, each with six: fifty versions."""
    parts = []
    for outer in range(7):
        inner = [f"part-{outer}-{number}" for number in range(6)]
        for name in inner:
            await centre.registry.register(AUTHOR, NewVersion(type="prompts", name=name, content={"text": f"I am {name}. "}))
        await register_including(centre, f"part-{outer}", inner)
        parts.append(f"part-{outer}")
    await register_including(centre, "whole", parts)


async def register_including(centre: ResourceCentre, name: str, parts: Sequence[str]) -> None:
    text = "".join(f"{{{{> resource://prompts/{part}}}}}" for part in parts)
    await centre.registry.register(AUTHOR, NewVersion(type="prompts", name=name, content={"text": text}))


async def measure(ask: Ask, rounds: int) -> float:
    """Microseconds."""
    medians = []
    for _ in range(3):
        times = []
        for _ in range(rounds):
            started = time.perf_counter()
            await ask()
            times.append(time.perf_counter() - started)
        medians.append(median(times))
    return min(medians) * 1e6


def resolving(centre: ResourceCentre, uri: str, *, remembered: bool) -> Ask:
    async def ask() -> object:
        if not remembered:
            centre.resolver.forget()
        return await centre.resolver.resolve(TENANT, uri)

    return ask


def reading(connection: apsw.Connection, version_ids: Sequence[VersionId]) -> Ask:
    marks = ", ".join("?" * len(version_ids))
    statement = (
        "SELECT body FROM resource_versions JOIN resource_blobs ON resource_blobs.digest = resource_versions.content "
        f"WHERE version_id IN ({marks})"
    )
    return in_thread(connection, statement, tuple(version_ids), len(version_ids))


def matching(connection: apsw.Connection, text: str) -> Ask:
    statement = (
        f"SELECT rowid, bm25(resource_fts, {WEIGHTS}) AS score FROM resource_fts WHERE resource_fts MATCH ? "
        "ORDER BY score LIMIT 20"
    )
    return in_thread(connection, statement, (match_resources(pieces_of(text), scopes_of(TENANT, "all")),), 20)


def in_thread(connection: apsw.Connection, statement: str, parameters: tuple[str, ...], most: int) -> Ask:
    def read() -> list[object]:
        found = list(connection.execute(statement, parameters))
        assert 0 < len(found) <= most
        return found

    async def ask() -> object:
        return await anyio.to_thread.run_sync(read)

    return ask


def row(name: str, ours: float, floor: float) -> list[str]:
    return [name, f"{floor:.0f}", f"{ours:.0f}", f"{ours / floor:.2f}"]


async def main(resources: int, rounds: int) -> None:
    rows = [["", "floor us", "us", "ratio"]]
    with TemporaryDirectory() as name:
        path = Path(name) / "agentvm.db"
        async with open_store(path) as store:
            centre = make_centre(store, system_clock, id_factory(system_clock, random.Random(2).getrandbits))
            started = time.perf_counter()
            await fill(centre, resources)
            seconds = time.perf_counter() - started
            await add_closure(centre)
            connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
            for what, uri in (("one prompt", "resource://prompts/prompt-7"), ("50 versions", "resource://prompts/whole")):
                lock = (await centre.resolver.resolve(TENANT, uri)).lock
                floor = await measure(reading(connection, [entry.version_id for entry in lock]), rounds)
                for how, remembered in (("remembered", True), ("from the database", False)):
                    ours = await measure(resolving(centre, uri, remembered=remembered), rounds)
                    rows.append(row(f"resolve {what}, {how}", ours, floor))
            view = store.resources(TENANT)
            for what, word in (
                ("a rare word", RARE_WORD),
                ("a rare word in Chinese", RARE_CHINESE),
                ("a common word", COMMON_WORD),
            ):
                some = rounds if word is not COMMON_WORD else max(3, rounds // 20)
                floor = await measure(matching(connection, word), some)
                rows.append(row(f"search {what}", await measure(partial(view.search, Search(text=word)), some), floor))
            connection.close()
    print(table(rows))
    print(f"{resources} resources published in {seconds:.1f} s ({resources / seconds:.0f} per second)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--resources", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    anyio.run(main, options.resources, options.rounds, backend_options={"use_uvloop": True})
