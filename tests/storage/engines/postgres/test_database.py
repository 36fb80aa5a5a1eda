"""Work on PostgreSQL is atomic, outlives lost connections, and its outcome is always known."""

import os
import time

import anyio
import psycopg
import pytest

from agentvm.errors import ConstraintFailed, DataDirInUse, StoreFailed
from agentvm.errors.bounds import QueryTimeout
from agentvm.storage.engines.postgres import database as module
from agentvm.storage.engines.postgres.connection import PostgresConnection, Raw, connect
from agentvm.storage.engines.postgres.database import PostgresDatabase, Work, open_database
from agentvm.storage.engines.postgres.database_locks import connect_writer

ADD = "INSERT INTO snapshots (digest, body) VALUES (?, ?)"
DIGESTS = "SELECT digest FROM snapshots ORDER BY digest"
OWN_PROCESS = "SELECT pg_backend_pid()"


def add(digest: str) -> Work[int]:
    return lambda connection: connection.execute(ADD, (digest, b""))


CONTRADICTIONS = 25
"""As many as a node meets while another one is frozen in the middle of a transaction."""


async def digests(database: PostgresDatabase) -> list[str]:
    return [digest for (digest,) in await database.read(lambda connection: connection.fetch(DIGESTS))]


async def test_writes_that_wait_together_share_a_commit_and_only_the_wrong_one_fails(database: PostgresDatabase) -> None:
    failed: list[str] = []

    async def write(digest: str) -> None:
        try:
            await database.write(add(digest))
        except ConstraintFailed:
            failed.append(digest)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for digest in ("a", "b", "a", "c"):
                tasks.start_soon(write, digest)
    assert failed == ["a"]
    assert await digests(database) == ["a", "b", "c"]


async def test_a_connection_that_is_lost_before_the_commit_is_opened_again_and_the_work_runs_again(
    database: PostgresDatabase, database_url: str
) -> None:
    runs = 0

    def work(connection: PostgresConnection) -> None:
        nonlocal runs
        runs += 1
        connection.execute(ADD, (f"run {runs}", b""))
        if runs == 1:
            with psycopg.connect(database_url) as other:
                other.execute("SELECT pg_terminate_backend(%s)", (connection.fetch(OWN_PROCESS)[0][0],))
        connection.execute(ADD, ("end", b""))

    with anyio.fail_after(60):
        await database.write(work)
    assert await digests(database) == ["end", "run 2"]


