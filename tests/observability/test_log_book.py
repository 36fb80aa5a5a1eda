import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.observability.test_log_filter import FILTERS, naive
from tests.support.examples import examples

from agentvm.log import concerning, get_logger
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.observability import log_book
from agentvm.observability.log_book import LogBook, LogFiles, open_log_book
from agentvm.observability.log_entry import LEVELS, LogEntry
from agentvm.observability.log_filter import EVERY, LogFilter, log_scope
from agentvm.observability.redact import Redactor

ALL = log_scope(Principal(tenant_id=DEFAULT_TENANT, permissions=EVERYTHING), None)
logger = get_logger("agentvm.tests.book")


def log_files_of(tmp_path: Path, *, most_bytes: int = 10_000_000, most_files: int = 5) -> LogFiles:
    return LogFiles(folder=tmp_path / "logs", most_bytes=most_bytes, most_files=most_files)


@asynccontextmanager
async def opened(kept: LogFiles | None = None, *, recent: int = 2_000, room: int = 1_000) -> AsyncIterator[LogBook]:
    book = LogBook(lambda: 5, Redactor(), entries_max=recent, room=room)
    if kept is not None:
        await book.keep(kept)
    try:
        yield book
    finally:
        await book.aclose()


def say(book: LogBook, *events: str) -> None:
    for event in events:
        book.take("agentvm.x", "warning", {"event": event})


async def events(book: LogBook, wanted: LogFilter = EVERY, limit: int = 1_000) -> list[str]:
    return [entry.event for entry in await everything(book, wanted, limit)]


async def everything(book: LogBook, wanted: LogFilter, limit: int) -> list[LogEntry]:
    """All pages."""
    found = await book.find(wanted, ALL, limit=limit)
    entries = list(found.entries)
    while found.next is not None:
        found = await book.find(wanted, ALL, before=found.next, limit=limit)
        assert len(found.entries) <= limit
        entries += found.entries
    return entries


async def test_what_modules_log_while_it_is_open_is_in_it() -> None:
    async with open_log_book(lambda: 5, Redactor()) as book:
        with concerning(turn_id="u1"):
            logger.warning("seen", count=2)
        (entry,) = (await book.find(EVERY, ALL, limit=10)).entries
    logger.warning("unseen")
    assert (entry.event, entry.turn_id, entry.facts, entry.at) == ("seen", "u1", {"count": 2}, 5)
    assert await events(book) == ["seen"]


async def test_entries_come_back_newest_first_from_memory_and_from_files_without_a_seam(tmp_path: Path) -> None:
    async with opened(log_files_of(tmp_path, most_bytes=1_000, most_files=100), recent=7, room=1_000) as book:
        said = [f"e{number}" for number in range(50)]
        say(book, *said)
        assert book._writer is not None
        assert book._writer.flush(10)
        for limit in (1, 7, 8, 50, 100):
            assert await events(book, limit=limit) == said[::-1]


async def test_the_log_is_kept_over_a_restart_and_its_numbers_go_on(tmp_path: Path) -> None:
    async with opened(log_files_of(tmp_path)) as book:
        say(book, "a", "b")
    async with begun_before(tmp_path) as again:
        say(again, "d")
        entries = await everything(again, EVERY, 100)
        assert [(entry.event, entry.number) for entry in entries] == [("d", 4), ("c", 3), ("b", 2), ("a", 1)]


@asynccontextmanager
async def begun_before(tmp_path: Path) -> AsyncIterator[LogBook]:
    """One that has heard something before its files were opened."""
    book = LogBook(lambda: 5, Redactor())
    say(book, "c")
    await book.keep(log_files_of(tmp_path))
    yield book
    await book.aclose()


async def test_keeping_can_be_turned_off_and_on_and_resized_while_it_runs(tmp_path: Path) -> None:
    async with opened() as book:
        say(book, "memory")
        await book.keep(log_files_of(tmp_path))
        say(book, "file")
        await book.keep(log_files_of(tmp_path, most_bytes=10, most_files=2))
        say(book, "small")
        await book.keep(LogFiles(folder=None, most_bytes=1, most_files=1))
        say(book, "memory again")
        assert await events(book) == ["memory again", "small", "file", "memory"]
        assert len(list((tmp_path / "logs").glob("agentvm.jsonl*"))) == 2
    async with opened(log_files_of(tmp_path)) as again:
        assert await events(again) == ["small", "file"]


async def test_no_entry_is_lost_when_many_threads_log_while_files_are_rotated(tmp_path: Path) -> None:
    async with opened(log_files_of(tmp_path, most_bytes=2_000, most_files=1_000), recent=10, room=10_000) as book:
        start = threading.Barrier(4)

        def work(name: str) -> None:
            start.wait(10)
            say(book, *(f"{name}{number}" for number in range(200)))

        threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            await anyio.to_thread.run_sync(thread.join, 30)
        assert book.lost == 0
    async with opened(log_files_of(tmp_path, most_bytes=2_000, most_files=1_000)) as again:
        entries = await everything(again, EVERY, 1_000)
        assert [entry.number for entry in entries] == list(range(800, 0, -1))
        for name in "abcd":
            mine = [entry.event for entry in entries if entry.event.startswith(name)]
            assert mine[::-1] == [f"{name}{number}" for number in range(200)]


