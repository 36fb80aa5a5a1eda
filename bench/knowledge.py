"""Knowledge — searching many passages next to the raw query, recall next to plain FTS5, and reading next to the parser.

    python -m bench.knowledge [--chunks 100000] [--rounds 50]

The floor of a search is the same match in the same table, the best eight by BM25, on a connection of its own. Plain FTS5 is its
`unicode61` tokenizer with all words of the question, and with any of them; both know nothing of Chinese words. The floor of
reading is the parser in this process, without a jail.
"""

import argparse
import random
import statistics
import time
from array import array
from dataclasses import replace
from operator import mul
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import anyio.to_thread
import apsw
from tests.conformance.knowledge import published
from tests.conformance.store import ACME
from tests.knowledge.documents import docx

from agentvm.app import open_agentvm
from agentvm.config import MEMORY, ServerConfig, SystemSettings
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.knowledge.embed import pack
from agentvm.knowledge.parse import parse
from agentvm.knowledge.parser_program import read_bytes
from agentvm.knowledge.question import pieces_of
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.knowledge import Passage
from agentvm.model.tier import JobOwner
from agentvm.storage.engine import open_store
from agentvm.storage.sql.knowledge import IndexedChunk
from agentvm.storage.sql.words import terms
from bench.knowledge_questions import PASSAGES, QUESTIONS
from bench.measure import percentile, table

WORDS = [f"word{number}" for number in range(5_000)]
CHINESE = "翻译总结编程助手邮件计划问候写作数据解释退货保修发货支付订阅"
SOUGHT = ("word17 word230 zeppelin", "飞艇在哪里", "退货保修")
BEST = 8
FORM = "1/800/100/"
DIMENSIONS = 384
"""Numbers of a vector of a small embedder."""


def chunk(text: str, document: str, place: int = 0) -> IndexedChunk:
    passage = Passage(uri="", document=document, start=place, end=place + len(text), text=text)
    return IndexedChunk(passage, terms(text))


async def search(chunks: int, rounds: int) -> None:
    """Prints the times of searches in one large index."""
    chance = random.Random(1)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "knowledge.db"
        async with open_store(path) as store:
            _, version = await published(store, "many")
            made = []
            for number in range(chunks):
                text = " ".join(chance.choices(WORDS, k=90)) + "".join(chance.choices(CHINESE, k=100))
                made.append(chunk(text + (" zeppelin 飞艇" if number % 1_000 == 0 else ""), "a", number * 1_000))
            began = time.perf_counter()
            built = await store.knowledge(ACME).build(version, FORM, made, (), 1)
            assert built is not None
            seconds = time.perf_counter() - began
            raw = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
            rows = []
            for question in SOUGHT:
                ours, floor = [], []
                key = f"k{built.index_key}x"
                phrases = ['"' + " ".join(key + word for word in piece.words) + '"' for piece in pieces_of(question)]
                match = " OR ".join(phrases)
                for _ in range(rounds):
                    start = time.perf_counter()
                    await store.knowledge(ACME).search(built, pieces_of(question), BEST)
                    ours.append(time.perf_counter() - start)
                    start = time.perf_counter()
                    await anyio.to_thread.run_sync(bare, raw, match)
                    floor.append(time.perf_counter() - start)
                p95, least = percentile(ours, 0.95) * 1000, percentile(floor, 0.95) * 1000
                rows.append(
                    [question, f"{statistics.median(ours) * 1000:.2f}", f"{p95:.2f}", f"{least:.2f}", f"{p95 / least:.2f}"]
                )
            raw.close()
    print(f"{chunks:,} passages, indexed at {chunks / seconds:,.0f} a second\n")
    print(table([["question", "p50 ms", "p95 ms", "bare SQL p95 ms", "times"], *rows]))


