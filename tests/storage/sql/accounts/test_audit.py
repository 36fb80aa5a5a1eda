import pytest
from tests.conformance.accounts import audited
from tests.conformance.store import ACME

from agentvm.errors import StoreFailed
from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sql.store import Store


@pytest.mark.parametrize("statement", ["UPDATE audit SET actor = 'nobody'", "DELETE FROM audit"])
async def test_the_database_refuses_to_change_the_audit_log(statement: str, database: SqliteDatabase, store: Store) -> None:
    audit = store.accounts(ACME).audit
    await audit.add(audited())

    def tamper(connection: SqliteConnection) -> None:
        connection.execute(statement)

    with pytest.raises(StoreFailed, match="append-only"):
        await database.write(tamper)
    assert [entry for _, entry in await audit.list()] == [audited()]
