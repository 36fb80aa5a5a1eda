"""Resource life conformance — who sees a resource, what holds it, and when it goes."""

from functools import partial

from msgspec import structs

from agentvm.errors import Conflict, NotFound
from agentvm.errors.resource import ResourceInUse, ResourceNotFound, ResourceVisibilityConflict
from agentvm.model.definition import Definition, snapshot_of
from agentvm.model.ids import TenantId
from agentvm.model.image import Image, ImageConfig
from agentvm.model.resource import SYSTEM_TENANT, Locked, VersionId, digest_of
from agentvm.storage.resources import Changes, VersionHistory
from agentvm.storage.sql.store import Store
from tests.conformance.accounts import tenant
from tests.conformance.erasing import erase
from tests.conformance.records import HOME, IMAGE, default_session, image
from tests.conformance.resources import MISSING, found, on, publication, put, resource_id, version_id
from tests.conformance.store import ACME, RIVAL, failure, raises, settle

MONTH_MS = 30 * 24 * 3600 * 1000
PUBLIC, PRIVATE = Changes(visibility="public"), Changes(visibility="private")


def locked(*versions: VersionId, image_id: str = IMAGE) -> Image:
    """An image that is locked to the versions."""
    lock = (Locked(uri=f"resource://prompts/{each}", version="1.0.0", digest="sha256:0", version_id=each) for each in versions)
    return structs.replace(image(image_id), lock=tuple(lock))


async def check_what_is_public_depends_on_nothing_private(store: Store) -> None:
    ours = store.resources(ACME)
    await put(store, publication("leaf"), publication("middle", dependencies=[on(0)]))
    top = publication("top", dependencies=[on(version_id("middle"))], visibility="public")
    error = await failure(ResourceVisibilityConflict, ours.publish([top]))
    assert error.details == {"private": ["resource://prompts/leaf@1.0.0", "resource://prompts/middle@1.0.0"]}
    assert await ours.get(top.resource_id) is None
    assert await raises(ResourceVisibilityConflict, ours.change(resource_id("middle"), PUBLIC, now=2))
    for name in ("leaf", "middle"):
        assert await ours.change(resource_id(name), PUBLIC, now=2) is not None
    await ours.publish([top])
    # In one batch the order does not matter; what ships with the server is always public.
    await put(store, publication("built-in", of=SYSTEM_TENANT, visibility="private"), tenant=SYSTEM_TENANT)
    below = publication("y", visibility="public", dependencies=[on(version_id("built-in", of=SYSTEM_TENANT))])
    await ours.publish([publication("x", visibility="public", dependencies=[on(1)]), below])
    assert len(await store.resources(RIVAL).closure(version_id("x"), limit=9)) == 3
    more = publication("top", "1.1.0", dependencies=[on(1)])
    assert await raises(ResourceVisibilityConflict, ours.publish([more, publication("new")]))


async def check_a_withdrawn_version_shows_nobody_what_is_private(store: Store) -> None:
    ours, theirs = store.resources(ACME), store.resources(RIVAL)
    await put(store, publication("secret"), publication(version="1.0.0", dependencies=[on(0)]), publication(version="2.0.0"))
    assert await raises(ResourceVisibilityConflict, ours.change(resource_id(), PUBLIC, now=2))
    await ours.yank(resource_id(), "1.0.0", 2, now=2)
    assert await ours.change(resource_id(), PUBLIC, now=3) is not None
    assert [each.version for each in (await theirs.history(resource_id())).versions] == ["2.0.0"]
    assert await theirs.closure(version_id(), limit=9) == {}
    assert len((await ours.history(resource_id())).versions) == 2
    assert await raises(ResourceVisibilityConflict, ours.yank(resource_id(), "1.0.0", None, now=4))
    await ours.change(resource_id("secret"), PUBLIC, now=5)
    await ours.yank(resource_id(), "1.0.0", None, now=6)
    assert len(await theirs.closure(version_id(), limit=9)) == 2


