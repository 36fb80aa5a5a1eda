from tests.conformance.erasing import fill
from tests.conformance.records import HOME, SESSION, image, message, session
from tests.conformance.store import ACME, RIVAL, settle

from agentvm.model.ids import ContainerId
from agentvm.storage.sql.store import Store


async def test_what_is_deleted_or_taken_back_counts_as_well(store: Store) -> None:
    home = await settle(store, image())
    await home.add_session(session("second"), [message("m1")])
    await store.tenant(ACME).sessions(None).delete(SESSION, now=2)
    weighed = await store.erasing.weigh(ACME, container_id=HOME)
    assert weighed is not None
    assert (weighed.sessions, weighed.messages) == (2, 1)


async def test_every_kind_of_text_and_file_is_weighed(store: Store) -> None:
    await fill(store, words="x" * 1000)
    await fill(store, tenant=RIVAL)
    weighed = await store.erasing.weigh(ACME, container_id=HOME)
    assert weighed is not None
    assert (weighed.messages, weighed.attachments) == (3, 1)
    # Three messages, the log, a draft and a file; the namespace, key and value of an item.
    assert 9_000 < weighed.bytes < 10_700


async def test_what_is_not_there_weighs_nothing_at_all(store: Store) -> None:
    await settle(store)
    assert await store.erasing.weigh(ACME, container_id=ContainerId("nowhere")) is None
    assert await store.erasing.weigh(RIVAL, container_id=HOME) is None
    await store.erasing.delete_container(ACME, HOME, now=2)
    assert await store.erasing.weigh(ACME, container_id=HOME) is None
