"""Resources conformance — what the store must do on every engine: publish, find, refer.

How resources are hidden, deleted and collected is in
`tests.conformance.resource_life`, how they are searched in `tests.conformance.resource_search`.
"""

from collections.abc import Mapping
from typing import Any

from agentvm.errors import PreconditionFailed
from agentvm.errors.resource import ResourceCycle, ResourceExists, ResourceNotFound, ResourceVersionExists
from agentvm.model.ids import TenantId
from agentvm.model.resource import (
    SYSTEM_TENANT,
    ResourceId,
    ResourceType,
    VersionId,
    canonical,
    digest_of,
    parse_type,
    version_digest,
)
from agentvm.storage.resources import Changes, Dependents, NewDependency, Publication, Published, Search, VersionHistory
from agentvm.storage.sql.resources import ResourceStore
from agentvm.storage.sql.store import Store
from tests.conformance.store import ACME, RIVAL, failure, raises

MISSING = VersionId("rver_missing")


def publication(name: str = "greeting", version: str = "1.0.0", text: str = "", **about: Any) -> Publication:
    """A small valid publication; its ids follow from the name, the version and `of`, the tenant they are for."""
    kind: ResourceType = parse_type(about.pop("type", "prompts"))
    of, schema = about.pop("of", ACME), about.get("schema")
    content = {"text": text or f"{name} {version}"}
    dependencies = {each.alias: each.uri for each in about.get("dependencies", ())}
    defaults = {"resource_id": resource_id(name, of), "version_id": version_id(name, version, of), "created_by": "u", "now": 1}
    return Publication(
        type=kind,
        name=name,
        version=version,
        digest=version_digest(kind, content, schema, dependencies),
        content=canonical(content),
        text=text,
        **{**defaults, **about},
    )


def resource_id(name: str = "greeting", of: TenantId = ACME) -> ResourceId:
    return ResourceId(f"res {of} {name}")


def version_id(name: str = "greeting", version: str = "1.0.0", of: TenantId = ACME) -> VersionId:
    return VersionId(f"rver {of} {name} {version}")


def on(target: VersionId | int, alias: str = "base", *, floating: bool = False) -> NewDependency:
    return NewDependency(alias=alias, uri=f"resource://prompts/{alias}", target=target, floating=floating)


async def put(store: Store, *publications: Publication, tenant: TenantId = ACME) -> tuple[Published, ...]:
    return await store.resources(tenant).publish(publications)


async def found(store: Store, tenant: TenantId = ACME, **search: Any) -> list[str]:
    """The names that a search finds, in order."""
    hits = await store.resources(tenant).search(Search(**search))
    assert hits.total == len(hits.items)
    return [hit.resource.name for hit in hits.items]


async def check_nothing_is_there_before_it_is_published(store: Store) -> None:
    ours = store.resources(ACME)
    assert await ours.find("prompts", "greeting") is None
    assert await ours.get(resource_id()) is None
    assert await ours.history(resource_id()) == VersionHistory()
    assert await ours.find_locked("prompts", "greeting", None, "sha256:0") is None
    assert await ours.closure(version_id(), limit=9) == {}
    assert await ours.change(resource_id(), Changes(description="d"), now=2) is None
    assert await ours.point(resource_id(), "stable", "1.0.0", now=2) is False
    assert await ours.yank(resource_id(), "1.0.0", 2, now=2) is None
    assert await ours.delete(resource_id(), force=True, now=2) is False
    assert await ours.dependents(resource_id()) == Dependents(resources=(), images=(), foreign=0)
    assert (await ours.count(), await ours.blob_size("sha256:0"), await ours.blob(version_id(), "x")) == (0, None, None)
    assert await found(store) == []
    assert await ours.publish([]) == ()


