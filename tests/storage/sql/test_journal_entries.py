"""Entries of the journal are read in order and in pages, and dropped by the node that wrote them."""

from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.journal_entries import add_entry, forget_entries, read_entries


async def test_a_node_reads_and_drops_its_own_entries_and_a_server_alone_all(database: SqliteDatabase) -> None:
    def work(connection: Connection) -> None:
        for node_id, body in ((1, b"a"), (2, b"bb"), (1, b"ccc")):
            add_entry(connection, body, node_id)

        def bodies(node_id: int | None, max_bytes: int | None = None) -> list[bytes]:
            return [body for _, body in read_entries(connection, 0, max_bytes, node_id)]

        assert (bodies(None), bodies(1), bodies(2)) == ([b"a", b"bb", b"ccc"], [b"a", b"ccc"], [b"bb"])
        assert (bodies(None, 2), bodies(1, 2), bodies(1, 4)) == ([b"a"], [b"a"], [b"a", b"ccc"])
        assert not forget_entries(connection, 2**62, 1)
        assert bodies(None) == [b"bb"]
        assert not forget_entries(connection, 2**62, 0)
        assert bodies(None) == []

    await database.write(work)
