import apsw
import pytest

from agentvm.errors import StoreFailed
from agentvm.model.account import Quota
from agentvm.model.definition import snapshot_of
from agentvm.model.message import encode_message
from agentvm.storage.sqlite import SqliteStore
from agentvm.storage.sqlite.database import Database
from agentvm.testing.conformance.log import chunk, write
from agentvm.testing.conformance.records import image, message
from agentvm.testing.conformance.store import ACME, settle

pytestmark = pytest.mark.anyio


async def test_storage_is_counted_to_the_byte(store: SqliteStore) -> None:
    built = image()
    await settle(store, built, image("twin"))
    await store.commit([write(text="m1", log=chunk(1, 3))])
    expected = len(encode_message(message("m1"))) + len(chunk(1, 3).body) + len(snapshot_of(built.definition)[1])
    assert await store.accounts(ACME).quotas.storage_bytes() == expected


async def test_a_tenant_cannot_have_a_quota_twice_whoever_writes_it(database: Database, store: SqliteStore) -> None:
    await store.accounts(ACME).quotas.put(Quota(metric="containers"), now=1)

    def again(connection: apsw.Connection) -> None:
        connection.execute("INSERT INTO quotas (tenant_id, metric, updated_at) VALUES ('acme', 'containers', 2)")

    with pytest.raises(StoreFailed, match="UNIQUE"):
        await database.write(again)