async def check_what_is_hidden_stays_for_those_who_are_locked_to_it(store: Store) -> None:
    ours, theirs = store.resources(ACME), store.resources(RIVAL)
    third = store.resources(TenantId("third"))
    body = b"part"
    (base,) = await put(store, publication("base", visibility="public", blobs={digest_of(body): body}))
    digest = base.version.digest
    await put(store, publication("mine", of=RIVAL, dependencies=[on(version_id("base"))]), tenant=RIVAL)
    assert await ours.change(resource_id("base"), PRIVATE, now=2) is not None
    for gone in (theirs, third):
        assert await gone.get(resource_id("base")) is None
        assert await gone.find("prompts", "base", "acme") is None
        assert await gone.history(resource_id("base")) == VersionHistory()
        assert await found(store, RIVAL, text="base") == []
    assert len(await theirs.closure(version_id("mine", of=RIVAL), limit=9)) == 2
    assert len(await theirs.closure(version_id("base"), limit=9)) == 1
    assert await theirs.find_locked("prompts", "base", "acme", digest) == version_id("base")
    assert (await theirs.blob_size(digest_of(body)), await theirs.blob(version_id("base"), digest_of(body))) == (
        len(body),
        body,
    )
    assert await third.closure(version_id("base"), limit=9) == {}
    assert await third.find_locked("prompts", "base", "acme", digest) is None
    assert (await third.blob_size(digest_of(body)), await third.blob(version_id("base"), digest_of(body))) == (None, None)
    anew = publication("mine", "2.0.0", of=RIVAL, dependencies=[on(version_id("base"))])
    assert await raises(ResourceNotFound, theirs.publish([anew]))


async def check_what_nobody_needs_is_deleted_at_once(store: Store) -> None:
    ours = store.resources(ACME)
    body = b"part"
    await put(store, publication(text="word", tags=("t",), pointer="stable", blobs={digest_of(body): body}))
    await put(store, publication(version="1.1.0", dependencies=[on(version_id())]))
    assert await ours.delete(resource_id(), force=False, now=2) is True
    assert await ours.delete(resource_id(), force=False, now=2) is False
    assert (await ours.get(resource_id()), await ours.count(), await found(store, text="word")) == (None, 0, [])
    assert (await found(store, tag="t"), await ours.blob_size(digest_of(body))) == ([], None)
    (again,) = await put(store, publication(text="other", is_new=True, now=3))
    assert again.resource.tags == ()
    assert await ours.history(resource_id()) == VersionHistory(versions=(again.version,))


async def check_what_is_in_use_is_not_deleted(store: Store) -> None:
    ours = store.resources(ACME)
    await put(store, publication("base", visibility="public"))
    await put(store, publication("user", dependencies=[on(version_id("base"))]))
    await put(store, publication("theirs", of=RIVAL, dependencies=[on(version_id("base"))]), tenant=RIVAL)
    home = await settle(store, locked(version_id("base")))
    foreign = await settle(store, locked(version_id("base"), image_id="not yours"), tenant=RIVAL)
    error = await failure(ResourceInUse, ours.delete(resource_id("base"), force=False, now=2))
    assert error.details == {"referrers": ["resource://prompts/user@1.0.0", IMAGE], "foreign": 2}
    assert "not yours" not in str(error)
    assert "theirs" not in str(error)
    assert await ours.get(resource_id("base")) is not None
    await home.delete_image(IMAGE)
    await ours.delete(resource_id("user"), force=False, now=2)
    await foreign.delete_image(locked(image_id="not yours").image_id)
    assert await raises(ResourceInUse, ours.delete(resource_id("base"), force=False, now=2))
    await store.resources(RIVAL).delete(resource_id("theirs", RIVAL), force=False, now=2)
    assert await ours.delete(resource_id("base"), force=False, now=2) is True


async def check_what_is_deleted_by_force_stays_for_those_who_are_locked_to_it(store: Store) -> None:
    ours, theirs = store.resources(ACME), store.resources(RIVAL)
    (base, *_) = await put(store, publication("base", visibility="public", tags=("t",)), publication("base", "2.0.0"))
    await settle(store, locked(version_id("base")), tenant=RIVAL)
    assert await ours.delete(resource_id("base"), force=True, now=5) is True
    for gone in (ours, theirs):
        assert await gone.get(resource_id("base")) is None
        assert await gone.find("prompts", "base", "acme") is None
        assert await gone.history(resource_id("base")) == VersionHistory()
    assert (await ours.count(), await found(store), await found(store, RIVAL, tag="t")) == (0, [], [])
    assert await ours.closure(version_id("base"), limit=9) == {}
    (node,) = (await theirs.closure(version_id("base"), limit=9)).values()
    assert (node.resource.deleted_at, node.content) == (5, publication("base").content)
    assert await theirs.find_locked("prompts", "base", "acme", base.version.digest) == version_id("base")
    assert await theirs.closure(version_id("base", "2.0.0"), limit=9) == {}
    refers = publication("new", of=RIVAL, dependencies=[on(version_id("base"))])
    assert await raises(ResourceNotFound, theirs.publish([refers]))
    assert await ours.change(resource_id("base"), PUBLIC, now=6) is None
    assert await ours.delete(resource_id("base"), force=True, now=6) is False


