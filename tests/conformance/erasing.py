"""Erasing conformance — what the store must do on every engine: what is deleted is gone, and nothing comes back.

Whether a file still shows what was erased is for a test that
knows the file.
"""

import io

import anyio
import msgspec

from agentvm.errors import ContainerNotFound, ImageNotFound, SessionNotFound
from agentvm.errors.erasing import ContainerErasing
from agentvm.model.account import ApiKey, Tenant, User
from agentvm.model.feedback import Feedback
from agentvm.model.ids import ContainerId, ImageId, KeyId, RewindId, SessionId, ShareId, TenantId, TurnId, UserId
from agentvm.model.knowledge import Passage
from agentvm.model.ledger import LedgerEntry
from agentvm.model.memory import Memory, MemoryId
from agentvm.model.program import ProgramCall
from agentvm.model.schedule import SourceRun
from agentvm.model.session import Alias
from agentvm.model.session_file import FileChange, FileDelta
from agentvm.model.share import Share
from agentvm.model.store_item import StoreItem
from agentvm.model.usage import Usage
from agentvm.model.webhook import Notice, Webhook, WebhookId
from agentvm.storage.attachments import Upload
from agentvm.storage.base import LogChunk, ReaderPlace, Rewinding, SessionWrite
from agentvm.storage.sessions import MessageSearch, SessionQuery, SessionReader
from agentvm.storage.sql.knowledge import IndexedChunk
from agentvm.storage.sql.store import Store
from tests.conformance.records import HOME, SESSION, default_session, image, message, schedule, session, trigger, turn
from tests.conformance.store import ACME, RIVAL, raises, settle

ALICE, BOB = UserId("usr_alice"), UserId("usr_bob")
OTHER = ContainerId("other")
SOME_TURN = TurnId("turn_1")


async def erase(store: Store) -> None:
    """Completes all pending erasures, and those that they note."""
    while left := [erasure for erasure in await store.erasing.pending() if not erasure.emptied]:
        for erasure in left:
            while (await store.erasing.advance(erasure)).more:
                pass
    assert await store.erasing.clean(await store.erasing.pending(), anyio.lowlevel.checkpoint)
    assert await store.erasing.pending() == ()


async def fill(store: Store, *, tenant: TenantId = ACME, container: ContainerId = HOME, words: str = "secret") -> None:
    """A container with everything that a container can hold."""
    image_id = f"img-{container}"
    home = await settle(store, image(image_id, container), tenant=tenant, container=container)
    session_id = SessionId(f"{image_id}-default")
    uploaded, _ = await home.attachments.add(io.BytesIO(f"{words} file".encode()), Upload(media_type="text/plain"), now=2)
    entry = LedgerEntry(
        key=f"{container}-call", at=2, tenant_id=tenant, user_id=ALICE, container_id=container, image_id=ImageId(image_id),
        session_id=session_id, turn_id=SOME_TURN, driver="d", model="m", usage=Usage(input_tokens=3, output_tokens=4),
        cost=5, price=6,
    )  # fmt: skip
    said = [message(f"{container}-m{number}", f"{words} {number}") for number in range(3)]
    first = SessionWrite(
        tenant_id=tenant,
        container_id=container,
        session_id=session_id,
        now=2,
        messages=said,
        turns=[turn("turn_1", outcome="completed", ended=2)],
        chunk=LogChunk(first_seq=1, last_seq=2, made_at=2, body=words.encode()),
        ledger=[entry],
        programs=[ProgramCall(turn_id=SOME_TURN, program="c1", number=1, tool="t", digest="d", result=words)],
    )
    taken_back = SessionWrite(
        tenant_id=tenant,
        container_id=container,
        session_id=session_id,
        now=3,
        rewind=Rewinding(RewindId("r1"), [said[2].id], 3),
    )
    await store.webhooks(tenant).add(
        Webhook(
            webhook_id=WebhookId(f"whk-{tenant}-{container}"), url="https://hooks.example/", events=("turn.completed",),
            secret=b"sealed", created_by="t", created_at=1, updated_at=1,
        )
    )  # fmt: skip
    await store.tenant(tenant).schedules(None).add(schedule(f"sched-{tenant}-{container}", container, message=words))
    await store.tenant(tenant).triggers(None).add(trigger(f"trig-{tenant}-{container}", container, message=words))
    run = SourceRun(source_id=f"sched-{tenant}-{container}", client_key="k", due_at=1, at=1, state="started", reason=words)
    first = msgspec.structs.replace(first, runs=[run])
    notice = Notice(event_id=f"evt_{container}", type="turn.completed", at=2, container_id=container, data={"words": words})
    await store.commit([msgspec.structs.replace(first, notices=[notice])])
    await store.commit([taken_back])
    bodies = (f"{words} notes".encode(), f"{words} claimed".encode())
    digest, _ = await home.files(session_id).put_all(bodies, 4)
    written = FileDelta(changes=(FileChange(path=f"{words}.txt", digest=digest, size=len(bodies[0])),), at=4)
    await store.commit([msgspec.structs.replace(taken_back, rewind=None, files=[written])])
    await home.aliases.put(Alias("chat", f"{words} thread"), session_id, now=4)
    await home.set_title(session_id, f"{words} title", now=4)
    await store.tenant(tenant).drafts(ALICE, None).save(session_id, "", f"{words} draft", 4)
    await store.tenant(tenant).sessions(None).mark_read(session_id, SessionReader(ALICE), 4)
    await store.tenant(tenant).save_reader(f"{ALICE}:tab", {session_id: ReaderPlace(1, 4)})
    rated = Feedback(turn_id=SOME_TURN, session_id=session_id, author=ALICE, rating="up", note=words, at=4)
    assert await store.accounts(tenant).feedback.put(rated)
    await home.memories.put(Memory(memory_id=MemoryId("mem_1"), text=words, by="user", created_at=4, updated_at=4))
    await home.store_items.put(StoreItem(namespace=(words,), key=words, value={"text": words}, created_at=4, updated_at=4))
    share_id = ShareId(f"share_{tenant}_{container}_{session_id}")
    link = Share(share_id=share_id, session_id=session_id, container_id=container, created_by=words, created_at=4)
    assert await store.accounts(tenant).shares.add(link)
    assert uploaded.size


