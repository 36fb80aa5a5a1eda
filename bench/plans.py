"""Plans — rows that lists, searches and the start visit in a large database, on both engines; counted, not timed.

    python -m bench.plans [--sessions 2000 20000] [--messages 10] [--engines sqlite postgres]

Rows are made by the database itself, in a few statements. A question is index-bound if its count does
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
from agentvm.storage.engine import DATABASE, open_store
from agentvm.storage.engines.postgres.opening import open_store as open_postgres
from agentvm.storage.engines.postgres.search import vectors
from agentvm.storage.sessions import MessageQuery, MessageSearch, SessionQuery
from agentvm.storage.sql.sessions.index import key_of, words_of
from agentvm.storage.sql.store import Store
from bench.measure import table

TENANT = TenantId("default")
SESSIONS_OF_CONTAINER = 100
UNFINISHED = 20
"""Turns that a crash has left."""

RARE_EVERY = 997
HOME, OTHER_HOME = ContainerId("c0"), ContainerId("c1")
Ask = Callable[[Store], Awaitable[object]]


def _search(text: str) -> Ask:
    return lambda store: store.tenant(TENANT).sessions((HOME,)).search(MessageSearch(text=text))


async def _second_page(store: Store) -> object:
    whole = store.tenant(TENANT).sessions(None)
    return await whole.list(SessionQuery(after=(await whole.list(SessionQuery())).next))


QUESTIONS: dict[str, Ask] = {
    "list a container": lambda store: store.tenant(TENANT).sessions((HOME,)).list(SessionQuery()),
    "list a tenant": lambda store: store.tenant(TENANT).sessions(None).list(SessionQuery()),
    "second page of a tenant": _second_page,
    "list two containers": lambda store: store.tenant(TENANT).sessions((HOME, OTHER_HOME)).list(SessionQuery()),
    "list since yesterday": lambda store: store.tenant(TENANT).sessions((HOME,)).list(SessionQuery(since=10)),
    "messages of a session": lambda store: store.tenant(TENANT).sessions((HOME,)).messages(SessionId("s5"), MessageQuery()),
    "find a session": lambda store: store.tenant(TENANT).find_session(SessionId("s5")),
    "list containers": lambda store: store.tenant(TENANT).page_containers(None, 50),
    "search a rare word": _search("zeppelin"),
    "search a common word": _search("helpful"),
    "recovery: open turns": lambda store: store.list_unfinished(),
    "recovery: calls left": lambda store: store.list_sent_calls(),
    "recovery: quarantine": lambda store: store.list_quarantined(),
    "recovery: journal": lambda store: store.read_journal(),
}


def _statements(sessions: int, messages: int, *, as_bytes: str) -> Iterator[str]:
    """Rows in a few statements, which both engines understand; `as_bytes` makes bytes of a text.

    Containers have a hundred sessions each, every session a turn that has ended; a few have not.
    """
    numbers = "WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < {last}) "
    homes, all_of_them = numbers.format(last=sessions // SESSIONS_OF_CONTAINER - 1), numbers.format(last=sessions - 1)
    home = f"'c' || (n / {SESSIONS_OF_CONTAINER})"
    yield (
        "INSERT INTO containers (tenant_id, container_id, created_at, updated_at) "
        f"{homes}SELECT '{TENANT}', 'c' || n, n, n FROM numbers WHERE n > 0"
    )
    yield "DELETE FROM sessions"
    yield (
        "INSERT INTO sessions (session_key, tenant_id, container_id, image_id, session_id, created_at, updated_at, "
        f"last_message_at, preview, title) {all_of_them}"
        f"SELECT n + 1, '{TENANT}', {home}, 'img_1', 's' || n, n, n, n, 'hello', 'Chat ' || n FROM numbers"
    )
    yield (
        "INSERT INTO turns (session_key, turn_id, message_id, accepted_at, outcome) "
        f"{all_of_them}SELECT n + 1, 't' || n, 'm0', n, CASE WHEN n >= {UNFINISHED} THEN 'completed' END FROM numbers"
    )
    place = f"n * {messages} + s.place + 1"
    said = f"FROM numbers JOIN filled_texts AS s ON s.rare = CASE WHEN s.place = n % {RARE_EVERY} THEN 1 ELSE 0 END"
    body = as_bytes.format(text=f"replace(s.body, '{_NUMBER}', CAST(n AS TEXT))")
    yield (
        "INSERT INTO all_messages (position, session_key, message_id, body) "
        f"{all_of_them}SELECT {place}, n + 1, 'm' || s.place, {body} {said}"
    )
    yield (
        "INSERT INTO message_facts (position, session_key, at, kind) "
        f"{all_of_them}SELECT {place}, n + 1, {place}, 'user' {said}"
    )
    words = f"replace(s.words, '{_KEY}', k.word_key) {said} JOIN filled_keys AS k ON k.home = n / {SESSIONS_OF_CONTAINER}"
    if as_bytes == _SQLITE_BYTES:
        yield f"INSERT INTO message_fts (rowid, text) {all_of_them}SELECT {place}, {words}"
    else:
        words = words.replace(")", ")::tsvector", 1)
        yield f"INSERT INTO message_words (position, part, words) {all_of_them}SELECT {place}, 0, {words}"


_NUMBER, _KEY = 987_654_321, "KEY"
"""What stands in a text for the number of its session, and for the key of its container."""
_SQLITE_BYTES, _POSTGRES_BYTES = "CAST({text} AS BLOB)", "convert_to({text}, 'UTF8')"
_HELPERS = (
    "CREATE TEMP TABLE filled_texts (place INTEGER, rare INTEGER, body TEXT, words TEXT)",
    "CREATE TEMP TABLE filled_keys (home INTEGER PRIMARY KEY, word_key TEXT)",
)


def _texts(messages: int, *, vector: bool) -> Iterator[tuple[int, int, str, str]]:
    for place in range(messages):
        for rare in (0, 1):
            text = f"a few words about {place}" + (" helpful" if place % 2 else "") + (" zeppelin" if rare else "")
            message = UserMessage(id=MessageId(f"m{place}"), timestamp=_NUMBER, role="user", content=text)
            words = words_of(_KEY, text)
            (told,) = vectors([(words.split(" "), "")]) if vector else (words,)
            yield place, rare, encode_message(message).decode(), told


def _keys(sessions: int) -> Iterator[tuple[int, str]]:
    for number in range(sessions // SESSIONS_OF_CONTAINER):
        yield number, key_of(TENANT, ContainerId(f"c{number}"))


async def _begin(store: Store) -> None:
    home = store.tenant(TENANT).container(HOME)
    await home.create(now=0)
    made = image(container=HOME)
    await home.add_image(made, default_session(made))


async def fill_sqlite(path: Path, sessions: int, messages: int) -> None:
    async with open_store(path) as store:
        await _begin(store)
    await anyio.to_thread.run_sync(_fill_sqlite, path, sessions, messages)


def _fill_sqlite(path: Path, sessions: int, messages: int) -> None:
    connection = apsw.Connection(str(path))
    for pragma in ("journal_mode = off", "synchronous = off", "cache_size = -1000000"):
        connection.execute(f"PRAGMA {pragma}")
    for helper in _HELPERS:
        connection.execute(helper)
    connection.executemany("INSERT INTO filled_texts VALUES (?, ?, ?, ?)", _texts(messages, vector=False))
    connection.executemany("INSERT INTO filled_keys VALUES (?, ?)", _keys(sessions))
    # As upkeep does, or thousands of small pieces are left.
    connection.execute("INSERT INTO message_fts (message_fts, rank) VALUES ('automerge', 8)")
    for statement in _statements(sessions, messages, as_bytes=_SQLITE_BYTES):
        with connection:
            connection.execute(statement)
    connection.execute("INSERT INTO message_fts (message_fts, rank) VALUES ('automerge', 0)")
    connection.execute("ANALYZE")
    connection.close()


async def fill_postgres(url: str, sessions: int, messages: int) -> None:
    async with open_postgres(url, readers=1) as store:
        await _begin(store)
    await anyio.to_thread.run_sync(_fill_postgres, url, sessions, messages)


def _fill_postgres(url: str, sessions: int, messages: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")
        connection.execute("SET maintenance_work_mem = '1GB'")
        for helper in _HELPERS:
            connection.execute(helper)
        cursor = connection.cursor()
        for table_name, rows in (("filled_texts", _texts(messages, vector=True)), ("filled_keys", _keys(sessions))):
            with cursor.copy(f"COPY {table_name} FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
        connection.execute("DROP INDEX message_words_in")
        for statement in _statements(sessions, messages, as_bytes=_POSTGRES_BYTES):
            connection.execute(statement)
        connection.execute("CREATE INDEX message_words_in ON message_words USING gin (words)")
        connection.execute("VACUUM (ANALYZE)")


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
def created(server: Postgres, name: str) -> Iterator[str]:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield server.url(name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def main(sizes: list[int], messages: int, engines: list[str], server: Postgres) -> None:
    columns: dict[str, dict[str, str]] = {}
    for engine in engines:
        for size in sizes:
            began = time.monotonic()

            def filled(engine: str = engine, size: int = size, began: float = began) -> None:
                took = time.monotonic() - began
                print(f"{engine}: {size:,} sessions, {size * messages:,} messages in {took:.0f} s", flush=True)

            if engine == "sqlite":
                with TemporaryDirectory() as folder:
                    await fill_sqlite(Path(folder) / DATABASE, size, messages)
                    filled()
                    columns[f"SQLite steps / scanned, {size:,}"] = await count_sqlite(Path(folder) / DATABASE)
            else:
                with created(server, f"plans_{size}") as url:
                    await fill_postgres(url, size, messages)
                    filled()
                    columns[f"PostgreSQL rows, {size:,}"] = await count_postgres(url)
            print(table([["", *columns], *([name, *(column[name] for column in columns.values())] for name in QUESTIONS)]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, nargs="+", default=[2_000, 20_000])
    parser.add_argument("--messages", type=int, default=10)
    parser.add_argument("--engines", nargs="+", choices=("sqlite", "postgres"), default=["sqlite", "postgres"])
    options = parser.parse_args()
    with postgres() as running:
        anyio.run(main, options.sessions, options.messages, options.engines, running)
