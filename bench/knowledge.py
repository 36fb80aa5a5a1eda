"""Knowledge — searching many passages next to the raw query, recall next to plain FTS5, and reading next to the parser.

    python -m bench.knowledge [--chunks 100000] [--rounds 50]

The floor of a search is the same match in the same table, the best eight by BM25, on a connection of its own. Plain FTS5
looks for any word of the question with its tokenizers `unicode61` and `porter`, which know nothing of Chinese words, and for
any three letters of it with `trigram`. The floor of reading is the parser in this process, without a jail. A search by words
and vectors is measured without the embedder, with sqlite-vec and without.
"""

import argparse
import random
import statistics
import time
from array import array
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field, replace
from operator import mul
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import anyio
import anyio.to_thread
import apsw
from tests.conformance.knowledge import published
from tests.conformance.store import ACME
from tests.knowledge.documents import docx
from tests.provision import Unavailable
from tests.provision.postgres import postgres

from agentvm.app import open_agentvm
from agentvm.config import MEMORY, ServerConfig, SystemSettings
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.knowledge.embed import pack
from agentvm.knowledge.library import FUSED_MAX
from agentvm.knowledge.parse import ParsedDocument, ParsedPage, parse
from agentvm.knowledge.parser_program import read_bytes
from agentvm.knowledge.passages import IndexForm, cut
from agentvm.knowledge.question import pieces_of
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.knowledge import Passage
from agentvm.model.tier import JobOwner
from agentvm.storage.engine import open_postgres, open_store
from agentvm.storage.engines.sqlite import vectors
from agentvm.storage.sql.knowledge import IndexedChunk
from agentvm.storage.sql.store import Store
from agentvm.storage.sql.words import stems, terms
from bench.knowledge_questions import PASSAGES, QUESTIONS
from bench.measure import percentile, table

WORDS = [f"word{number}" for number in range(5_000)]
CHINESE = "翻译总结编程助手邮件计划问候写作数据解释退货保修发货支付订阅"
SOUGHT = ("word17 word230 zeppelin", "飞艇在哪里", "退货保修")
BEST = 8
FORM = str(IndexForm())
DIMENSIONS = 384
"""Numbers of a vector of a small embedder."""


