import pytest
from tests.conformance.records import HOME, SESSION, image
from tests.conformance.store import ACME, settle

from agentvm.storage.base import LogChunk, SessionWrite
from agentvm.storage.engine import open_store
from agentvm.storage.sql import trimming


@pytest.mark.parametrize("page", [1, 2, 3, 100])
async def test_pages_of_any_size_find_the_same_chunks(page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trimming, "PAGE_ROWS_MAX", page)
    async with open_store(None) as store:
        home = await settle(store, image())
        for number, size in enumerate((10, 50, 10, 10, 10), 1):
            chunk = LogChunk(first_seq=number, last_seq=number, made_at=number // 2, body=b"x" * size)
            await store.commit([SessionWrite(tenant_id=ACME, container_id=HOME, session_id=SESSION, now=1, chunk=chunk)])
        assert await store.trim_log(1, 10**6) == 1
        assert await store.trim_log(0, 79) == 1
        assert [chunk.last_seq for chunk in await home.log(SESSION).read(0, 10)] == [3, 4, 5]
        assert await store.trim_log(0, 0) == 2
        assert [chunk.last_seq for chunk in await home.log(SESSION).read(0, 10)] == [5]