async def check_the_name_of_what_was_deleted_by_force_is_reserved(store: Store) -> None:
    await put(store, publication("base", visibility="public"))
    await settle(store, locked(version_id("base")), tenant=RIVAL)
    await store.resources(ACME).delete(resource_id("base"), force=True, now=5)
    fresh = publication("base", text="other", resource_id="res new", version_id="rver new", now=5 + MONTH_MS - 1)
    assert await raises(Conflict, put(store, fresh))
    await put(store, publication("base", of=RIVAL), tenant=RIVAL)
    (again,) = await put(
        store, publication("base", text="other", resource_id="res new", version_id="rver new", now=5 + MONTH_MS)
    )
    assert again.created
    # Both are there: the new one for everybody, the old one for who is locked to it.
    nodes = await store.resources(RIVAL).closure(version_id("base"), limit=9)
    assert [node.content for node in nodes.values()] == [publication("base").content]
    old = publication("base").digest
    assert await store.resources(RIVAL).find_locked("prompts", "base", "acme", old) == version_id("base")


async def check_what_nothing_refers_to_is_collected_in_two_steps(store: Store) -> None:
    body, other = b"part", b"other"
    await put(store, publication("leaf", visibility="public", blobs={digest_of(body): body}))
    top = publication("top", visibility="public", dependencies=[on(version_id("leaf"))], blobs={digest_of(other): other})
    await put(store, top)
    home = await settle(store, locked(version_id("top"), version_id("leaf")), tenant=RIVAL)
    for name in ("top", "leaf"):
        await store.resources(ACME).delete(resource_id(name), force=True, now=10)
    for now in (10, 1000, 2000):
        assert await store.collect(now, grace=0) == 0
    assert len(await store.resources(RIVAL).closure(version_id("top"), limit=9)) == 2
    await home.delete_image(IMAGE)
    # First the version on top with its two parts, then what only it referred to.
    assert [await store.collect(now, grace=50) for now in (3000, 3049)] == [0, 0]
    dropped = 0
    for now in range(3050, 3650, 50):
        dropped += await store.collect(now, grace=50)
    assert dropped == 6
    assert await store.resources(RIVAL).closure(version_id("leaf"), limit=9) == {}
    # Nothing is left, and after a month the names are free.
    await store.collect(10 + MONTH_MS, grace=0)
    await put(store, publication("leaf", now=10 + MONTH_MS), publication("top", now=10 + MONTH_MS))


async def check_what_is_referred_to_again_is_not_collected(store: Store) -> None:
    ours, body = store.resources(ACME), b"part"
    digest = digest_of(body)
    await put(store, publication("old", text="same", blobs={digest: body}))
    await ours.delete(resource_id("old"), force=False, now=2)
    assert await store.collect(10, grace=5) == 0
    await put(store, publication("new", text="same", blobs={digest: body}))
    assert [await store.collect(now, grace=5) for now in (20, 30, 40)] == [0, 0, 0]
    assert await ours.blob(version_id("new"), digest) == body
    assert len(await ours.closure(version_id("new"), limit=9)) == 1
    await ours.delete(resource_id("new"), force=False, now=2)
    assert [await store.collect(now, grace=5) for now in (50, 54, 55, 60)] == [0, 0, 2, 0]


async def check_an_image_holds_what_it_is_locked_to(store: Store) -> None:
    ours = store.resources(ACME)
    await put(store, publication("a"), publication("b"), publication("kept", of=ACME))
    await put(store, publication("secret", of=RIVAL), tenant=RIVAL)
    source = Definition(name="helper", system_prompt="resource://prompts/a")
    built = structs.replace(locked(version_id("a"), version_id("a"), version_id("b")), source=source)
    home = await settle(store, built)
    assert await home.get_image(IMAGE) == built
    assert await home.list_images() == (built,)
    assert (await ours.dependents(resource_id("a"))).images == (IMAGE,)
    for wrong in (MISSING, version_id("secret", of=RIVAL)):
        bad = locked(wrong, image_id="bad")
        assert await raises(ResourceNotFound, home.add_image(bad, default_session(bad)))
        assert await raises(ResourceNotFound, home.rebuild_image(locked(wrong)))
    assert await home.list_images() == (built,)
    assert await raises(ResourceInUse, ours.delete(resource_id("b"), force=False, now=2))
    await ours.delete(resource_id("a"), force=True, now=2)
    # It may keep what it has, though nobody could be locked to it anew.
    assert await home.rebuild_image(locked(version_id("a"))) is True
    assert await ours.delete(resource_id("b"), force=False, now=2) is True
    late = locked(version_id("a"), image_id="late")
    await home.add_image(late, default_session(late))


