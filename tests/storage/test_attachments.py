"""The protocol holds little to run; this shows that what is built on it has its shape."""

import inspect
from io import BytesIO

import pytest
from tests.conformance.store import settle

from agentvm.storage.attachments import CHUNK_BYTES, Upload
from agentvm.storage.engine import open_store
from agentvm.storage.sql.attachments import AttachmentStore, read_all


def public(of: type) -> dict[str, inspect.Signature]:
    return {name: inspect.signature(member) for name, member in vars(of).items() if not name.startswith("_")}


def test_a_repository_offers_what_the_protocol_says_and_nothing_else() -> None:
    assert public(AttachmentStore) == public(AttachmentStore)


@pytest.mark.parametrize("size", [1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES])
async def test_all_of_it_is_read_wherever_it_ends(size: int) -> None:
    async with open_store(None) as store:
        home = await settle(store)
        added, _ = await home.attachments.add(BytesIO(b"x" * size), Upload(media_type="a/b"), 1)
        assert await read_all(home.attachments, added.digest) == b"x" * size


async def test_what_goes_while_it_is_read_is_not_there() -> None:
    async with open_store(None) as store:
        home = await settle(store)
        added, _ = await home.attachments.add(BytesIO(b"x" * CHUNK_BYTES * 2), Upload(media_type="a/b"), 1)

        class Going(AttachmentStore):
            async def read(self, digest: str, number: int) -> bytes | None:
                if number:
                    await self.delete(digest)
                return await super().read(digest, number)

        assert await read_all(Going(store._database, home._key), added.digest) is None
