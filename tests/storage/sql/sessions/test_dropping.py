from pathlib import Path

import pytest
from tests.conformance.records import HOME, IMAGE, SESSION, image, session
from tests.conformance.sessions import said
from tests.conformance.store import ACME, settle

from agentvm.model.ids import SessionId
from agentvm.storage.engine import open_store
from agentvm.storage.engines.sqlite.database import open_database
from agentvm.storage.sql.sessions import dropping


async def test_the_first_commit_of_a_deletion_hides_the_image_and_a_crash_leaves_the_rest_to_the_purge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(tmp_path / "agentvm.db") as store:
        home = await settle(store, image())
        await home.add_session(session("s2"))
        await home.log(SessionId("s2")).record(messages=[said(f"m{number}", "hello", 1) for number in range(100)], now=2)
    async with open_database(tmp_path / "agentvm.db") as database:
        monkeypatch.setattr(dropping, "MARKED_MAX", 0)
        await database.write(lambda connection: dropping.hide_image(connection, (ACME, HOME, IMAGE)))
        monkeypatch.undo()
    async with open_store(tmp_path / "agentvm.db") as store:
        assert await store.tenant(ACME).container(HOME).list_images() == ()
        assert {session_id for _, session_id in await store.purge_sessions(0)} == {SESSION, "s2"}
        assert await store.tenant(ACME).container(HOME).get_image(IMAGE) is None
