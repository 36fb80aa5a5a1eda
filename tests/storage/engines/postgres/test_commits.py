"""The writes of a commit are added by few statements, and as if each had been added by itself."""

from collections.abc import Sequence
from typing import Any

import psycopg
import pytest
from msgspec import structs
from tests.conformance.ledger import entry
from tests.conformance.log import chunk
from tests.conformance.records import HOME, IMAGE, SESSION, image, message, session, turn
from tests.conformance.store import ACME, settle

from agentvm.errors import WritesRefused
from agentvm.model.ids import SessionId, TurnId
from agentvm.model.ledger import SentCall
from agentvm.model.usage import Usage
from agentvm.storage.base import Committed, SessionWrite
from agentvm.storage.engines.postgres.commits import Bodies
from agentvm.storage.engines.postgres.connection import PostgresConnection, connect
from agentvm.storage.engines.postgres.opening import open_store
from agentvm.storage.sql.store import Store

TABLES = "sessions images all_messages message_facts search_pending turns log ledger asked journal wallets".split()
SESSIONS = [SESSION, *(SessionId(f"s{number}") for number in range(1, 6))]


def write(number: int = 0, *texts: str, now: int = 7, **parts: Any) -> SessionWrite:
    messages = [message(f"{now}-{number}-{place}", text) for place, text in enumerate(texts)]
    return SessionWrite(tenant_id=ACME, container_id=HOME, session_id=SESSIONS[number], now=now, messages=messages, **parts)


def call(key: str) -> SentCall:
    return SentCall(
        key=key, call_id="c", at=1, tenant_id=ACME, container_id=HOME, image_id=IMAGE, session_id=SESSION, turn_id=TurnId("t1"),
        driver="d", model="m", own_key=True, input_tokens=3,
    )  # fmt: skip


USED = Usage(input_tokens=1, output_tokens=2)
COMMITS: list[list[SessionWrite]] = [
    [write(number, f"Hello {number}", turns=[turn("t1")], asked=[call(f"k{number}")]) for number in range(4)],
    [write(0), write(4), write(1, asked=[call("k9")], answered=["k1"])],
    [
        write(
            number,
            *("And a\0nswer", " ", "more"),
            now=9,
            turns=[turn("t1", outcome="completed", usage=USED, ended=9)],
            chunk=chunk(1, 3),
            ledger=[entry(f"e{number}")],
            answered=[f"k{number}"],
        )
        for number in range(3)
    ],
    # Twice in one commit, a message that is there, an end that came before, a key both ways, an image that begins nothing.
    [write(0, "one", now=11), write(0, "two", now=12), write(1, "And a\0nswer", " ", "more", now=9), write(2, "x", now=8)],
    [write(2, now=13, turns=[turn("t1", outcome="failed", ended=13), structs.replace(turn("t2"), attempts=1)])],
    [write(3, now=14, answered=["k3"], asked=[call("k3")], ledger=[entry("e0")])],
    # One that is gone, for which is paid all the same, and one that is deleted.
    [
        write(5, "nobody", now=15, ledger=[entry("e5")], turns=[turn("t1")]),
        write(4, "deleted", now=15, turns=[turn("t1")]),
        write(1, "here", now=15),
    ],
    # Accepted one after the other: a node that takes over continues with them in that order.
    [write(3, now=16, turns=[turn(f"t{number}") for number in range(2, 6)])],
    [],
]


async def play(store: Store, commits: Sequence[Sequence[SessionWrite]]) -> list[Committed]:
    home = await settle(store, image())
    for session_id in SESSIONS[1:5]:
        await home.add_session(session(session_id))
    await store.tenant(ACME).sessions((HOME,)).delete(SESSIONS[4], 2)
    return [await store.commit(writes, entry=None if number == 4 else b"x") for number, writes in enumerate(commits)]


def rows(url: str) -> dict[str, list[Any]]:
    """The rows of each table with their order in their session, but without their numbers: not all of those are given."""
    found = {}
    with psycopg.connect(url) as connection:
        for table in TABLES:
            asked = "SELECT column_name FROM information_schema.columns WHERE table_schema = 'public' AND table_name = %s"
            columns = {str(name) for (name,) in connection.execute(asked, (table,))}
            kept = sorted(columns - {"position", "session_key", "entry"})
            if "session_key" in columns and table != "sessions":
                place = "row_number() OVER (PARTITION BY session_key ORDER BY t.position)" if "position" in columns else "0"
                query = f"SELECT s.session_id, {place}, {', '.join(f't.{name}' for name in kept)} FROM {table} AS t "
                query += "JOIN sessions AS s USING (session_key)"
            else:
                query = f"SELECT {', '.join(kept)} FROM {table}"
            found[table] = sorted(connection.execute(query.encode()), key=repr)
    return found


async def test_whatever_is_committed_is_the_same_statement_by_statement(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(database_url, readers=1) as store:
        together = await play(store, COMMITS)
    added = rows(database_url)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"TRUNCATE {', '.join(TABLES)}, containers, snapshots RESTART IDENTITY CASCADE".encode())
    monkeypatch.setattr(PostgresConnection, "add_together", lambda self, *commit: None)
    async with open_store(database_url, readers=1) as store:
        apart = await play(store, COMMITS)
    assert rows(database_url) == added
    assert [committed.gone for committed in apart] == [committed.gone for committed in together]
    assert [committed.entry > 0 for committed in together] == [number != 4 for number in range(len(COMMITS))]


async def test_the_turns_of_many_sessions_take_few_statements(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_store(database_url, readers=1) as store:
        await play(store, [])
        statements: list[str] = []
        execute = psycopg.Connection.execute

        def counted(self: Any, query: Any, *args: Any, **settings: Any) -> Any:
            statements.extend(str(query).split(";"))
            return execute(self, query, *args, **settings)

        monkeypatch.setattr(psycopg.Connection, "execute", counted)
        for writes in COMMITS[:3]:
            statements.clear()
            await store.commit(writes, entry=b"x")
            assert len(statements) <= 8, statements


async def test_one_session_that_contradicts_is_named(database_url: str) -> None:
    async with open_store(database_url, readers=1) as store:
        await play(store, [[write(1, chunk=chunk(1, 3))]])
        with pytest.raises(WritesRefused) as refused:
            await store.commit([write(0, "a"), write(1, "b", now=8, chunk=chunk(2, 3))], entry=b"x")
        assert refused.value.sessions == {SESSIONS[1]}
        assert await store.tenant(ACME).container(HOME).list_messages(SESSION) == ()


@pytest.mark.parametrize("bodies", [[], [b""], [b"a\0'\\", b"", b"x" * 70_000]])
def test_bodies_arrive_as_they_are(database_url: str, bodies: list[bytes]) -> None:
    with connect(database_url) as raw:
        assert raw.execute("SELECT body FROM unnest($1) AS body", (Bodies(bodies),)).fetchall() == [(body,) for body in bodies]
