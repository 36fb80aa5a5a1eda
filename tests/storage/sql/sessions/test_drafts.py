from tests.conformance import drafts
from tests.conformance.records import SESSION, image, session
from tests.conformance.store import ACME, settle

from agentvm.model.ids import SessionId
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sessions import MessageSearch
from agentvm.storage.sql.store import Store


async def test_a_draft_is_in_no_search_and_no_export_and_leaves_no_row(store: Store, database: SqliteDatabase) -> None:
    home = await settle(store, image())
    await home.add_session(session("a"))
    for session_id in (SESSION, SessionId("a")):
        await drafts.of(store).save(session_id, "", "needle", 1)
    assert (await store.tenant(ACME).sessions(None).search(MessageSearch(text="needle"))).total == 0
    assert await store.carrier(ACME).measure(image().container_id) == 0
    await store.tenant(ACME).sessions(None).delete(SessionId("a"), 5)
    await store.purge_sessions(6)
    await home.delete_image(image().image_id)
    assert await database.read(lambda connection: connection.fetch("SELECT count(*) FROM drafts")[0][0]) == 0