@dataclass
class Taken:
    """The times of one search after the other, by the clock and by the processors."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @contextmanager
    def one(self) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.wall.append((time.perf_counter() - wall) * 1000)
        self.cpu.append((time.process_time() - cpu) * 1000)

    def beside(self, floor: "Taken") -> list[str]:
        """Returns the cells of a row."""
        p95, least = percentile(self.wall, 0.95), percentile(floor.wall, 0.95)
        cpu, floor_cpu = statistics.median(self.cpu), statistics.median(floor.cpu)
        times = (statistics.median(self.wall), p95, least, p95 / least, cpu, floor_cpu, cpu / floor_cpu)
        return [f"{number:.2f}" for number in times]


def chunk(text: str, document: str, place: int = 0) -> IndexedChunk:
    passage = Passage(uri="", document=document, start=place, end=place + len(text), text=text)
    return IndexedChunk(passage, stems(terms(text)))


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
                ours, floor = Taken(), Taken()
                key = f"k{built.index_key}x"
                phrases = ['"' + " ".join(key + word for word in piece.words) + '"' for piece in pieces_of(question)]
                match = " OR ".join(phrases)
                for _ in range(rounds):
                    with ours.one():
                        await store.knowledge(ACME).search(built, pieces_of(question), BEST)
                    with floor.one():
                        await anyio.to_thread.run_sync(bare, raw, match)
                rows.append([question, *ours.beside(floor)])
            raw.close()
    print(f"{chunks:,} passages, indexed at {chunks / seconds:,.0f} a second\n")
    head = ["question", "p50 ms", "p95 ms", "bare SQL p95 ms", "times", "CPU ms", "bare SQL CPU ms", "times by CPU"]
    print(table([head, *rows]))


async def both(chunks: int, rounds: int, *, extension: bool) -> list[str]:
    """Measures searches by words and by vectors, and how often the nearest of an exact comparison is found first."""
    chance = random.Random(1)
    made, exact = [], []
    for number in range(chunks):
        vector = pack([chance.gauss(0, 1) for _ in range(DIMENSIONS)])
        made.append(replace(chunk(" ".join(chance.choices(WORDS, k=90)), "a", number * 1_000), vector=vector))
        exact.append(array("f", vector))
    async with open_store(None) as store:
        _, version = await published(store, "vectors")
        knowledge = store.knowledge(ACME)
        built = await knowledge.build(version, FORM, made, (), 1)
        assert built is not None
        taken, found = Taken(), 0
        for _ in range(rounds):
            # Near a passage, as a question is to its answer.
            wanted = pack([value + chance.gauss(0, 0.05) for value in chance.choice(exact)])
            words = pieces_of(" ".join(chance.choices(WORDS, k=3)))
            with taken.one():
                await knowledge.search(built, words, FUSED_MAX)
                hits = await knowledge.nearest(built, wanted, FUSED_MAX)
            question = array("f", wanted)
            best = max(range(chunks), key=lambda at: sum(map(mul, question, exact[at])))
            found += hits[0][1].start == best * 1_000
    p50, p95, cpu = statistics.median(taken.wall), percentile(taken.wall, 0.95), statistics.median(taken.cpu)
    return [f"{chunks:,}", "yes" if extension else "no", f"{p50:.1f}", f"{p95:.1f}", f"{cpu:.1f}", f"{found}/{rounds}"]


async def fused(chunks: int, rounds: int) -> None:
    """Prints the times of searches by words and by vectors, with the extension sqlite-vec and without."""
    rows = [await both(chunks, rounds, extension=True)] if vectors.extension_path() else []
    with patch.object(vectors, "extension_path", lambda: None):
        rows.append(await both(chunks, rounds, extension=False))
    print(table([["words and vectors of", "sqlite-vec", "p50 ms", "p95 ms", "CPU ms", "the nearest found first"], *rows]))


def bare(raw: apsw.Connection, match: str) -> list[object]:
    query = (
        "SELECT bm25(knowledge_fts), rowid FROM knowledge_fts WHERE knowledge_fts MATCH ? ORDER BY bm25(knowledge_fts) LIMIT ?"
    )
    return list(raw.execute(query, (match, BEST)))


Search = Callable[[str], Awaitable[list[str]]]
"""The names of the best three passages for a question."""


async def recall() -> None:
    """Prints how often the passage that answers a question is found, first and among the first three."""
    async with AsyncExitStack() as stack:
        ways = {"AgentVM": await passages(await stack.enter_async_context(open_store(None)))}
        try:
            url = stack.enter_context(postgres()).url()
            ways["AgentVM, PostgreSQL"] = await passages(await stack.enter_async_context(open_postgres(url)))
        except Unavailable as error:
            print(f"Without PostgreSQL: {error}")
        ways |= {f"FTS5, {name}": plain_index(name) for name in ("unicode61", "porter", "trigram")}
        rows = []
        for language, questions in QUESTIONS.items():
            for way, search in ways.items():
                places = [place(await search(question), name) for question, name in questions]
                first, third = (sum(0 < one <= most for one in places) for most in (1, 3))
                rows.append([language, way, f"{first}/{len(places)}", f"{third}/{len(places)}"])
    print(table([["questions", "search", "first", "in the first 3"], *rows]))


async def passages(store: Store) -> Search:
    """Returns the search of a store that has the passages."""
    chunks = [one for name, text in PASSAGES for one in cut(name, None, ParsedDocument((ParsedPage(None, text),)), IndexForm())]
    _, version = await published(store, "set")
    built = await store.knowledge(ACME).build(version, FORM, chunks, (), 1)
    assert built is not None

    async def search(question: str) -> list[str]:
        return [passage.document for _, passage in await store.knowledge(ACME).search(built, pieces_of(question), 3)]

    return search


def plain_index(tokenizer: str) -> Search:
    """Returns the search of SQLite's own index."""
    index = apsw.Connection(":memory:")
    index.execute(f"CREATE VIRTUAL TABLE t USING fts5 (name UNINDEXED, text, tokenize = '{tokenizer}')")
    index.executemany("INSERT INTO t VALUES (?, ?)", PASSAGES)

    async def search(question: str) -> list[str]:
        match = " OR ".join(f'"{word}"' for word in plain_words(question, is_cut=tokenizer == "trigram"))
        rows = index.execute("SELECT name FROM t WHERE t MATCH ? ORDER BY rank LIMIT 3", (match,)) if match else ()
        return [str(row[0]) for row in rows]

    return search


def plain_words(question: str, *, is_cut: bool) -> list[str]:
    words = "".join(letter if letter.isalnum() else " " for letter in question).split()
    return [word[start : start + 3] for word in words for start in range(len(word) - 2)] if is_cut else words


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
    await fused(min(asked.chunks, 10_000), 20)


if __name__ == "__main__":
    anyio.run(main)
