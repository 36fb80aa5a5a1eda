"""Session file conformance — files belong to one session, and rewinds, forks and retention leave the right ones."""

import io
from collections.abc import Mapping

from agentvm.errors import SessionNotFound, WritesRefused
from agentvm.model.ids import MessageId, RewindId, SessionId, TenantId
from agentvm.model.session_file import FileChange, FileDelta
from agentvm.storage.attachments import CHUNK_BYTES, Upload
from agentvm.storage.base import Rewinding, SessionWrite
from agentvm.storage.retention import NOTHING, OldTurn, SessionAddress
from agentvm.storage.sql.container import ContainerStore
from agentvm.storage.sql.store import Store
from tests.conformance.records import HOME, SESSION, image, message, session
from tests.conformance.store import ACME, RIVAL, raises, settle


async def change(
    store: Store,
    files: Mapping[str, bytes | None],
    message_id: str | None = None,
    *,
    tenant: TenantId = ACME,
    session_id: SessionId = SESSION,
    now: int = 5,
) -> None:
    """One commit: a message, if it is named, and changes of files that came with it."""
    scope = store.tenant(tenant).container(HOME).files(session_id)
    bodies = {path: body for path, body in files.items() if body is not None}
    digests = dict(zip(bodies, await scope.put_all(tuple(bodies.values()), now), strict=True))
    changes = tuple(
        FileChange(path=path)
        if body is None
        else FileChange(path=path, digest=digests[path], size=len(body), executable=path.endswith(".sh"))
        for path, body in files.items()
    )
    delta = FileDelta(message_id=None if message_id is None else MessageId(message_id), changes=changes, at=now)
    said = [] if message_id is None else [message(message_id)]
    await store.commit([_write(tenant, session_id, now, messages=said, files=[delta])])


def _write(tenant: TenantId, session_id: SessionId, now: int, **more: object) -> SessionWrite:
    return SessionWrite(tenant_id=tenant, container_id=HOME, session_id=session_id, now=now, **more)  # type: ignore[arg-type]


async def contents(home: ContainerStore, session_id: SessionId = SESSION) -> dict[str, bytes | None]:
    files = home.files(session_id)
    return {file.path: await files.read_all(file.digest) for file in await files.list()}


async def rewind(store: Store, *message_ids: str, tenant: TenantId = ACME) -> None:
    taken = Rewinding(RewindId(f"r-{message_ids[0]}"), [MessageId(name) for name in message_ids], 9)
    await store.commit([_write(tenant, SESSION, 9, rewind=taken)])


async def check_files_are_written_replaced_and_deleted(store: Store) -> None:
    home = await settle(store, image())
    await change(store, {"a.txt": b"one", "run/b.sh": b"#!/bin/sh\n", "empty": b""}, "m1")
    await change(store, {"a.txt": b"two\x00\xff", "empty": None}, "m2", now=6)
    assert await contents(home) == {"a.txt": b"two\x00\xff", "run/b.sh": b"#!/bin/sh\n"}
    files = home.files(SESSION)
    assert [(file.path, file.executable, file.modified_at) for file in await files.list()] == [
        ("a.txt", False, 6),
        ("run/b.sh", True, 5),
    ]
    assert [file.path for file in await files.list("run")] == ["run/b.sh"]
    assert [file.path for file in await files.list(after="a.txt", limit=1)] == ["run/b.sh"]
    assert (await files.usage()).files == 2
    assert (await files.usage()).size == 5 + 10
    assert await files.get("empty") is None


async def check_files_of_a_session_are_seen_by_no_other(store: Store) -> None:
    home = await settle(store, image())
    other = await settle(store, image(), tenant=RIVAL)
    await home.add_session(session("second"))
    await change(store, {"a.txt": b"secret"}, "m1")
    file = await home.files(SESSION).get("a.txt")
    assert file is not None
    for strangers in (other.files(SESSION), home.files(SessionId("second")), home.files(SessionId("none"))):
        assert await strangers.list() == ()
        assert await strangers.get("a.txt") is None
        assert await strangers.read(file.digest, 0) is None


async def check_a_rewind_restores_the_files_as_they_were(store: Store) -> None:
    home = await settle(store, image())
    await change(store, {"a": b"1", "gone": b"x"}, "m1")
    await change(store, {"a": b"2", "gone": None, "new": b"n"}, "m2")
    await change(store, {"a": b"3"}, "m3")
    await rewind(store, "m3")
    assert await contents(home) == {"a": b"2", "new": b"n"}
    await rewind(store, "m2")
    assert await contents(home) == {"a": b"1", "gone": b"x"}
    await change(store, {"a": b"4"}, "m4")
    assert await contents(home) == {"a": b"4", "gone": b"x"}