async def check_a_resource_comes_back_as_it_was_published(store: Store) -> None:
    ours, body = store.resources(ACME), b"\x00\xff binary"
    about: Mapping[str, Any] = {"description": "d", "tags": ("b", "a", "b"), "deprecated": "use other", "pointer": "stable"}
    full = publication(schema={"type": "object"}, blobs={digest_of(body): body}, now=7, dependencies=[on(1)], **about)
    base = publication("base", now=7)
    published, below = await ours.publish([full, base])
    resource, version = published.resource, published.version
    assert (published.created, below.created) == (True, True)
    assert (resource.resource_id, resource.tenant_id, resource.owner) == (full.resource_id, ACME, ACME)
    assert (resource.type, resource.name, resource.visibility, resource.latest) == ("prompts", "greeting", "private", "1.0.0")
    assert (resource.description, resource.tags, resource.deprecated) == ("d", ("b", "a", "b"), "use other")
    assert (resource.created_at, resource.updated_at, resource.deleted_at) == (7, 7, None)
    assert (version.version_id, version.resource_id, version.version) == (full.version_id, full.resource_id, "1.0.0")
    assert (version.digest, version.size) == (full.digest, len(full.content) + len(body))
    assert (version.schema, version.dependencies) == ({"type": "object"}, {"base": "resource://prompts/base"})
    assert (version.created_by, version.created_at, version.yanked_at) == ("u", 7, None)
    assert await ours.get(full.resource_id) == await ours.find("prompts", "greeting") == resource
    assert await ours.history(full.resource_id) == VersionHistory(versions=(version,), tags={"stable": "1.0.0"})
    assert await ours.blob(full.version_id, digest_of(body)) == body
    nodes = await ours.closure(full.version_id, limit=9)
    assert list(nodes) == [full.version_id, base.version_id]
    root = nodes[full.version_id]
    assert (root.resource, root.version, root.content) == (resource, version, full.content)
    (link,) = root.links
    assert (link.alias, link.uri, link.target, link.floating) == ("base", "resource://prompts/base", base.version_id, False)
    assert nodes[base.version_id].content == base.content
    assert await ours.count() == 2


async def check_a_name_is_looked_for_at_home_then_at_the_server(store: Store) -> None:
    await put(store, publication("tool", of=SYSTEM_TENANT), publication("both", of=SYSTEM_TENANT), tenant=SYSTEM_TENANT)
    await put(store, publication("both"), publication("mine"))
    await put(store, publication("shown", of=RIVAL, visibility="public"), publication("kept", of=RIVAL), tenant=RIVAL)
    ours = store.resources(ACME)
    for name, owner, expected in (
        ("mine", None, ACME),
        ("mine", "acme", ACME),
        ("both", None, ACME),
        ("both", "system", SYSTEM_TENANT),
        ("tool", None, SYSTEM_TENANT),
        ("tool", "acme", None),
        ("shown", None, None),
        ("shown", "rival", RIVAL),
        ("kept", "rival", None),
        ("mine", "nobody", None),
    ):
        seen = await ours.find("prompts", name, owner)
        assert (None if seen is None else seen.tenant_id) == expected, (name, owner)
    assert await ours.find("tools", "mine") is None
    assert await ours.get(resource_id("kept", RIVAL)) is None
    assert await ours.history(resource_id("kept", RIVAL)) == VersionHistory()
    assert await ours.closure(version_id("kept", of=RIVAL), limit=9) == {}
    assert len((await ours.history(resource_id("shown", RIVAL))).versions) == 1


async def check_the_latest_is_the_highest_and_no_prerelease(store: Store) -> None:
    ours = store.resources(ACME)
    for version, latest in (
        ("2.0.0-rc.2", "2.0.0-rc.2"),
        ("2.0.0-rc.10", "2.0.0-rc.10"),
        ("1.9.0", "1.9.0"),
        ("1.10.0", "1.10.0"),
        ("1.2.0", "1.10.0"),
        ("3.0.0-alpha", "1.10.0"),
    ):
        (published,) = await put(store, publication(version=version))
        assert published.resource.latest == latest
    ranked = ["1.2.0", "1.9.0", "1.10.0", "2.0.0-rc.2", "2.0.0-rc.10", "3.0.0-alpha"]
    assert [each.version for each in (await ours.history(resource_id())).versions] == ranked
    for version in ranked:
        assert [each.version for each in (await ours.history(resource_id(), f"{version}+any")).versions] == [version]
    assert (await ours.history(resource_id(), "99.0.0")).versions == ()


