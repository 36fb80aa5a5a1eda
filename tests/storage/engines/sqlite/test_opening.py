from pathlib import Path

import anyio
import pytest
from tests.conformance.records import IMAGE, SESSION, image, message
from tests.conformance.store import ACME, settle

from agentvm.errors import StoreFailed
from agentvm.model.ids import ContainerId
from agentvm.storage.engines.sqlite.opening import open_store


async def test_what_was_stored_is_there_when_the_file_is_opened_again(tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with open_store(tmp_path / "agentvm.db") as store:
            home = await settle(store, image())
            await home.log(SESSION).record(messages=[message("m1")], now=2)
        async with open_store(tmp_path / "agentvm.db") as store:
            home = store.tenant(ACME).container(ContainerId("home"))
            assert await home.list_messages(SESSION) == (message("m1"),)


async def test_two_stores_in_memory_are_two_stores() -> None:
    with anyio.fail_after(60):
        async with open_store(None) as one, open_store(None) as other:
            await settle(one, image())
            assert await other.tenant(ACME).list_containers() == ()


async def test_a_store_that_was_closed_refuses_work() -> None:
    with anyio.fail_after(60):
        async with open_store(None) as store:
            home = await settle(store, image())
        with pytest.raises(StoreFailed):
            await home.get_image(IMAGE)
        with pytest.raises(StoreFailed):
            await home.create(now=2)