async def fill_collection(store: Store, tenant: TenantId, words: str = "secret") -> None:
    """A collection with a document, and an index that has read it."""
    await store.collections(tenant).create("books", 1)
    words = f"{words} of {tenant}"
    await store.collections(tenant).put("books", io.BytesIO(words.encode()), "a", words, "text/plain", 2)
    indexes = store.collection_indexes(tenant)
    index_key = await indexes.ensure("books", "1/800/100/")
    assert index_key is not None
    claimed = await indexes.claim(index_key, 3)
    assert claimed is not None
    passage = Passage(uri="", document="a", start=0, end=len(words), text=words)
    await indexes.finish(index_key, claimed.document_key, [IndexedChunk(passage, words.split())], None, 4)


async def check_a_deleted_container_is_gone_at_once(store: Store) -> None:
    await fill(store)
    tenant, home = store.tenant(ACME), store.tenant(ACME).container(HOME)
    session_id, image_id = SessionId(f"img-{HOME}-default"), ImageId(f"img-{HOME}")
    assert await store.erasing.delete_container(ACME, HOME, now=9) == ()
    assert await store.erasing.delete_container(ACME, HOME, now=9) is None
    assert (await home.get(), await tenant.list_containers()) == (None, ())
    assert (await tenant.find_image(image_id), await tenant.find_session(session_id)) == (None, None)
    assert (await home.list_images(), await home.get_session(session_id)) == ((), None)
    assert (await tenant.sessions(None).list(SessionQuery())).items == ()
    assert (await tenant.sessions(None).search(MessageSearch(text="secret", now=9))).items == ()
    assert await tenant.drafts(ALICE, None).list_all() == ()
    assert await store.accounts(ACME).quotas.count_containers() == 0


async def check_nothing_is_added_to_a_container_that_is_being_erased(store: Store) -> None:
    await fill(store)
    home, session_id = store.tenant(ACME).container(HOME), SessionId(f"img-{HOME}-default")
    await store.erasing.delete_container(ACME, HOME, now=9)
    assert await raises(ContainerErasing, home.create(now=10))
    assert await raises(ContainerNotFound, home.add_image(image("late"), default_session(image("late"))))
    assert await raises(ImageNotFound, home.add_session(session("late", f"img-{HOME}")))
    upload = Upload(media_type="text/plain")
    assert await raises(ContainerNotFound, home.attachments.add(io.BytesIO(b"late"), upload, now=10))
    late = Memory(memory_id=MemoryId("late"), text="late", by="user", created_at=10, updated_at=10)
    assert await raises(ContainerNotFound, home.memories.put(late))
    begins = SessionWrite(
        tenant_id=ACME, container_id=HOME, session_id=session_id, now=10, messages=[message("late")], turns=[turn("late")]
    )
    assert (await store.commit([begins])).gone == {session_id}
    assert await store.tenant(ACME).drafts(ALICE, None).save(session_id, "", "late", 10) is None


