"""Resources against a model of dictionaries: whatever is done in whatever order, both tell the same."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import hypothesis.strategies as st
from anyio.from_thread import start_blocking_portal
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.conformance.resources import on, publication
from tests.support.examples import examples

from agentvm.errors import Conflict
from agentvm.errors.resource import ResourceInUse, ResourceVersionExists
from agentvm.model.ids import TenantId
from agentvm.model.resource import ResourceId
from agentvm.model.semver import parse_version
from agentvm.storage.engine import open_store
from agentvm.storage.resources import Search
from agentvm.storage.sql.resources import ResourceStore
from agentvm.storage.sql.store import Store

T = TypeVar("T")

TENANTS = st.sampled_from(("t", "u"))
NAMES = st.sampled_from(("a", "b", "c"))
VERSIONS = st.sampled_from(("1.0.0", "1.0.0+x", "1.1.0", "2.0.0-rc", "2.0.0"))
TEXTS = st.sampled_from(("apple", "banana"))


@dataclass
class ExistingPart:
    """What the model holds of one resource."""

    resource_id: ResourceId
    versions: dict[str, str] = field(default_factory=dict)
    """Texts by rank."""
    written: dict[str, str] = field(default_factory=dict)
    yanked: set[str] = field(default_factory=set)
    tags: dict[str, str] = field(default_factory=dict)
    needs: set[str] = field(default_factory=set)
    """Names of the same tenant that some version is locked to."""

    @property
    def latest(self) -> str | None:
        living = [rank for rank in self.versions if rank not in self.yanked]
        released = [rank for rank in living if "-" not in rank]
        return max(released or living, key=parse_version, default=None)


class ResourceMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.portal_context = start_blocking_portal()
        self.portal = self.portal_context.__enter__()
        self.store_context = self.portal.wrap_async_context_manager(open_store(None))
        self.store: Store = self.store_context.__enter__()
        self.known: dict[tuple[str, str], ExistingPart] = {}
        self.reserved: set[tuple[str, str]] = set()
        self.number = 0

    def teardown(self) -> None:
        self.store_context.__exit__(None, None, None)
        self.portal_context.__exit__(None, None, None)

    def run(self, call: Callable[[], Awaitable[T]]) -> T:
        return self.portal.call(call)

    def of(self, tenant: str) -> ResourceStore:
        return self.store.resources(TenantId(tenant))

    def id_of(self, place: tuple[str, str]) -> ResourceId:
        return self.known[place].resource_id if place in self.known else ResourceId("none")

    @rule(tenant=TENANTS, name=NAMES, version=VERSIONS, text=TEXTS, needs=st.none() | NAMES)
    def publish(self, tenant: str, name: str, version: str, text: str, needs: str | None) -> None:
        place, rank = (tenant, name), version.partition("+")[0]
        self.number += 1
        target = self.known.get((tenant, needs)) if needs is not None and needs != name else None
        dependencies = []
        if target is not None and needs is not None:
            found = self.run(partial(self.of(tenant).history, target.resource_id))
            dependencies = [on(found.versions[-1].version_id, needs)]
        ids = {"resource_id": f"res{self.number}", "version_id": f"rver{self.number}"}
        wanted = publication(name, version, text, dependencies=dependencies, **ids)
        content = f"{text} {sorted(each.alias for each in dependencies)}"
        try:
            (published,) = self.run(lambda: self.of(tenant).publish([wanted]))
        except ResourceVersionExists:
            assert self.known[place].versions[rank] != content
            return
        except Conflict:
            assert place in self.reserved
            return
        known = self.known.setdefault(place, ExistingPart(published.resource.resource_id))
        assert published.created is (rank not in known.versions)
        if published.created:
            known.versions[rank], known.written[rank] = content, version
            known.needs |= {each.alias for each in dependencies}
        assert known.versions[rank] == content

    @rule(tenant=TENANTS, name=NAMES, version=VERSIONS, away=st.booleans())
    def yank(self, tenant: str, name: str, version: str, away: bool) -> None:
        place, rank = (tenant, name), version.partition("+")[0]
        found = self.run(lambda: self.of(tenant).yank(self.id_of(place), version, 5 if away else None, 5))
        there = place in self.known and rank in self.known[place].versions
        assert (found is not None) is there
        if there:
            (self.known[place].yanked.add if away else self.known[place].yanked.discard)(rank)

    @rule(tenant=TENANTS, name=NAMES, tag=st.sampled_from(("stable", "beta")), version=st.none() | VERSIONS)
    def point(self, tenant: str, name: str, tag: str, version: str | None) -> None:
        place = (tenant, name)
        done = self.run(lambda: self.of(tenant).point(self.id_of(place), tag, version, 5))
        known = self.known.get(place)
        if version is None:
            assert done is (known is not None and known.tags.pop(tag, None) is not None)
        else:
            rank = version.partition("+")[0]
            assert done is (known is not None and rank in known.versions)
            if done and known is not None:
                known.tags[tag] = known.written[rank]

    @rule(tenant=TENANTS, name=NAMES, force=st.booleans())
    def delete(self, tenant: str, name: str, force: bool) -> None:
        place = (tenant, name)
        users = {other for (of, other), known in self.known.items() if of == tenant and name in known.needs}
        try:
            done = self.run(lambda: self.of(tenant).delete(self.id_of(place), force=force, now=5))
        except ResourceInUse:
            # One that was deleted by force may still hold it, for somebody who holds that one.
            assert (users or self.reserved) and not force  # noqa: PT018
            return
        assert done is (place in self.known)
        if done:
            assert force or not users
            del self.known[place]
            if force:
                self.reserved.add(place)

    @rule()
    def collect(self) -> None:
        self.run(lambda: self.store.collect(100, grace=0))

    @invariant()
    def both_tell_the_same(self) -> None:
        for tenant in ("t", "u"):
            ours = self.of(tenant)
            own = {name: known for (of, name), known in self.known.items() if of == tenant}
            assert self.run(ours.count) == len(own)
            hits = self.run(partial(ours.search, Search()))
            assert [hit.resource.name for hit in hits.items] == sorted(own)
            for text in ("apple", "banana"):
                wanted = {name for name, known in own.items() if known.versions.get(known.latest or "", "").startswith(text)}
                found = self.run(partial(ours.search, Search(text=text)))
                assert {hit.resource.name for hit in found.items} == wanted
            for known in own.values():
                history = self.run(partial(ours.history, known.resource_id))
                ranks = sorted(known.versions, key=parse_version)
                assert [each.version for each in history.versions] == [known.written[rank] for rank in ranks]
                assert {str(parse_version(each.version)) for each in history.versions if each.yanked_at} == known.yanked
                assert history.tags == known.tags
                resource = self.run(partial(ours.get, known.resource_id))
                assert resource is not None
                assert resource.latest == (None if known.latest is None else known.written[known.latest])
                for each in history.versions:
                    nodes = self.run(partial(ours.closure, each.version_id, limit=99))
                    assert {link.target for node in nodes.values() for link in node.links} <= nodes.keys()


TestResourcesAgainstTheirModel = ResourceMachine.TestCase
TestResourcesAgainstTheirModel.settings = settings(
    max_examples=examples(10, 200), stateful_step_count=30, deadline=None, database=None
)
