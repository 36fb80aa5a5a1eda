"""Draft conformance — what the store must do with drafts on every engine: one text per author, session and device."""

from agentvm.model.account import User
from agentvm.model.ids import ContainerId, SessionId, TenantId, UserId
from agentvm.storage.sql.sessions.drafts import DEVICES_MAX, DraftStore
from agentvm.storage.sql.store import Store
from tests.conformance.records import HOME, SESSION, image, session
from tests.conformance.store import ACME, ODD, RIVAL, settle

NONE = SessionId("none")


def of(store: Store, author: str = "ann", *containers: str, tenant: TenantId = ACME) -> DraftStore:
    return store.tenant(tenant).drafts(author, [ContainerId(name) for name in containers] or None)


async def texts(drafts: DraftStore, session_id: str = SESSION) -> list[tuple[str | None, str]]:
    return [(one.device, one.text) for one in await drafts.list(SessionId(session_id)) or ()]


async def check_each_device_has_a_draft_of_its_own(store: Store) -> None:
    await settle(store, image())
    drafts = of(store)
    assert await texts(drafts) == []
    for at, (device, text) in enumerate((("", "shared"), ("phone", "a"), ("laptop", "b"), ("phone", "c")), start=1):
        done = await drafts.save(SESSION, device, text, at)
        assert done is not None
        assert done.draft is not None
        assert (done.saved, done.draft.text, done.draft.updated_at) == (True, text, at)
    assert await texts(drafts) == [("phone", "c"), ("laptop", "b"), (None, "shared")]
    removed = await drafts.save(SESSION, "phone", "", 9)
    assert removed is not None
    assert (removed.saved, removed.changed, removed.draft) == (True, True, None)
    again = await drafts.save(SESSION, "phone", "", 10)
    assert again is not None
    assert (again.saved, again.changed) == (True, False)
    assert await texts(drafts) == [("laptop", "b"), (None, "shared")]


async def check_a_draft_is_saved_only_if_it_is_as_it_was_seen(store: Store) -> None:
    await settle(store, image())
    drafts = of(store)
    first = await drafts.save(SESSION, "", "one", 5, if_updated_at=0)
    again = await drafts.save(SESSION, "", "two", 5, if_updated_at=5)
    late = await drafts.save(SESSION, "", "three", 7, if_updated_at=5)
    assert first is not None
    assert again is not None
    assert late is not None
    assert (first.saved, again.saved, late.saved) == (True, True, False)
    assert late.draft is not None
    assert (late.draft.text, late.draft.updated_at) == ("two", 6), "two changes at once can be told apart"
    gone = await drafts.save(SESSION, "", "", 8, if_updated_at=5)
    assert gone is not None
    assert gone.draft is not None
    other = await drafts.save(SESSION, "phone", "x", 8, if_updated_at=5)
    assert other is not None
    assert (other.saved, other.draft) == (False, None)


async def check_drafts_are_their_authors_alone(store: Store) -> None:
    for tenant in (ACME, RIVAL):
        await settle(store, image(), tenant=tenant)
    await of(store).save(SESSION, "phone", "secret", 1)
    for other in (of(store, "bob"), of(store, ""), of(store, tenant=RIVAL)):
        assert await texts(other) == []
        assert await other.list_all() == ()
        await other.save(SESSION, "phone", "mine", 2)
        await other.save(SESSION, "phone", "", 3)
    elsewhere = of(store, "ann", "other")
    assert await elsewhere.list(SESSION) is None
    assert await elsewhere.save(SESSION, "phone", "x", 4) is None
    assert await elsewhere.list_all() == ()
    assert await texts(of(store, "ann", HOME)) == [("phone", "secret")]


async def check_drafts_are_listed_over_all_sessions(store: Store) -> None:
    home = await settle(store, image())
    await settle(store, image("img_2", "away"), container="away")
    await home.add_session(session("a"))
    for at, name in enumerate(("a", SESSION, "img_2-default"), start=1):
        await of(store).save(SessionId(name), "", f"of {name}", at)
    assert [one.session_id for one in await of(store).list_all()] == ["img_2-default", SESSION, "a"]
    assert [one.session_id for one in await of(store).list_all(limit=1)] == ["img_2-default"]
    assert [one.session_id for one in await of(store, "ann", HOME).list_all()] == [SESSION, "a"]
    assert [one.container_id for one in await of(store, "ann", "away").list_all()] == ["away"]


async def check_drafts_go_with_their_session_and_their_author(store: Store) -> None:
    home = await settle(store, image())
    await home.add_session(session("a"))
    for name in ("ann", "bob"):
        user = User(user_id=UserId(name), tenant_id=ACME, external_id=name, role="member", created_at=1, updated_at=1)
        await store.accounts(ACME).users.add(user)
        for session_id in (SESSION, SessionId("a")):
            await of(store, name).save(session_id, "", "x", 1)
    await store.tenant(ACME).sessions(None).delete(SessionId("a"), 5)
    assert await of(store).list(SessionId("a")) is None
    assert [one.session_id for one in await of(store).list_all()] == [SESSION]
    await store.accounts(ACME).users.delete(UserId("ann"), 6)
    assert await of(store).list_all() == ()
    assert len(await of(store, "bob").list_all()) == 1


async def check_whatever_is_written_comes_back(store: Store) -> None:
    await settle(store, image())
    for at, text in enumerate(ODD, start=1):
        await of(store).save(SESSION, "", text, at)
        assert await texts(of(store)) == [(None, text)]
    assert await of(store).save(NONE, "", "x", 1) is None
    for number in range(DEVICES_MAX + 5):
        await of(store).save(SESSION, f"d{number}", "x", 100 + number)
    kept = [device for device, _ in await texts(of(store))]
    assert (len(kept), kept[0], kept[-1]) == (DEVICES_MAX, f"d{DEVICES_MAX + 4}", "d5")