async def check_a_version_is_published_once(store: Store) -> None:
    ours = store.resources(ACME)
    (first,) = await put(store, publication(version="1.0.0+a", text="t"))
    same = publication(version="1.0.0+b", text="t", now=9, description="new", pointer="stable", visibility="public")
    (again,) = await put(store, same)
    assert (again.resource, again.version, again.created) == (first.resource, first.version, False)
    assert (await ours.history(resource_id())).tags == {}
    for version in ("1.0.0", "1.0.0+a"):
        assert await raises(ResourceVersionExists, put(store, publication(version=version, text="other")))
    assert [each.version for each in (await ours.history(resource_id())).versions] == ["1.0.0+a"]


async def check_a_publisher_can_say_what_it_has_seen(store: Store) -> None:
    (first,) = await put(store, publication(is_new=True))
    assert await raises(ResourceExists, put(store, publication(version="2.0.0", is_new=True)))
    assert await raises(ResourceExists, put(store, publication(text="other", is_new=True)))
    # The very same again is no contradiction: who lost an answer asks twice.
    assert [each.created for each in await put(store, publication(is_new=True))] == [False]
    await put(store, publication(version="2.0.0", expected=first.version.digest))
    assert await raises(PreconditionFailed, put(store, publication(version="3.0.0", expected=first.version.digest)))
    assert await raises(PreconditionFailed, put(store, publication("absent", expected=first.version.digest)))
    assert await store.resources(ACME).count() == 1
    # Other tenants and other types have names of their own.
    await put(store, publication(of=RIVAL, is_new=True), tenant=RIVAL)
    await put(store, publication(type="tools", resource_id="res tool", version_id="rver tool", is_new=True))


async def check_a_batch_is_published_together_or_not_at_all(store: Store) -> None:
    ours, body = store.resources(ACME), b"part"
    await put(store, publication("there"))
    bad = publication("there", text="other")
    good = publication("good", text="words", blobs={digest_of(body): body}, dependencies=[on(version_id("there"))])
    assert await raises(ResourceVersionExists, ours.publish([good, bad]))
    assert await ours.get(good.resource_id) is None
    assert (await ours.count(), await found(store, text="words"), await ours.blob_size(digest_of(body))) == (1, [], None)
    assert (await ours.dependents(resource_id("there"))).resources == ()
    assert await ours.delete(resource_id("there"), force=False, now=2) is True


async def check_a_batch_may_refer_to_itself_but_not_in_a_ring(store: Store) -> None:
    ours = store.resources(ACME)
    top, below = publication("top", dependencies=[on(1)]), publication("below")
    await ours.publish([top, below])
    # The same batch again finds all of it there.
    assert [each.created for each in await ours.publish([top, below])] == [False, False]
    newer = publication("newest", dependencies=[on(0)])
    await ours.publish([below, newer])
    assert list(await ours.closure(newer.version_id, limit=9)) == [newer.version_id, below.version_id]
    ring = [publication("x", dependencies=[on(1)]), publication("y", dependencies=[on(0)])]
    assert await raises(ResourceCycle, ours.publish(ring))
    assert await raises(ResourceCycle, ours.publish([publication("self", dependencies=[on(0)])]))
    assert await ours.count() == 3


async def check_what_is_referred_to_must_be_there_and_in_view(store: Store) -> None:
    await put(store, publication("kept", of=RIVAL), publication("shown", of=RIVAL, visibility="public"), tenant=RIVAL)
    for target in (MISSING, version_id("kept", of=RIVAL)):
        for floating in (False, True):
            assert await raises(ResourceNotFound, put(store, publication(dependencies=[on(target, floating=floating)])))
    assert await store.resources(ACME).count() == 0
    await put(store, publication(dependencies=[on(version_id("shown", of=RIVAL))]))


