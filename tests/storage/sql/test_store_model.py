"""The store against a model of dictionaries: whatever is done in whatever order, both tell the same."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import hypothesis.strategies as st
from anyio.from_thread import start_blocking_portal
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.conformance.records import default_session, image, message, session
from tests.conformance.store import settle
from tests.support.examples import examples

from agentvm.errors import ImageNotFound, SessionNotFound, StoreFailed
from agentvm.model.ids import ContainerId, ImageId, SessionId, TenantId
from agentvm.storage.engine import open_store
from agentvm.storage.sql.container import ContainerStore
from agentvm.storage.sql.store import Store

T = TypeVar("T")
Scope = tuple[str, str]

TENANTS, CONTAINERS = ("t", "u"), ("a", "a:b")
SCOPES = st.tuples(st.sampled_from(TENANTS), st.sampled_from(CONTAINERS))
IMAGES = st.sampled_from(("i1", "i2", "i3"))
SESSIONS = st.sampled_from(("i1-default", "i2-default", "i3-default", "s1", "s2"))
MESSAGES = st.lists(st.sampled_from(("m1", "m2", "m3", "m4")), max_size=3)


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.portal_context = start_blocking_portal()
        self.portal = self.portal_context.__enter__()
        self.store_context = self.portal.wrap_async_context_manager(open_store(None))
        self.store: Store = self.store_context.__enter__()
        # (tenant, image) -> container; (tenant, session) -> (image, message ids)
        self.images: dict[tuple[str, str], str] = {}
        self.sessions: dict[tuple[str, str], tuple[str, list[str]]] = {}
        for tenant in TENANTS:
            for container in CONTAINERS:
                self.run(partial(settle, self.store, tenant=TenantId(tenant), container=container))

    def teardown(self) -> None:
        self.store_context.__exit__(None, None, None)
        self.portal_context.__exit__(None, None, None)

    def run(self, call: Callable[[], Awaitable[T]]) -> T:
        return self.portal.call(call)

    def at(self, scope: Scope) -> ContainerStore:
        return self.store.tenant(TenantId(scope[0])).container(ContainerId(scope[1]))

    def holds(self, scope: Scope, image_id: str) -> bool:
        return self.images.get((scope[0], image_id)) == scope[1]

    @rule(scope=SCOPES, image_id=IMAGES)
    def add_image(self, scope: Scope, image_id: str) -> None:
        built = image(image_id, scope[1])
        try:
            self.run(lambda: self.at(scope).add_image(built, default_session(built)))
        except StoreFailed:
            assert (scope[0], image_id) in self.images or (scope[0], built.session_id) in self.sessions
        else:
            assert (scope[0], image_id) not in self.images
            assert (scope[0], built.session_id) not in self.sessions
            self.images[scope[0], image_id] = scope[1]
            self.sessions[scope[0], built.session_id] = (image_id, [])

    @rule(scope=SCOPES, image_id=IMAGES)
    def delete_image(self, scope: Scope, image_id: str) -> None:
        there = self.holds(scope, image_id)
        assert self.run(lambda: self.at(scope).delete_image(ImageId(image_id))) is there
        if there:
            del self.images[scope[0], image_id]
            self.sessions = {key: of for key, of in self.sessions.items() if (key[0], of[0]) != (scope[0], image_id)}

    @rule(scope=SCOPES, image_id=IMAGES, session_id=SESSIONS)
    def add_session(self, scope: Scope, image_id: str, session_id: str) -> None:
        try:
            self.run(lambda: self.at(scope).add_session(session(session_id, image_id, scope[1])))
        except ImageNotFound:
            assert not self.holds(scope, image_id)
        except StoreFailed:
            assert (scope[0], session_id) in self.sessions
        else:
            assert self.holds(scope, image_id)
            self.sessions[scope[0], session_id] = (image_id, [])

    @rule(scope=SCOPES, session_id=SESSIONS, ids=MESSAGES)
    def record(self, scope: Scope, session_id: str, ids: list[str]) -> None:
        try:
            messages = [message(each) for each in ids]
            self.run(lambda: self.at(scope).log(SessionId(session_id)).record(messages=messages, now=2))
        except SessionNotFound:
            of_image = self.sessions.get((scope[0], session_id), ("none", []))[0]
            assert not self.holds(scope, of_image)
        else:
            history = self.sessions[scope[0], session_id][1]
            history.extend(each for each in dict.fromkeys(ids) if each not in history)

    @invariant()
    def both_tell_the_same(self) -> None:
        for tenant in TENANTS:
            for container in CONTAINERS:
                home = self.at((tenant, container))
                images = {each.image_id for each in self.run(home.list_images)}
                assert images == {i for (t, i), c in self.images.items() if (t, c) == (tenant, container)}
                for image_id in images:
                    listed = {each.session_id for each in self.run(partial(home.list_sessions, image_id))}
                    assert listed == {s for (t, s), (i, _) in self.sessions.items() if (t, i) == (tenant, image_id)}
                for (owner, session_id), (of_image, ids) in self.sessions.items():
                    stored = self.run(partial(home.list_messages, SessionId(session_id)))
                    if owner == tenant and self.images[tenant, of_image] == container:
                        assert [each.id for each in stored] == ids


TestStoreAgainstItsModel = StoreMachine.TestCase
TestStoreAgainstItsModel.settings = settings(
    max_examples=examples(10, 200), stateful_step_count=30, deadline=None, database=None
)
