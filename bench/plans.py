"""Plans — rows that lists, searches and the start visit in a large database, on both engines; counted, not timed.

    python -m bench.plans [--sessions 2000 20000] [--messages 10]

Each size is filled once in SQLite and copied to PostgreSQL (`avm database copy`). A question is index-bound if its count does
not grow with the database: the goal is 1,000,000 sessions of 10 messages. For PostgreSQL rows and index entries are counted
that scans returned (`pg_stat_user_tables`, `pg_stat_user_indexes`), for SQLite steps of its machine, about 20 to a row, and
apart from them rows of full scans (`sqlite3_stmt_status`).
"""

import argparse
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import anyio.to_thread
import apsw
import psycopg
from tests.conformance.records import default_session, image
from tests.provision.postgres import Postgres, postgres

from agentvm.model.ids import ContainerId, MessageId, SessionId, TenantId
from agentvm.model.message import UserMessage, encode_message
from agentvm.storage.engine import DATABASE, copy_to_postgres, open_store
from agentvm.storage.engines.postgres.opening import open_store as open_postgres
from agentvm.storage.sessions import MessageQuery, MessageSearch, SessionQuery
from agentvm.storage.sql.sessions.index import key_of, words_of
from agentvm.storage.sql.store import Store
from bench.measure import table

TENANT = TenantId("default")
SESSIONS_OF_CONTAINER = 100
UNFINISHED = 20
"""Turns that a crash has left."""

HOME = ContainerId("c0")
Ask = Callable[[Store], Awaitable[object]]


def _search(text: str) -> Ask:
    return lambda store: store.tenant(TENANT).sessions((HOME,)).search(MessageSearch(text=text))


QUESTIONS: dict[str, Ask] = {
    "list a container": lambda store: store.tenant(TENANT).sessions((HOME,)).list(SessionQuery()),
    "list a tenant": lambda store: store.tenant(TENANT).sessions(None).list(SessionQuery()),
    "list since yesterday": lambda store: store.tenant(TENANT).sessions((HOME,)).list(SessionQuery(since=10)),
    "messages of a session": lambda store: store.tenant(TENANT).sessions((HOME,)).messages(SessionId("s5"), MessageQuery()),
    "find a session": lambda store: store.tenant(TENANT).find_session(SessionId("s5")),
    "list containers": lambda store: store.tenant(TENANT).page_containers(None, 50),
    "search a rare word": _search("zeppelin"),
    "search a common word": _search("helpful"),
    "recovery: open turns": lambda store: store.list_unfinished(),
    "recovery: calls left": lambda store: store.list_asked(),
    "recovery: quarantine": lambda store: store.list_quarantined(),
    "recovery: journal": lambda store: store.read_journal(),
}


async def fill(path: Path, sessions: int, messages: int) -> None:
    """Containers of a hundred sessions each, every session with a turn that has ended; a few have not."""
    async with open_store(path) as store:
        for number in range(0, sessions, SESSIONS_OF_CONTAINER):
            home = store.tenant(TENANT).container(ContainerId(f"c{number // SESSIONS_OF_CONTAINER}"))
            await home.create(now=1)
        first = store.tenant(TENANT).container(HOME)
        made = image(container=HOME)
        await first.add_image(made, default_session(made))
    await anyio.to_thread.run_sync(_fill_rows, path, sessions, messages)


def _fill_rows(path: Path, sessions: int, messages: int) -> None:
    connection = apsw.Connection(str(path))
    with connection:
        connection.execute("DELETE FROM sessions")
        connection.executemany(
            "INSERT INTO sessions (session_key, tenant_id, container_id, image_id, session_id, created_at, updated_at, "
            "last_message_at, preview) VALUES (?, ?, ?, 'img_1', ?, ?, ?, ?, 'hello')",
            (
                (number + 1, TENANT, f"c{number // SESSIONS_OF_CONTAINER}", f"s{number}", number, number, number)
                for number in range(sessions)
            ),
        )
        connection.executemany(
            "INSERT INTO turns (session_key, turn_id, message_id, accepted_at, outcome) VALUES (?, ?, ?, ?, ?)",
            (
                (number + 1, f"t{number}", "m0", number, "completed" if number >= UNFINISHED else None)
                for number in range(sessions)
            ),
        )
        said = _said(sessions, messages)
        for position, session_key, message_id, body, words in said:
            connection.execute("INSERT INTO all_messages VALUES (?, ?, ?, ?, NULL)", (position, session_key, message_id, body))
            connection.execute("INSERT INTO message_facts VALUES (?, ?, ?, 'user', NULL)", (position, session_key, position))
            connection.execute("INSERT INTO message_fts (rowid, text) VALUES (?, ?)", (position, words))
    connection.execute("ANALYZE")
    connection.close()


