"""The suite itself: stores with one planted fault each must not pass."""

from collections.abc import Awaitable, Callable, Collection
from typing import BinaryIO

import anyio
import pytest

from agentvm.model.attachment import Attachment
from agentvm.model.ids import ContainerId, TenantId
from agentvm.storage.attachments import AttachmentPage, Upload
from agentvm.storage.engine import open_store
from agentvm.storage.sql.attachments import AttachmentStore
from agentvm.storage.sql.container import ContainerStore
from agentvm.storage.sql.store import Store, TenantStore
from agentvm.testing.conformance import attachments as suite

pytestmark = pytest.mark.anyio

Check = Callable[[Store], Awaitable[None]]


class Cut(AttachmentStore):
    async def read(self, digest: str, number: int) -> bytes | None:
        found = await super().read(digest, number)
        return found[:-1] if found else found


class Surprised(AttachmentStore):
    async def add(self, file: BinaryIO, upload: Upload, now: int) -> tuple[Attachment, bool]:
        return (await super().add(file, upload, now))[0], True


class Lenient(AttachmentStore):
    async def add(self, file: BinaryIO, upload: Upload, now: int) -> tuple[Attachment, bool]:
        if not file.read(1):
            return Attachment(digest="", container_id=self._key[1], size=0, media_type="", created_at=0), True
        return await super().add(file, upload, now)


class Open(AttachmentStore):
    """Takes the digest for a key."""

    async def read(self, digest: str, number: int) -> bytes | None:
        return await AttachmentStore(self._database, (TenantId("acme"), ContainerId("home"))).read(digest, number)


class Greedy(AttachmentStore):
    """Takes the bytes along, whoever else has them."""

    async def delete(self, digest: str) -> bool:
        gone = await super().delete(digest)
        if gone:
            await self._database.write(lambda connection: connection.fetch("DELETE FROM blob_chunks"))
        return gone


class Endless(AttachmentStore):
    async def list(self, *, after: str | None = None, limit: int = 100) -> AttachmentPage:
        page = await super().list(after=after, limit=limit)
        return AttachmentPage(page.items, None)


class Hasty(AttachmentStore):
    async def delete(self, digest: str) -> bool:
        await self._database.write(lambda connection: connection.fetch("DELETE FROM message_attachments"))
        return await super().delete(digest)


class Forgetful(AttachmentStore):
    async def claim(self, digests: Collection[str], now: int) -> frozenset[str]:
        return frozenset(await self.sizes(digests))


class Holding(AttachmentStore):
    async def delete(self, digest: str) -> bool:
        return False


def of(kind: type[AttachmentStore]) -> type[Store]:
    class Container(ContainerStore):
        def __init__(self, database: object, tenant_id: TenantId, container_id: ContainerId) -> None:
            super().__init__(database, tenant_id, container_id)  # type: ignore[arg-type]
            self.attachments = kind(self._database, self._key)

    class Tenant(TenantStore):
        def container(self, container_id: ContainerId) -> ContainerStore:
            return Container(self._database, self._tenant_id, container_id)

    class Faulty(Store):
        def tenant(self, tenant_id: TenantId) -> TenantStore:
            return Tenant(self._database, tenant_id)

    return Faulty


FAULTS = [
    (Cut, suite.check_what_was_uploaded_comes_back),
    (Surprised, suite.check_uploading_again_keeps_one),
    (Lenient, suite.check_nothing_and_nowhere_are_refused),
    (Open, suite.check_a_digest_opens_nothing_elsewhere),
    (Greedy, suite.check_who_shares_the_bytes_has_their_own),
    (Endless, suite.check_pages),
    (Hasty, suite.check_what_a_message_refers_to_stays),
    (Forgetful, suite.check_what_nobody_sent_goes_after_its_grace),
    (Holding, suite.check_a_reference_to_what_is_not_there_is_kept_as_it_is),
]


@pytest.mark.parametrize(("kind", "check"), FAULTS)
async def test_a_planted_fault_is_found(kind: type[AttachmentStore], check: Check) -> None:
    with anyio.fail_after(30), pytest.raises(AssertionError):
        async with open_store(None) as store:
            await check(of(kind)(store._database))


def test_every_check_has_its_fault() -> None:
    assert {check for _, check in FAULTS} == set(suite.CHECKS)