async def test_who_follows_hears_each_entry_once_and_in_order_across_rotations_also_when_behind(tmp_path: Path) -> None:
    async with opened(log_files_of(tmp_path, most_bytes=1_000, most_files=1_000), recent=5, room=1_000) as book:
        say(book, "before")
        heard: list[str] = []
        with anyio.fail_after(60), book.follow(EVERY, ALL) as follower:
            for batch in range(30):
                say(book, *(f"{batch}.{number}" for number in range(batch)))
                assert book._writer is not None
                assert book._writer.flush(10)
                if batch % 3 == 2:
                    # Cancelled wherever it waits, and asked again later.
                    with anyio.move_on_after(0):
                        heard += [entry.event for entry in await follower.take()]
                if batch % 7 == 6:
                    heard += [entry.event for entry in await follower.take()]
            say(book, "last")
            while heard[-1] != "last":
                heard += [entry.event for entry in await follower.take()]
    assert heard == [*(f"{batch}.{number}" for batch in range(30) for number in range(batch)), "last"]


async def test_who_follows_is_woken_from_any_thread_and_hears_the_end(tmp_path: Path) -> None:
    async with opened() as book:
        with anyio.fail_after(60), book.follow(LogFilter(event="wanted"), ALL) as follower:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.to_thread.run_sync, say, book, "other", "wanted")
                assert [entry.event for entry in await follower.take()] == ["wanted"]
            await book.aclose()
            assert await follower.take() == []


async def test_a_follower_goes_on_behind_a_number(tmp_path: Path) -> None:
    async with opened() as book:
        say(book, "a", "b", "c")
        with anyio.fail_after(60), book.follow(EVERY, ALL, after=1) as follower:
            assert [entry.event for entry in await follower.take()] == ["b", "c"]


async def test_one_question_reads_only_so_much_and_says_where_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_book, "SCAN_BYTES_MAX", 2_000)
    async with opened(log_files_of(tmp_path), recent=3) as book:
        say(book, "first", *(["other"] * 200))
    async with opened(log_files_of(tmp_path)) as again:
        found = await again.find(LogFilter(event="first"), ALL, limit=10)
        assert (found.entries, found.next is None) == ([], False)
        assert await events(again, LogFilter(event="first")) == ["first"]


async def test_errors_are_grouped_from_memory_and_files_and_by_who_may_see_them(tmp_path: Path) -> None:
    async with opened(log_files_of(tmp_path), recent=2) as book:
        for tenant in ("a", "b", "a"):
            book.take("agentvm.x", "warning", {"event": "turn_failed", "code": "timeout", "tenant_id": tenant})
            book.take("agentvm.x", "info", {"event": "command_refused", "code": "not_found", "tenant_id": tenant})
    async with opened(log_files_of(tmp_path)) as again:
        assert [(one.tenant_id, one.code, one.count) for one in await again.errors(EVERY, ALL)] == [
            ("a", "timeout", 2),
            ("b", "timeout", 1),
        ]
        mine = log_scope(Principal(tenant_id=DEFAULT_TENANT), None)
        assert await again.errors(EVERY, mine) == []


NAMES = st.sampled_from(["a", "b", "Straße"])
FACTS = st.fixed_dictionaries(
    {"event": NAMES},
    optional=dict.fromkeys(("request_id", "tenant_id", "container_id", "session_id", "turn_id", "count"), NAMES),
)


@given(st.lists(st.tuples(st.sampled_from(LEVELS), FACTS), max_size=40), FILTERS, st.integers(1, 10), st.booleans())
@settings(max_examples=examples(30, 600))
def test_pages_of_a_filter_equal_a_naive_filter(
    tmp_path_factory: pytest.TempPathFactory,
    said: list[tuple[str, dict[str, str]]],
    wanted: LogFilter,
    limit: int,
    on_disk: bool,
) -> None:
    async def check() -> None:
        kept = log_files_of(tmp_path_factory.mktemp("book"), most_bytes=600, most_files=1_000) if on_disk else None
        async with opened(kept, recent=3 if on_disk else 2_000) as book:
            for level, facts in said:
                book.take("agentvm.x", level, facts)
            if book._writer is not None:
                assert book._writer.flush(10)
            every = await everything(book, EVERY, 1_000)
            assert len(every) == len(said)
            assert await everything(book, wanted, limit) == [entry for entry in every if naive(wanted, entry)]

    anyio.run(check)


async def test_warnings_outlive_a_flood_of_other_entries_and_are_seen_once(tmp_path: Path) -> None:
    async with opened(log_files_of(tmp_path, most_bytes=2_000, most_files=2), recent=7, room=100_000) as book:
        say(book, "first warning", "second warning")
        for number in range(500):
            book.take("agentvm.x", "info", {"event": f"e{number}"})
        say(book, "last warning")
        assert book._writer is not None
        assert book._writer.flush(10)
        for limit in (1, 3, 1_000):
            found = await events(book, limit=limit)
            assert found[0] == "last warning"
            assert found[-2:] == ["second warning", "first warning"]
            assert len(found) == len(set(found)) < 500
        assert await events(book, LogFilter(level="warning")) == ["last warning", "second warning", "first warning"]
        assert sum(path.stat().st_size for path in (tmp_path / "logs").iterdir()) < 4 * 2_100