async def nearest(chunks: int, rounds: int) -> None:
    """Prints the times of searches by vectors, and how many of the best eight of an exact comparison they find."""
    chance = random.Random(1)
    made, exact = [], []
    for number in range(chunks):
        vector = pack([chance.gauss(0, 1) for _ in range(DIMENSIONS)])
        made.append(replace(chunk(f"word{number}", "a", number * 10), vector=vector))
        exact.append(array("f", vector))
    async with open_store(None) as store:
        _, version = await published(store, "vectors")
        built = await store.knowledge(ACME).build(version, FORM, made, (), 1)
        assert built is not None
        taken, found = [], 0
        for _ in range(rounds):
            # Near a passage, as a question is to its answer.
            wanted = pack([value + chance.gauss(0, 0.05) for value in chance.choice(exact)])
            start = time.perf_counter()
            hits = await store.knowledge(ACME).nearest(built, wanted, BEST)
            taken.append(time.perf_counter() - start)
            question = array("f", wanted)
            best = max(range(chunks), key=lambda at: sum(map(mul, question, exact[at])))
            found += hits[0][1].start == best * 10
    row = [
        f"{chunks:,}",
        f"{statistics.median(taken) * 1000:.1f}",
        f"{percentile(taken, 0.95) * 1000:.1f}",
        f"{found}/{rounds}",
    ]
    print(table([["passages with vectors", "p50 ms", "p95 ms", "the nearest found first"], row]))


def bare(raw: apsw.Connection, match: str) -> list[object]:
    query = (
        "SELECT bm25(knowledge_fts), rowid FROM knowledge_fts WHERE knowledge_fts MATCH ? ORDER BY bm25(knowledge_fts) LIMIT ?"
    )
    return list(raw.execute(query, (match, BEST)))


async def recall() -> None:
    """Prints how often the passage that answers a question is found, first and among the first three."""
    plain = apsw.Connection(":memory:")
    plain.execute("CREATE VIRTUAL TABLE t USING fts5 (name UNINDEXED, text)")
    plain.executemany("INSERT INTO t VALUES (?, ?)", PASSAGES)
    async with open_store(None) as store:
        _, version = await published(store, "set")
        built = await store.knowledge(ACME).build(version, FORM, [chunk(text, name) for name, text in PASSAGES], (), 1)
        assert built is not None
        rows = []
        for language, questions in QUESTIONS.items():
            found: dict[str, list[int]] = {"AgentVM": [], "FTS5, all words": [], "FTS5, any word": []}
            for question, name in questions:
                hits = await store.knowledge(ACME).search(built, pieces_of(question), 3)
                found["AgentVM"].append(place([passage.document for _, passage in hits], name))
                words = ['"' + word + '"' for word in "".join(c if c.isalnum() else " " for c in question).split()]
                for way, match in (("FTS5, all words", " ".join(words)), ("FTS5, any word", " OR ".join(words))):
                    named = plain.execute("SELECT name FROM t WHERE t MATCH ? ORDER BY rank LIMIT 3", (match,))
                    found[way].append(place([str(row[0]) for row in named], name))
            for way, places in found.items():
                first, third = (sum(0 < one <= most for one in places) for most in (1, 3))
                rows.append([language, way, f"{first}/{len(places)}", f"{third}/{len(places)}"])
    print(table([["questions", "search", "first", "in the first 3"], *rows]))


def place(names: list[str], name: str) -> int:
    return names.index(name) + 1 if name in names else 0


async def reading() -> None:
    """Prints the speed of reading documents in jails, and of the parser alone."""
    config = ServerConfig(system=SystemSettings(data_dir=MEMORY))
    line = "七天之内可以退货。 Goods can be sent back within seven days. "
    documents = {
        "text": (line * 40_000).encode(),
        "docx": docx(*[("", line * 20)] * 2_000),
        "html": (f"<p>{line}" * 20_000).encode(),
    }
    rows = []
    async with open_agentvm(config, drivers={"scripted": ScriptedDriver()}) as vm:
        owner = JobOwner(tenant_id=DEFAULT_TENANT)
        await parse(vm.jobs, owner, "warm", "a.txt", None, b"x")
        for kind, data in documents.items():
            name = "a.txt" if kind == "text" else f"a.{kind}"
            began = time.perf_counter()
            text = (await parse(vm.jobs, owner, kind, name, None, data)).pages[0].text
            jailed = time.perf_counter() - began
            began = time.perf_counter()
            read_bytes(kind, data)
            alone = time.perf_counter() - began
            size = len(text.encode()) / 1e6
            rows.append([kind, f"{size:.1f}", f"{size / jailed:.1f}", f"{size / alone:.1f}", f"{(jailed - alone) * 1000:.0f}"])
    print(table([["kind", "MB of text", "MB/s in a jail", "MB/s of the parser", "ms of the jail"], *rows]))


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=50)
    asked = parser.parse_args()
    await recall()
    print()
    await reading()
    print()
    await search(asked.chunks, asked.rounds)
    print()
    await nearest(min(asked.chunks, 10_000), 20)


if __name__ == "__main__":
    anyio.run(main)
