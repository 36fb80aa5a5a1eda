import msgspec
import pytest
from tests.conformance.log import chunk, write
from tests.conformance.records import HOME, default_session, image, message, session
from tests.conformance.store import ACME, RIVAL, settle

from agentvm.errors import StoreFailed
from agentvm.model.account import AuditEntry, Quota
from agentvm.model.definition import snapshot_of
from agentvm.model.ids import SessionId
from agentvm.model.message import encode_message
from agentvm.storage.base import ReaderPlace
from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.settings import Change
from agentvm.storage.sql.store import Store


async def test_what_is_said_is_counted_to_the_byte(store: Store) -> None:
    built = image()
    await settle(store, built, image("twin"))
    before = await store.accounts(ACME).quotas.storage_bytes()
    await store.commit([write(text="m1", log=chunk(1, 3))])
    said = len(encode_message(message("m1"))) + len(chunk(1, 3).body)
    # And what the lists show of it.
    assert said <= await store.accounts(ACME).quotas.storage_bytes() - before <= said + 100
    assert before > len(snapshot_of(built.definition)[1])


async def test_everything_that_is_stored_counts(store: Store) -> None:
    quotas, accounts = store.accounts(ACME).quotas, store.accounts(ACME)
    here = store.tenant(ACME).container(HOME)
    counted = await quotas.storage_bytes()

    async def grew(least: int) -> None:
        nonlocal counted
        before, counted = counted, await quotas.storage_bytes()
        assert counted - before >= least

    large = msgspec.structs.replace(image().config, variables={"a": "x" * 10_000})
    built = msgspec.structs.replace(image(), config=large)
    await here.create(1)
    await here.add_image(built, default_session(built))
    await grew(10_000)
    await here.add_session(msgspec.structs.replace(session("s2", built.image_id), title="t" * 500))
    await grew(500)
    await accounts.secrets.put("KEY", b"s" * 64_000, 1)
    await grew(64_000)
    await store.settings(ACME).append(Change(revision=1, at=1, actor="a", changes={"a": "c" * 2_000}))
    await grew(2_000)
    await accounts.audit.add(AuditEntry(at=1, tenant_id=ACME, actor="a", action="b", target="t" * 300, result="ok"))
    await grew(300)
    for number in range(20):
        await store.tenant(ACME).save_reader(f"client-{number}", {SessionId("s2"): ReaderPlace(1, number)})
    await grew(20 * 50)
    assert await store.accounts(RIVAL).quotas.storage_bytes() == 0


async def test_a_tenant_cannot_have_a_quota_twice_whoever_writes_it(database: SqliteDatabase, store: Store) -> None:
    await store.accounts(ACME).quotas.put(Quota(metric="containers"), now=1)

    def again(connection: SqliteConnection) -> None:
        connection.execute("INSERT INTO quotas (tenant_id, metric, updated_at) VALUES ('acme', 'containers', 2)")

    with pytest.raises(StoreFailed, match="UNIQUE"):
        await database.write(again)
