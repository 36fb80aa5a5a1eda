from collections.abc import Iterator

import pytest

from agentvm.errors import ConstraintFailed
from agentvm.storage.engines.postgres.connection import PostgresConnection, ReadingConnection, connect
from agentvm.storage.engines.postgres.database import connect_reader
from agentvm.storage.sql.connection import snapshot

ADD = "INSERT INTO snapshots (digest, body) VALUES (?, ?)"
COUNT = "SELECT count(*) FROM snapshots"


@pytest.fixture
def connection(database_url: str) -> Iterator[PostgresConnection]:
    opened = PostgresConnection(connect(database_url))
    yield opened
    opened.close()


def test_values_come_back_as_they_were(connection: PostgresConnection) -> None:
    assert connection.execute(ADD, ("a", b"\0\xff")) == 1
    connection.many(ADD, [("b", b""), ("c", b"x")])
    assert connection.fetch("SELECT digest, body FROM snapshots ORDER BY digest") == [("a", b"\0\xff"), ("b", b""), ("c", b"x")]
    assert connection.fetch("SELECT 2 > 1, NULL, CAST(? AS BIGINT)", (2**62,)) == [(1, None, 2**62)]
    assert connection.execute("DELETE FROM snapshots WHERE digest > ?", ("a",)) == 2


def test_what_contradicts_the_schema_is_named_as_everywhere(connection: PostgresConnection) -> None:
    connection.execute(ADD, ("a", b""))
    with pytest.raises(ConstraintFailed, match="snapshots"):
        connection.execute(ADD, ("a", b""))
    connection.execute("INSERT INTO audit (tenant_id, at, actor, action, target, result) VALUES ('t', 1, 'a', 'b', 'c', 'd')")
    with pytest.raises(ConstraintFailed, match="append-only"):
        connection.execute("DELETE FROM audit WHERE tenant_id = 't'")
    with pytest.raises(OverflowError):
        connection.execute("DELETE FROM audit WHERE position = ?", (2**80,))


def test_a_text_with_a_nul_is_stored_without_it(connection: PostgresConnection) -> None:
    connection.execute(ADD, ("a\0b", b""))
    assert connection.fetch("SELECT digest FROM snapshots") == [("a\ufffdb",)]


def test_a_snapshot_sees_one_state(database_url: str, connection: PostgresConnection) -> None:
    reader = ReadingConnection(connect_reader(database_url))
    with snapshot(reader):
        before = reader.fetch(COUNT)
        connection.execute(ADD, ("a", b""))
        assert reader.fetch(COUNT) == before
    assert reader.fetch(COUNT) == [(1,)]
    reader.close()
