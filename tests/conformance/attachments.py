"""Attachments conformance — who has a file, who reads it, and when it goes."""

import hashlib
from io import BytesIO

from agentvm.errors import ContainerNotFound, InvalidInput
from agentvm.errors.attachment import AttachmentInUse
from agentvm.model.attachment import Attachment, reference_to
from agentvm.model.ids import ContainerId, ImageId, MessageId, RewindId, SessionId, UserId
from agentvm.model.message import FilePart, ImagePart, TextPart, UserMessage
from agentvm.storage.attachments import CHUNK_BYTES, Upload
from agentvm.storage.base import Rewinding, SessionWrite
from agentvm.storage.sql.attachments import read_all
from agentvm.storage.sql.container import ContainerStore
from agentvm.storage.sql.store import Store
from tests.conformance.records import HOME, IMAGE, SESSION, image, session
from tests.conformance.store import ACME, RIVAL, raises, settle

DAY_MS = 86_400_000
BODY = bytes(range(256)) * (CHUNK_BYTES // 256) + b"and a little more"
PICTURE = Upload(media_type="image/png", name="北京.png", uploaded_by=UserId("user_1"))


def digest_of(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def referring(message_id: str, *bodies: bytes, text: str = "see") -> UserMessage:
    """A message that refers to them."""
    parts = tuple(FilePart(data=reference_to(digest_of(body)), media_type="text/plain") for body in bodies)
    return UserMessage(id=MessageId(message_id), timestamp=1, role="user", content=(TextPart(text=text), *parts))


async def upload(home: ContainerStore, body: bytes = BODY, now: int = 1, about: Upload = PICTURE) -> Attachment:
    return (await home.attachments.add(BytesIO(body), about, now))[0]


async def check_what_was_uploaded_comes_back(store: Store) -> None:
    home = await settle(store)
    for body in (b"x", BODY, BODY[:CHUNK_BYTES], b"\0" * CHUNK_BYTES * 2):
        added, new = await home.attachments.add(BytesIO(body), PICTURE, 7)
        assert new
        assert (added.digest, added.size, added.container_id) == (digest_of(body), len(body), HOME)
        assert (added.media_type, added.name, added.uploaded_by, added.created_at) == ("image/png", "北京.png", "user_1", 7)
        assert await home.attachments.get(added.digest) == added
        assert await read_all(home.attachments, added.digest) == body
        assert await home.attachments.read(added.digest, 0) == body[:CHUNK_BYTES]
        assert await home.attachments.read(added.digest, 1) == body[CHUNK_BYTES : 2 * CHUNK_BYTES]
        assert await home.attachments.read(added.digest, 4) == b""
    sizes = await home.attachments.sizes([digest_of(BODY), digest_of(b"absent")])
    assert sizes == {digest_of(BODY): len(BODY)}


async def check_uploading_again_keeps_one(store: Store) -> None:
    home = await settle(store)
    first = await upload(home, now=7)
    again, new = await home.attachments.add(BytesIO(BODY), Upload(media_type="text/plain", uploaded_by=UserId("b")), 8)
    assert not new
    assert (again.created_at, again.uploaded_by, again.media_type, again.name) == (7, "user_1", "text/plain", None)
    assert [item.digest for item in (await home.attachments.list()).items] == [first.digest]
    assert await store.accounts(ACME).quotas.storage_bytes() == len(BODY)


async def check_nothing_and_nowhere_are_refused(store: Store) -> None:
    home = await settle(store)
    assert await raises(InvalidInput, home.attachments.add(BytesIO(b""), PICTURE, 1))
    nowhere = store.tenant(ACME).container(ContainerId("nowhere"))
    assert await raises(ContainerNotFound, nowhere.attachments.add(BytesIO(b"x"), PICTURE, 1))
    assert (await home.attachments.list()).items == ()
    assert await store.accounts(ACME).quotas.storage_bytes() == 0


async def check_a_digest_opens_nothing_elsewhere(store: Store) -> None:
    """Neither in another container nor at another tenant, though the bytes are there."""
    home = await settle(store)
    found = await upload(home)
    for other in (await settle(store, container="other"), await settle(store, tenant=RIVAL)):
        for digest in (found.digest, digest_of(b"absent")):
            assert await other.attachments.get(digest) is None
            assert await other.attachments.read(digest, 0) is None
            assert await other.attachments.sizes([digest]) == {}
            assert await other.attachments.claim([digest], 2) == frozenset()
            assert await other.attachments.delete(digest) is False
        assert (await other.attachments.list()).items == ()
    assert await store.accounts(RIVAL).quotas.storage_bytes() == 0
    assert await read_all(home.attachments, found.digest) == BODY


async def check_who_shares_the_bytes_has_their_own(store: Store) -> None:
    home, theirs = await settle(store), await settle(store, tenant=RIVAL)
    found = await upload(home)
    await upload(theirs, about=Upload(media_type="text/plain", name="theirs"))
    assert await home.attachments.get(found.digest) == found
    for tenant in (ACME, RIVAL):
        assert await store.accounts(tenant).quotas.storage_bytes() == len(BODY)
    assert await theirs.attachments.delete(found.digest) is True
    assert await read_all(home.attachments, found.digest) == BODY
    assert await home.attachments.delete(found.digest) is True
    assert await home.attachments.delete(found.digest) is False
    assert await read_all(home.attachments, found.digest) is None


async def check_pages(store: Store) -> None:
    home = await settle(store)
    bodies = [f"file {number}".encode() for number in range(7)]
    for body in bodies:
        await upload(home, body)
    found: list[str] = []
    after = None
    while True:
        page = await home.attachments.list(after=after, limit=3)
        found += [item.digest for item in page.items]
        assert len(page.items) <= 3
        if (after := page.next) is None:
            break
    assert found == [digest_of(body) for body in reversed(bodies)]
    for odd in ("", "x", "-1", "9" * 40, "²"):
        assert await raises(InvalidInput, home.attachments.list(after=odd))


async def check_what_a_message_refers_to_stays(store: Store) -> None:
    """Through a rewind and in a fork, until the last message that refers to it has gone."""
    home = await settle(store, image())
    found = await upload(home)
    write = SessionWrite(tenant_id=ACME, container_id=HOME, session_id=SESSION, now=2, messages=[referring("m1", BODY, BODY)])
    await store.commit([write])
    await home.add_session(session("fork"), [referring("m1", BODY)])
    taken = Rewinding(RewindId("r"), [MessageId("m1")], 3)
    await store.commit([SessionWrite(tenant_id=ACME, container_id=HOME, session_id=SESSION, now=3, rewind=taken)])

    async def is_kept(now: int) -> None:
        assert await raises(AttachmentInUse, home.attachments.delete(found.digest))
        assert await store.collect(now, grace=0) == await store.collect(now + 1, grace=0) == 0
        assert await read_all(home.attachments, found.digest) == BODY

    await is_kept(10 * DAY_MS)
    await store.tenant(ACME).sessions(None).delete(SessionId("fork"), 4)
    # It can still be restored.
    await is_kept(20 * DAY_MS)
    assert await store.purge_sessions(30 * DAY_MS)
    await is_kept(30 * DAY_MS)
    assert await home.delete_image(ImageId(IMAGE))
    assert await store.collect(40 * DAY_MS, grace=DAY_MS) == 0
    assert await store.collect(41 * DAY_MS, grace=DAY_MS) == 1
    assert await home.attachments.get(found.digest) is None
    assert await store.accounts(ACME).quotas.storage_bytes() == 0


async def check_what_nobody_sent_goes_after_its_grace(store: Store) -> None:
    home = await settle(store, image())
    early, late = await upload(home, b"early", now=1), await upload(home, b"late", now=DAY_MS)
    assert await store.collect(DAY_MS, grace=0, attachment_grace=DAY_MS) == 0
    assert await store.collect(DAY_MS + 1, grace=0, attachment_grace=DAY_MS) == 1
    assert [item.digest for item in (await home.attachments.list()).items] == [late.digest]
    assert await home.attachments.read(early.digest, 0) is None
    # Whoever says that they are about to send it, or uploads it again, has a grace from then.
    assert await home.attachments.claim([late.digest, early.digest], 2 * DAY_MS) == {late.digest}
    assert await store.collect(3 * DAY_MS - 1, grace=DAY_MS) == 0
    await upload(home, b"late", now=3 * DAY_MS)
    assert await store.collect(4 * DAY_MS - 1, grace=DAY_MS) == 0
    await home.log(SESSION).record(messages=[referring("m1", b"late")], now=5 * DAY_MS)
    assert await store.collect(9 * DAY_MS, grace=DAY_MS) == 0
    assert await home.attachments.get(late.digest) is not None


async def check_a_reference_to_what_is_not_there_is_kept_as_it_is(store: Store) -> None:
    """A message is stored whatever it says, and holds nothing of others."""
    home, theirs = await settle(store, image()), await settle(store, tenant=RIVAL)
    await upload(theirs)
    odd = ImagePart(data="attachment:nonsense", media_type="image/png")
    said = UserMessage(id=MessageId("m2"), timestamp=1, role="user", content=(odd,))
    await home.log(SESSION).record(messages=[referring("m1", BODY), said], now=2)
    assert await home.list_messages(SESSION) == (referring("m1", BODY), said)
    assert await theirs.attachments.delete(digest_of(BODY)) is True
