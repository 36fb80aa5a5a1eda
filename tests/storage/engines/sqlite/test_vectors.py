import random
from importlib.util import find_spec
from pathlib import Path

import pytest

from agentvm.storage.engines.sqlite import vectors
from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase


def nearest(connection: SqliteConnection) -> list[int]:
    return connection.search.find_nearest(1, bytes(6), 20)


async def test_the_extension_for_vectors_finds_what_is_found_without_it(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if find_spec("sqlite_vec") is None:
        pytest.skip("sqlite-vec: the extra knowledge is not installed")
    chance = random.Random(1)

    def fill(connection: SqliteConnection) -> None:
        connection.execute("PRAGMA defer_foreign_keys = ON")
        connection.search.add_signs(1, [(place, chance.randbytes(6)) for place in range(300)])
        connection.search.add_signs(2, [(300, bytes(6))])

    def compare(connection: SqliteConnection) -> tuple[list[int], ...]:
        fill(connection)
        assert vectors.load_vectors(connection.raw)
        with_it = nearest(SqliteConnection(connection.raw))
        monkeypatch.setattr(vectors, "extension_path", lambda: None)
        without = nearest(SqliteConnection(connection.raw))
        (tmp_path / "vec0.so").write_text("no library")
        monkeypatch.setattr(vectors, "extension_path", lambda: str(tmp_path / "vec0"))
        broken = nearest(SqliteConnection(connection.raw))
        connection.execute("DELETE FROM knowledge_signs")
        return with_it, without, broken

    with_it, without, broken = await database.write(compare)
    assert (len(with_it), with_it, broken) == (20, without, without)