async def check_an_upload_goes_with_the_message_that_it_followed(store: Store) -> None:
    home = await settle(store, image())
    await change(store, {"first": b"0"})
    await change(store, {"a": b"1"}, "m1")
    await change(store, {"a": b"put", "b": b"put"})
    assert await contents(home) == {"first": b"0", "a": b"put", "b": b"put"}
    await rewind(store, "m1")
    assert await contents(home) == {"first": b"0"}


async def check_a_fork_has_the_files_of_its_messages(store: Store) -> None:
    home = await settle(store, image())
    await change(store, {"base": b"0"})
    await change(store, {"a": b"1"}, "m1")
    await change(store, {"a": b"2"}, "m2")
    await rewind(store, "m2")
    await change(store, {"a": b"3"}, "m3")
    for name, messages, files in (
        ("now", ["m1", "m3"], {"base": b"0", "a": b"3"}),
        ("before", ["m1"], {"base": b"0", "a": b"1"}),
        ("rewound", ["m1", "m2"], {"base": b"0", "a": b"2"}),
        ("empty", [], {"base": b"0"}),
    ):
        await home.add_session(session(name), [message(one) for one in messages], files_of=SESSION)
        assert await contents(home, SessionId(name)) == files, name
    await change(store, {"a": None}, "m9", session_id=SessionId("now"))
    assert await contents(home) == {"base": b"0", "a": b"3"}


async def check_bytes_that_nobody_claimed_are_refused_and_nothing_is_stored(store: Store) -> None:
    home = await settle(store, image())
    lost = FileChange(path="a", digest=f"sha256:{'0' * 64}", size=1)
    write = _write(ACME, SESSION, 5, messages=[message("m1")], files=[FileDelta(changes=(lost,), at=5)])
    await raises(WritesRefused, store.commit([write]))
    assert await home.list_messages(SESSION) == ()
    await raises(SessionNotFound, home.files(SessionId("none")).put_all((b"x",), 5))


async def check_a_large_file_comes_in_pieces(store: Store) -> None:
    home = await settle(store, image())
    body = bytes(range(256)) * (5 * CHUNK_BYTES // 256) + b"end"
    digest, size = await home.files(SESSION).put(io.BytesIO(body), 5)
    delta = FileDelta(changes=(FileChange(path="large", digest=digest, size=size),), at=5)
    await store.commit([_write(ACME, SESSION, 5, files=[delta])])
    assert await contents(home) == {"large": body}
    assert await home.files(SESSION).read(digest, 5) == b"end"
    assert await home.files(SESSION).read(digest, 6) == b""


async def check_bytes_are_collected_when_no_file_has_them(store: Store) -> None:
    home = await settle(store, image())
    await change(store, {"a": b"same", "b": b"same"}, "m1")
    attached, _ = await home.attachments.add(io.BytesIO(b"attached"), Upload(media_type="text/plain"), now=5)
    await change(store, {"c": b"attached"}, "m2")
    await home.files(SESSION).put_all((b"claimed",), 100)
    await change(store, {"a": b"other"}, "m1")
    while await store.collect(101, grace=50):
        pass
    assert await contents(home) == {"a": b"other", "b": b"same", "c": b"attached"}
    await store.collect(1_000, grace=50)
    await store.collect(2_000, grace=50)
    # The attachment has expired, and the file has the bytes all the same.
    assert await home.attachments.get(attached.digest) is None
    assert (await contents(home))["c"] == b"attached"


async def check_old_turns_go_and_their_files_stay(store: Store) -> None:
    home = await settle(store, image())
    await change(store, {"a": b"1", "b": b"1"}, "m1")
    await change(store, {"a": b"2", "b": None}, "m2")
    await change(store, {"c": b"3"}, "m3")
    place = SessionAddress(HOME, SESSION)
    for turn in [OldTurn(None, (MessageId(name),), NOTHING) for name in ("m1", "m2")]:
        before = await contents(home)
        await store.tenant(ACME).retention().drop_turns(place, [turn])
        assert await contents(home) == before
    await rewind(store, "m3")
    assert await contents(home) == {"a": b"2"}


async def check_a_quota_counts_the_bytes_of_files_once(store: Store) -> None:
    await settle(store, image())
    before = await store.accounts(ACME).quotas.storage_bytes()
    await change(store, {"a": bytes(100_000), "b": bytes(100_000)}, "m1")
    stored = await store.accounts(ACME).quotas.storage_bytes() - before
    assert 100_000 < stored < 110_000