async def test_a_commit_whose_answer_is_lost_is_asked_for_and_not_repeated(
    database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = 0

    def work(connection: PostgresConnection) -> None:
        nonlocal runs
        runs += 1
        connection.execute(ADD, (f"run {runs}", b""))
        if runs == 1:
            raw = connection.raw
            execute = raw.execute

            def lose(query: str, *args: object) -> object:
                answer = execute(query, *args)  # type: ignore[call-overload]
                if query == "COMMIT":
                    os.close(raw.fileno())
                    raw.pgconn.finish()
                    raise psycopg.OperationalError("the connection was lost")
                return answer

            monkeypatch.setattr(raw, "execute", lose)

    with anyio.fail_after(60):
        await database.write(work)
    assert runs == 1
    assert await digests(database) == ["run 1"]


async def test_work_that_contradicts_others_runs_again_however_often(database: PostgresDatabase, database_url: str) -> None:
    runs = 0

    def work(connection: PostgresConnection) -> None:
        nonlocal runs
        runs += 1
        count = connection.fetch("SELECT count(*) FROM snapshots")[0][0]
        if runs <= CONTRADICTIONS:
            with psycopg.connect(database_url) as other:
                other.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
                (seen,) = other.execute("SELECT count(*) FROM snapshots").fetchall()[0]
                other.execute("INSERT INTO snapshots (digest, body) VALUES (%s, '')", (f"other {seen}",))
        connection.execute(ADD, (f"own {count}", b""))

    with anyio.fail_after(60):
        await database.write(work)
    assert await digests(database) == [*sorted(f"other {run}" for run in range(CONTRADICTIONS)), f"own {CONTRADICTIONS}"]


async def test_a_read_cannot_write_and_goes_on_after_a_lost_connection(database: PostgresDatabase, database_url: str) -> None:
    with pytest.raises(StoreFailed, match="read-only"):
        await database.read(add("a"))
    with psycopg.connect(database_url, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    assert await digests(database) == []
    await database.write(add("a"))
    assert await digests(database) == ["a"]


async def test_a_heavy_read_ends(database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEAVY_WALL_SECONDS", 0.05)
    with anyio.fail_after(60), pytest.raises(QueryTimeout):
        await database.read(lambda connection: connection.fetch("SELECT pg_sleep(600)"), heavy=True)
    assert await digests(database) == []


async def test_no_read_takes_for_ever(database: PostgresDatabase) -> None:
    shown = await database.read(lambda connection: connection.fetch("SHOW statement_timeout"))
    await database.read(lambda connection: connection.fetch("SELECT 1"), heavy=True)
    assert shown == await database.read(lambda connection: connection.fetch("SHOW statement_timeout")) == [("30s",)]


async def test_a_full_disk_and_a_server_that_only_reads_fail_what_is_written_and_nothing_else(
    database: PostgresDatabase, database_url: str
) -> None:
    def full(connection: PostgresConnection) -> None:
        connection.execute(ADD, ("half", b""))
        raise psycopg.errors.DiskFull("could not extend file")

    with pytest.raises(StoreFailed, match="nothing was stored"):
        await database.write(full)
    with psycopg.connect(database_url, autocommit=True) as other:
        other.execute(f"ALTER DATABASE {other.info.dbname} SET default_transaction_read_only = on")
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        with pytest.raises(StoreFailed, match="read-only transaction"):
            await database.write(add("a"))
        assert await digests(database) == []
        other.execute(f"ALTER DATABASE {other.info.dbname} RESET default_transaction_read_only")
    # The server that writes is looked for again.
    await database.write(add("b"))
    assert await digests(database) == ["b"]


async def test_a_database_that_forgets_is_refused(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"ALTER ROLE avm IN DATABASE {connection.info.dbname} SET synchronous_commit = off")
    with pytest.raises(StoreFailed, match="synchronous_commit = off"):
        async with open_database(database_url):
            raise AssertionError("It was opened")


async def test_a_wrong_address_is_an_error_without_the_password() -> None:
    with pytest.raises(StoreFailed) as caught:
        async with open_database("postgresql://avm:hunter2@127.0.0.1:1/none"):
            raise AssertionError("It was opened")
    assert "hunter2" not in str(caught.value)
    assert "Is the server running" in str(caught.value)
    assert str(caught.value).isprintable()


async def test_a_limit_of_the_server_fails_the_job_that_meets_it_and_no_other(database: PostgresDatabase) -> None:
    failed: list[str] = []

    async def write(name: str, work: Work[int]) -> None:
        try:
            await database.write(work)
        except StoreFailed:
            failed.append(name)

    def too_long(connection: PostgresConnection) -> int:
        words = " ".join(f"{number:0>240}" for number in range(6_000))
        return len(connection.fetch("SELECT CAST(? AS tsvector)", (words,)))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for name, work in (("a", add("a")), ("long", too_long), ("b", add("b"))):
                tasks.start_soon(write, name, work)
    assert failed == ["long"]
    assert await digests(database) == ["a", "b"]


async def test_a_lock_that_the_server_holds_for_the_lost_connection_is_waited_for(
    database: PostgresDatabase, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[str] = []

    def connect_late(url: str) -> Raw:
        tries.append(url)
        if len(tries) < 3:
            raise DataDirInUse("The database is in use")
        return connect_writer(url)

    monkeypatch.setattr(module, "connect_writer", connect_late)
    with psycopg.connect(database_url, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    with anyio.fail_after(60):
        await database.write(add("a"))
    assert tries == [database_url] * 3
    assert await digests(database) == ["a"]


@pytest.mark.parametrize("url", ["postgresql://user:se%cret@127.0.0.1/name", "postgresql://user:secret:%zz@127.0.0.1/name"])
async def test_an_address_that_cannot_be_read_is_not_repeated(url: str) -> None:
    with pytest.raises(StoreFailed, match="%40") as failed:
        async with open_database(url):
            pass
    assert "cret" not in str(failed.value)
    assert failed.value.__cause__ is None


async def test_clients_read_neither_values_nor_the_address_of_the_server(
    database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    await database.write(add("private"))
    with pytest.raises(ConstraintFailed, match="unique constraint") as failed:
        await database.write(add("private"))
    assert "private" not in str(failed.value)

    def refuse(url: str) -> Raw:
        raise psycopg.OperationalError('connection to server at "10.1.2.3", port 5432 failed')

    def lose(connection: PostgresConnection) -> None:
        connection.raw.pgconn.finish()
        raise psycopg.OperationalError("the connection was lost")

    monkeypatch.setattr(module, "OUTAGE_SECONDS", 0)
    monkeypatch.setattr(module, "connect_writer", refuse)
    monkeypatch.setattr(module, "connect_reader", refuse)
    for work in (database.write(lose), database.read(lose)):
        with pytest.raises(StoreFailed, match="there is no connection to the database") as lost:
            await work
        assert "10.1.2.3" not in str(lost.value)


def wait_until_gone(dsn: str, number: int) -> None:
    """Returns when the server has noticed the end of a connection, whose lock it holds until then."""
    until = time.monotonic() + 60
    with psycopg.connect(dsn, autocommit=True) as other:
        while other.execute("SELECT FROM pg_stat_activity WHERE pid = %s", (number,)).fetchone() is not None:
            assert time.monotonic() < until


class Cut:
    """A connection whose end comes with its COMMIT, and a server that is away until it is asked often enough."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, stored: bool, asked: int = 3) -> None:
        self._patch = monkeypatch
        self._stored = stored
        self._asked = asked
        self.runs = 0
        monkeypatch.setattr(module, "connect", self._connect)
        monkeypatch.setattr(module, "OUTAGE_SECONDS", 0)
        monkeypatch.setattr(module, "RETRY_INTERVAL_SECONDS", 0)

    def _connect(self, url: str) -> Raw:
        self._asked -= 1
        if self._asked >= 0:
            raise psycopg.OperationalError("the server is away")
        return connect(url)

    def work(self, connection: PostgresConnection) -> None:
        self.runs += 1
        connection.execute(ADD, (f"run {self.runs}", b""))
        raw, execute = connection.raw, connection.raw.execute

        def lose(query: str, *args: object) -> object:
            if query != "COMMIT":
                return execute(query, *args)  # type: ignore[call-overload]
            execute("COMMIT" if self._stored else "ROLLBACK")
            dsn, number = raw.info.dsn, raw.info.backend_pid
            raw.pgconn.finish()
            wait_until_gone(dsn, number)
            raise psycopg.OperationalError("the connection was lost")

        if self.runs == 1:
            self._patch.setattr(raw, "execute", lose)


@pytest.mark.parametrize("stored", [True, False])
async def test_however_long_the_server_is_away_during_a_commit_the_outcome_is_told_right(
    database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch, stored: bool
) -> None:
    cut = Cut(monkeypatch, stored=stored)
    with anyio.fail_after(60):
        await database.write(cut.work)
        assert await digests(database) == (["run 1"] if stored else ["run 2"])
        await database.write(add("later"))


async def test_a_number_that_another_transaction_has_got_after_a_crash_is_no_commit(
    database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What the server says of a number that was not in the log when it crashed, once another writer has used it.
    monkeypatch.setattr(module, "_STATUS", "SELECT 'committed' WHERE $1::xid8 IS NOT NULL")
    with anyio.fail_after(60):
        await database.write(Cut(monkeypatch, stored=False).work)
        assert await digests(database) == ["run 2"]


async def test_a_server_that_stops_does_not_say_that_nothing_was_stored(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    async def write(opened: PostgresDatabase, cut: Cut) -> None:
        try:
            await opened.write(cut.work)
        except StoreFailed as error:
            told.append(str(error))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks, open_database(database_url, readers=1) as opened:
            tasks.start_soon(write, opened, Cut(monkeypatch, stored=True, asked=10**9))
            await anyio.wait_all_tasks_blocked()
    assert len(told) == 1
    assert "not known whether this was stored" in told[0]