def _said(sessions: int, messages: int) -> Iterator[tuple[int, int, str, bytes, str]]:
    for number in range(sessions):
        key = key_of(TENANT, ContainerId(f"c{number // SESSIONS_OF_CONTAINER}"))
        for place in range(messages):
            text = (
                f"a few words about {place}"
                + (" helpful" if place % 2 else "")
                + (" zeppelin" if place == number % 997 else "")
            )
            message = UserMessage(id=MessageId(f"m{place}"), timestamp=number, role="user", content=text)
            yield number * messages + place + 1, number + 1, message.id, encode_message(message), words_of(key, text)


class Steps:
    """Counts what SQLite does for the statements of every connection that is opened."""

    def __init__(self) -> None:
        self.steps = self.scanned = 0

    def watch(self, connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._note)

    def _note(self, event: dict[str, Any]) -> None:
        self.steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]
        self.scanned += event["stmt_status"]["SQLITE_STMTSTATUS_FULLSCAN_STEP"]


async def count_sqlite(path: Path) -> dict[str, str]:
    counted = {}
    watching = Steps()
    apsw.connection_hooks.append(watching.watch)
    try:
        async with open_store(path) as store:
            for name, ask in QUESTIONS.items():
                watching.steps = watching.scanned = 0
                await ask(store)
                counted[name] = f"{watching.steps:,} / {watching.scanned:,}"
    finally:
        apsw.connection_hooks.remove(watching.watch)
    return counted


_ROWS = "SELECT sum(seq_tup_read) FROM pg_stat_user_tables UNION ALL SELECT sum(idx_tup_read) FROM pg_stat_user_indexes"


async def count_postgres(url: str) -> dict[str, str]:
    counted = {}
    async with open_postgres(url, readers=1) as store:
        with psycopg.connect(url, autocommit=True) as watching:

            async def rows() -> int:
                # By the connection that has read: what it has counted becomes known.
                await store._database.read(lambda connection: connection.fetch("SELECT pg_stat_force_next_flush()"))
                return sum(int(number) for (number,) in watching.execute(_ROWS))

            for name, ask in QUESTIONS.items():
                # The first times a statement is planned for its values, which visits rows as well.
                for _ in range(7):
                    await ask(store)
                before = await rows()
                await ask(store)
                counted[name] = f"{await rows() - before:,}"
    return counted


@contextmanager
def copied(server: Postgres, data_dir: Path, name: str) -> Iterator[str]:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        copy_to_postgres(data_dir, server.url(name), lambda label, done, of: None)
        yield server.url(name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def main(sizes: list[int], messages: int, server: Postgres) -> None:
    rows = [["", *(f"{engine}, {size:,}" for size in sizes for engine in ("SQLite steps / scanned", "PostgreSQL rows"))]]
    columns: list[dict[str, str]] = []
    for size in sizes:
        with TemporaryDirectory() as folder:
            await fill(Path(folder) / DATABASE, size, messages)
            columns.append(await count_sqlite(Path(folder) / DATABASE))
            started = time.monotonic()
            with copied(server, Path(folder), f"plans_{size}") as url:
                print(
                    f"{size:,} sessions, {size * messages:,} messages: copied in {time.monotonic() - started:.0f} s", flush=True
                )
                columns.append(await count_postgres(url))
    rows += [[name, *(column[name] for column in columns)] for name in QUESTIONS]
    print(table(rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, nargs="+", default=[2_000, 20_000])
    parser.add_argument("--messages", type=int, default=10)
    options = parser.parse_args()
    with postgres() as running:
        anyio.run(main, options.sessions, options.messages, running)