async def check_floating_references_never_lead_back(store: Store) -> None:
    ours = store.resources(ACME)
    await put(store, publication("c"))
    await put(store, publication("b", dependencies=[on(version_id("c"), floating=True)]))
    await put(store, publication("a", dependencies=[on(version_id("b"), floating=True)]))
    back = [on(version_id("a"), floating=True)]
    error = await failure(ResourceCycle, put(store, publication("c", "1.1.0", dependencies=back)))
    assert error.details == {"path": [f"resource://prompts/{name}" for name in "cabc"]}
    myself = publication("c", "1.1.0", dependencies=[on(version_id("c"), floating=True)])
    assert await raises(ResourceCycle, ours.publish([myself]))
    # What is locked for ever leads nowhere else tomorrow; and a latest version that no longer refers breaks the chain.
    await put(store, publication("c", "1.1.0", dependencies=[on(version_id("a")), on(version_id("c"), "old")]))
    assert len(await ours.closure(version_id("c", "1.1.0"), limit=9)) == 4
    await put(store, publication("b", "2.0.0"))
    await put(store, publication("c", "1.2.0", dependencies=back))


async def check_a_withdrawn_version_is_only_kept_for_who_names_it(store: Store) -> None:
    ours = store.resources(ACME)
    await put(store, publication(version="1.0.0", text="apple"), publication(version="2.0.0", text="banana"))
    gone = await ours.yank(resource_id(), "2.0.0+any", 5, now=6)
    assert gone is not None
    assert (gone.version, gone.yanked_at) == ("2.0.0", 5)
    seen = await ours.get(resource_id())
    assert seen is not None
    assert (seen.latest, seen.updated_at) == ("1.0.0", 6)
    assert [each.yanked_at for each in (await ours.history(resource_id())).versions] == [None, 5]
    assert (await found(store, text="apple"), await found(store, text="banana")) == (["greeting"], [])
    assert len(await ours.closure(version_id(version="2.0.0"), limit=9)) == 1
    twice = await ours.yank(resource_id(), "2.0.0", 9, now=9)
    assert twice is not None
    assert twice.yanked_at == 5
    await ours.yank(resource_id(), "1.0.0", 9, now=9)
    seen = await ours.get(resource_id())
    assert seen is not None
    assert seen.latest is None
    back = await ours.yank(resource_id(), "2.0.0", None, now=10)
    assert back is not None
    assert back.yanked_at is None
    assert (await found(store, text="banana"), await found(store, text="apple")) == (["greeting"], [])
    assert await ours.yank(resource_id(), "9.0.0", 9, now=9) is None


async def check_a_tag_points_where_its_owner_says(store: Store) -> None:
    ours = store.resources(ACME)
    await put(store, publication(pointer="stable"), publication(version="2.0.0", pointer="beta"))
    assert await ours.point(resource_id(), "stable", "2.0.0", now=5) is True
    assert await ours.point(resource_id(), "beta", "1.0.0", now=5) is True
    assert await ours.point(resource_id(), "gone", None, now=5) is False
    assert await ours.point(resource_id(), "stable", "7.0.0", now=5) is False
    assert (await ours.history(resource_id())).tags == {"stable": "2.0.0", "beta": "1.0.0"}
    assert await ours.point(resource_id(), "beta", None, now=5) is True
    assert (await ours.history(resource_id())).tags == {"stable": "2.0.0"}


async def check_what_is_said_about_a_resource_can_be_changed(store: Store) -> None:
    ours = store.resources(ACME)
    await put(store, publication(description="red", tags=("warm",), deprecated="old"))
    same = await ours.change(resource_id(), Changes(), now=2)
    assert same is not None
    assert (same.description, same.tags, same.deprecated, same.updated_at, same.created_at) == ("red", ("warm",), "old", 2, 1)
    changed = await ours.change(resource_id(), Changes(description="blue", tags=("cold",), deprecated=""), now=3)
    assert changed is not None
    assert (changed.description, changed.tags, changed.deprecated) == ("blue", ("cold",), None)
    assert changed == await ours.get(resource_id())
    assert [await found(store, text=word) for word in ("red", "warm", "blue", "cold")] == [[], [], ["greeting"], ["greeting"]]
    assert (await found(store, tag="warm"), await found(store, tag="cold")) == ([], ["greeting"])
    await put(store, publication(version="1.1.0", description="", now=4))
    kept = await ours.get(resource_id())
    assert kept is not None
    assert (kept.description, kept.tags, kept.updated_at) == (None, ("cold",), 4)