async def check_sessions_of_a_container_that_is_being_erased_go_with_it_and_not_before(store: Store) -> None:
    await fill(store)
    await store.erasing.delete_container(ACME, HOME, now=9)
    assert await store.purge_sessions(10**15) == ()


async def check_a_container_of_the_same_name_begins_with_nothing(store: Store) -> None:
    await fill(store)
    await fill(store, tenant=RIVAL)
    await store.erasing.delete_container(ACME, HOME, now=9)
    await erase(store)
    home = store.tenant(ACME).container(HOME)
    assert await home.create(now=10) is True
    assert await home.list_images() == ()
    assert (await home.attachments.list()).items == ()
    assert (await store.tenant(ACME).sessions(None).search(MessageSearch(text="secret", now=10))).items == ()
    assert await store.tenant(ACME).take_reader(f"{ALICE}:tab") == {}
    assert await store.accounts(ACME).quotas.storage_bytes() == 0
    # The neighbour of the same name has lost nothing.
    theirs = store.tenant(RIVAL)
    assert len((await theirs.sessions(None).search(MessageSearch(text="secret", now=10))).items) == 2
    assert len((await theirs.container(HOME).attachments.list()).items) == 1
    assert len(await theirs.take_reader(f"{ALICE}:tab")) == 1


async def check_the_ledger_stays_without_the_name_of_the_container(store: Store) -> None:
    await fill(store)
    await fill(store, container=OTHER)
    before = await store.accounts(ACME).ledger.wallet()
    await store.erasing.delete_container(ACME, HOME, now=9)
    await erase(store)
    assert await store.accounts(ACME).ledger.wallet() == before
    entries = [entry for _, entry in await store.accounts(ACME).ledger.list()]
    assert [entry.price for entry in entries] == [6, 6]
    assert HOME not in [entry.container_id for entry in entries]
    assert entries[1].container_id == OTHER
    assert await store.accounts(ACME).ledger.usage(by=("container",), containers=[HOME]) == ()


async def check_those_bound_to_a_deleted_container_lose_it_but_whose_first_it_is(store: Store) -> None:
    users = store.accounts(ACME).users
    for user_id, bound in ((ALICE, (HOME, OTHER)), (BOB, (OTHER, HOME))):
        await users.add(person(user_id))
        for container_id in bound:
            await users.bind(user_id, container_id)
    await settle(store, image())
    assert await store.erasing.delete_container(ACME, HOME, now=9) == (BOB,)
    assert (await users.bound(ALICE), await users.bound(BOB)) == ((HOME, OTHER), (OTHER,))


async def check_a_user_takes_what_is_theirs_alone(store: Store) -> None:
    await fill(store)
    await fill(store, container=OTHER)
    accounts = store.accounts(ACME)
    await accounts.users.add(person(ALICE), [ContainerId("own")])
    await accounts.users.add(person(BOB), [ContainerId("bobs")])
    for user_id, container_id in ((ALICE, HOME), (ALICE, OTHER), (BOB, OTHER)):
        await accounts.users.bind(user_id, container_id)
    await accounts.keys.add(key(ALICE), b"digest")
    schedules = store.tenant(ACME).schedules(None)
    await schedules.add(schedule("of-alice", OTHER, message="m", user_id=ALICE))
    ran = SourceRun(source_id="of-alice", client_key="k", due_at=1, at=1, state="skipped")
    await store.due_schedules.pass_over([(ACME, OTHER, ran)])
    assert await accounts.users.only_member_of(ALICE) == ("own", HOME)
    weighed = await store.erasing.weigh(ACME, user_id=ALICE)
    assert weighed is not None
    assert (weighed.containers, weighed.sessions, weighed.messages, weighed.attachments) == ((HOME,), 1, 3, 1)
    assert (weighed.users, weighed.keys) == (1, 1)
    assert await accounts.users.delete(ALICE, now=9) is True
    assert await accounts.keys.list(user_id=ALICE) == ()
    await erase(store)
    assert await store.tenant(ACME).list_containers() == (OTHER,)
    assert await store.tenant(ACME).take_reader(f"{ALICE}:tab") == {}
    assert await store.erasing.weigh(ACME, user_id=ALICE) is None
    assert (await schedules.get("of-alice"), await schedules.runs("of-alice")) == (None, ())
    # What was said where others are is theirs as well.
    assert len((await store.tenant(ACME).sessions(None).search(MessageSearch(text="secret", now=9))).items) == 2


