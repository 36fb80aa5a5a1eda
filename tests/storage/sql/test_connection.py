from pathlib import Path

import pytest

from agentvm.model.ids import ContainerId
from agentvm.storage.engine import open_store
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sessions import MessageSearch
from agentvm.storage.sql.connection import Connection, snapshot, storable
from agentvm.testing.conformance.records import SESSION, image, message
from agentvm.testing.conformance.store import ACME, settle

pytestmark = pytest.mark.anyio


def test_arguments_without_a_nul_are_passed_on_as_they_are() -> None:
    args = ("a", 1, None, b"\0")
    assert storable(args) is args


def test_a_nul_in_a_text_becomes_the_replacement_character() -> None:
    assert storable(("a\0b", b"\0", 1)) == ("a\ufffdb", b"\0", 1)
    assert storable({"title": "\0", "at": 2}) == {"title": "\ufffd", "at": 2}


async def test_titles_previews_drafts_messages_and_searches_bear_a_nul(tmp_path: Path) -> None:
    async with open_store(tmp_path / "a.db") as store:
        home = await settle(store, image())
        said = message("m1", "heron\0bittern")
        await home.log(SESSION).record(messages=[said], now=2)
        titled = await home.set_title(SESSION, "a\0b", 3)
        assert titled is not None
        assert (titled.title, titled.preview) == ("a\ufffdb", "heron\ufffdbittern")
        # A message is stored as JSON, which writes the character with an escape.
        assert await home.list_messages(SESSION) == (said,)
        tenant = store.tenant(ACME)
        drafts = tenant.drafts("", [ContainerId("home")])
        saved = await drafts.save(SESSION, "", "c\0d", 4)
        assert saved is not None
        assert saved.draft is not None
        assert saved.draft.text == "c\ufffdd"
        for text in ("heron", "bittern", "heron\0bittern"):
            assert (await tenant.sessions(None).search(MessageSearch(text=text))).total == 1


async def test_the_queries_of_a_snapshot_see_one_state(database: SqliteDatabase) -> None:
    def look(connection: Connection) -> list[int]:
        with snapshot(connection):
            return [connection.fetch("SELECT count(*) FROM containers")[0][0] for _ in range(2)]

    assert await database.read(look) == [0, 0]