async def check_it_is_known_who_depends_on_a_resource(store: Store) -> None:
    ours = store.resources(ACME)
    await put(store, publication("base", visibility="public"), publication("base", "1.1.0", dependencies=[on(0)]))
    await put(store, publication("one", dependencies=[on(version_id("base")), on(version_id("base", "1.1.0"), "too")]))
    await put(store, publication("one", "2.0.0", dependencies=[on(version_id("base"))]))
    await put(store, publication("theirs", of=RIVAL, dependencies=[on(version_id("base"))]), tenant=RIVAL)
    mine, theirs = await ours.dependents(resource_id("base")), await store.resources(RIVAL).dependents(resource_id("base"))
    assert [(each.name, version) for each, version in mine.resources] == [("one", "1.0.0"), ("one", "2.0.0")]
    assert (mine.images, mine.foreign) == ((), 1)
    assert [(each.name, version) for each, version in theirs.resources] == [("theirs", "1.0.0")]
    assert theirs.foreign == 2
    assert (await store.resources(RIVAL).dependents(resource_id("one"))).foreign == 0
    hits = await ours.search(Search(text="base"))
    assert [hit.uses for hit in hits.items] == [3]


async def check_a_closure_has_every_version_once_and_a_bound(store: Store) -> None:
    ours = store.resources(ACME)
    await put(store, publication("leaf"), publication("leaf", "2.0.0"))
    left = publication("left", dependencies=[on(version_id("leaf"), "x"), on(version_id("leaf", "2.0.0"), "y")])
    await put(store, left, publication("right", dependencies=[on(version_id("leaf"))]))
    await put(store, publication("top", dependencies=[on(version_id("left"), "l"), on(version_id("right"), "r")]))
    nodes = await ours.closure(version_id("top"), limit=9)
    assert len(nodes) == 5
    assert next(iter(nodes)) == version_id("top")
    assert {link.alias: link.target for link in nodes[version_id("left")].links} == {
        "x": version_id("leaf"),
        "y": version_id("leaf", "2.0.0"),
    }
    assert [len(await ours.closure(version_id("top"), limit=limit)) for limit in (1, 3, 5)] == [1, 3, 5]


async def check_a_digest_alone_opens_nothing(store: Store) -> None:
    ours, theirs, body = store.resources(ACME), store.resources(RIVAL), b"secret"
    digest = digest_of(body)
    await put(store, publication(blobs={digest: body}))
    assert (await ours.blob_size(digest), await theirs.blob_size(digest)) == (len(body), None)
    assert await raises(ResourceNotFound, put(store, publication(of=RIVAL, kept_blobs=frozenset({digest})), tenant=RIVAL))
    assert await theirs.blob(version_id(), digest) is None
    assert await ours.blob(version_id(), digest_of(publication().content)) is None
    (kept,) = await put(store, publication(version="1.1.0", kept_blobs=frozenset({digest})))
    assert kept.version.size == len(publication(version="1.1.0").content) + len(body)
    assert await ours.blob(version_id(version="1.1.0"), digest) == body
    # Who has the bytes has them without asking whether somebody else does.
    await put(store, publication(of=RIVAL, blobs={digest: body}), tenant=RIVAL)
    assert await theirs.blob(version_id(of=RIVAL), digest) == body


async def check_only_its_owner_changes_a_resource(store: Store) -> None:
    await put(store, publication(visibility="public"))
    before = await store.resources(ACME).get(resource_id())
    theirs: ResourceStore = store.resources(RIVAL)
    assert await theirs.get(resource_id()) == before
    assert await theirs.change(resource_id(), Changes(description="stolen"), now=2) is None
    assert await theirs.point(resource_id(), "stable", "1.0.0", now=2) is False
    assert await theirs.yank(resource_id(), "1.0.0", 2, now=2) is None
    assert await theirs.delete(resource_id(), force=True, now=2) is False
    (own,) = await put(store, publication(version="9.0.0", of=RIVAL), tenant=RIVAL)
    assert own.resource.tenant_id == RIVAL
    assert await store.resources(ACME).get(resource_id()) == before