async def check_a_home_is_given_once(store: Store) -> None:
    users = store.accounts(ACME).users
    homes = [ContainerId("user-ann"), ContainerId("user-ann~2")]
    await users.add(person(ALICE), homes)
    assert await users.bound(ALICE) == ("user-ann",)
    await users.delete(ALICE, now=2)
    await users.add(person(ALICE), homes)
    assert await users.bound(ALICE) == ("user-ann~2",)
    # Neither is one that somebody else is bound to, or that is there already.
    await settle(store, container="user-cid")
    await users.add(person(BOB), [ContainerId("user-ann~2"), ContainerId("user-cid"), ContainerId("user-cid~2")])
    assert await users.bound(BOB) == ("user-cid~2",)
    await store.accounts(RIVAL).users.add(person(ALICE), homes)
    assert await store.accounts(RIVAL).users.bound(ALICE) == ("user-ann",)


async def check_a_tenant_takes_everything(store: Store) -> None:
    for tenant_id in (ACME, RIVAL):
        await store.directory.add_tenant(Tenant(tenant_id=tenant_id, slug=tenant_id, name="n", created_at=1, updated_at=1))
        await fill(store, tenant=tenant_id)
        await store.accounts(tenant_id).users.add(person(ALICE))
        await store.accounts(tenant_id).secrets.put("s", b"sealed", now=1)
    weighed = await store.erasing.weigh(ACME)
    assert weighed is not None
    assert (weighed.containers, weighed.sessions, weighed.messages) == ((HOME,), 1, 3)
    assert (weighed.users, weighed.keys, weighed.secrets, weighed.attachments) == (1, 0, 1, 1)
    assert weighed.bytes > len("secret") * 3
    await store.directory.delete_tenant(ACME, now=9)
    assert await store.erasing.weigh(ACME) is None
    await erase(store)
    assert await store.tenant(ACME).list_containers() == ()
    assert await store.accounts(ACME).quotas.storage_bytes() == 0
    assert [entry.price for _, entry in await store.accounts(ACME).ledger.list()] == [6]
    rival = await store.erasing.weigh(RIVAL)
    assert rival is not None
    assert (rival.sessions, rival.messages, rival.users, rival.secrets) == (1, 3, 1, 1)


async def check_a_file_stays_while_another_container_has_it(store: Store) -> None:
    await fill(store)
    await fill(store, container=OTHER)
    await store.erasing.delete_container(ACME, HOME, now=9)
    await erase(store)
    kept = store.tenant(ACME).container(OTHER).attachments
    (left,) = (await kept.list()).items
    assert await kept.read(left.digest, 0) == b"secret file"


async def check_an_erasure_says_which_sessions_are_gone(store: Store) -> None:
    await settle(store, image())
    await store.erasing.delete_container(ACME, HOME, now=9)
    (erasure,) = await store.erasing.pending()
    assert (erasure.tenant_id, erasure.container_id, erasure.user_id, erasure.emptied) == (ACME, HOME, None, False)
    gone: list[SessionId] = []
    while (step := await store.erasing.advance(erasure)).more:
        gone += step.gone
    assert gone == [SESSION]
    assert [each.emptied for each in await store.erasing.pending()] == [True]
    late = SessionWrite(tenant_id=ACME, container_id=HOME, session_id=SESSION, now=9, messages=[message("late")])
    assert (await store.commit([late])).gone == {SESSION}
    assert await raises(SessionNotFound, store.tenant(ACME).container(HOME).log(SESSION).range())


async def check_what_a_journal_still_tells_of_is_not_forgotten(store: Store) -> None:
    await settle(store, image())
    carried = await store.commit([], entry=b"what was said")
    await store.erasing.delete_container(ACME, HOME, now=9)
    for erasure in await store.erasing.pending():
        while (await store.erasing.advance(erasure)).more:
            pass
    assert await store.erasing.clean(await store.erasing.pending(), anyio.lowlevel.checkpoint) is False
    await store.commit([], entry=b"of others", forget=carried.entry + 1)
    await erase(store)


def person(user_id: UserId) -> User:
    return User(user_id=user_id, tenant_id=ACME, external_id=f"{user_id}@x", role="member", created_at=1, updated_at=1)


def key(user_id: UserId) -> ApiKey:
    return ApiKey(key_id=KeyId("k1"), tenant_id=ACME, name="laptop", user_id=user_id, created_by="x", created_at=1)