async def check_an_image_is_rebuilt_in_place(store: Store) -> None:
    other = Definition(name="other", system_prompt="new")
    home = await settle(store, image(), image("img_2"))
    rebuilt = structs.replace(
        image(),
        definition=other,
        definition_name="other",
        digest=snapshot_of(other)[0],
        config=ImageConfig(model="echo/x"),
        source=Definition(name="src"),
        updated_at=9,
    )
    assert await home.rebuild_image(structs.replace(rebuilt, name="ignored", created_at=99)) is True
    assert await home.get_image(IMAGE) == rebuilt
    assert await home.get_image(image("img_2").image_id) == image("img_2")
    assert await home.rebuild_image(image("gone")) is False
    assert await store.tenant(RIVAL).container(HOME).rebuild_image(rebuilt) is False
    assert await home.rebuild_image(image()) is True
    assert await home.get_image(IMAGE) == image()


async def check_resources_go_with_their_tenant(store: Store) -> None:
    await store.directory.add_tenant(tenant(ACME, "shop"))
    await store.directory.add_tenant(tenant(RIVAL))
    for name, visibility in (("shown", "public"), ("hidden", "public"), ("kept", "private")):
        await put(store, publication(name, visibility=visibility))
    await put(store, publication("user", dependencies=[on(version_id("hidden"))]))
    await settle(store, locked(version_id("kept"), version_id("user"), version_id("hidden")))
    await settle(store, locked(version_id("hidden")), tenant=RIVAL)
    mine = publication("mine", of=RIVAL, dependencies=[on(version_id("shown"))])
    await put(store, mine, tenant=RIVAL)
    await store.resources(ACME).change(resource_id("hidden"), PRIVATE, now=2)
    weighed = await store.erasing.weigh(ACME)
    assert weighed is not None
    assert (weighed.resources, weighed.kept_resources) == (4, 2)
    assert await store.directory.delete_tenant(ACME, now=5) is True
    await erase(store)
    assert (await store.resources(ACME).count(), await found(store)) == (0, [])
    theirs = store.resources(RIVAL)
    assert await found(store, RIVAL, scope="public") == []
    for name in ("shown", "kept", "user"):
        assert await store.resources(ACME).closure(version_id(name), limit=9) == {}
    # What others are locked to stays for them.
    for name in ("hidden", "shown"):
        assert len(await theirs.closure(version_id(name), limit=9)) == 1
    assert await theirs.find_locked("prompts", "hidden", "shop", publication("hidden").digest) == version_id("hidden")
    assert await raises(NotFound, put(store, publication("late")))


async def check_the_servers_own_name_is_no_tenants(store: Store) -> None:
    assert await raises(Conflict, store.directory.add_tenant(tenant(TenantId("t"), "system")))
    assert await raises(Conflict, store.directory.add_tenant(tenant(SYSTEM_TENANT, "other")))
    await store.directory.add_tenant(tenant(ACME, "shop"))
    assert await raises(Conflict, store.directory.change_tenant(ACME, partial(structs.replace, slug="system")))


async def check_an_owner_is_named_by_its_slug(store: Store) -> None:
    (before,) = await put(store, publication(visibility="public"))
    assert before.resource.owner == "acme"
    await store.directory.add_tenant(tenant(ACME, "shop"))
    seen = await store.resources(RIVAL).find("prompts", "greeting", "shop")
    assert seen is not None
    assert (seen.owner, seen.tenant_id) == ("shop", ACME)
    assert await store.resources(RIVAL).find("prompts", "greeting", "acme") is None
    assert (await found(store, RIVAL, owner="shop"), await found(store, RIVAL, owner="acme")) == (["greeting"], [])


async def check_resources_count_as_storage(store: Store) -> None:
    quotas, theirs = store.accounts(ACME).quotas, store.accounts(RIVAL).quotas
    body = b"x" * 1000
    await put(store, publication("one", blobs={digest_of(body): body}))
    one = len(publication("one").content) + 1000
    assert (await quotas.storage_bytes(), await theirs.storage_bytes()) == (one, 0)
    # What versions share is stored once.
    await put(store, publication("two", kept_blobs=frozenset({digest_of(body)})))
    assert await quotas.storage_bytes() == one + len(publication("two").content)
    for name in ("one", "two"):
        await store.resources(ACME).delete(resource_id(name), force=name == "two", now=2)
    assert await quotas.storage_bytes() == 0
