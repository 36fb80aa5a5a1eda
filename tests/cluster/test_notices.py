"""What is changed on one node holds on all: at once with NATS, after the next beat without."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from functools import partial

import anyio
import pytest
from msgspec.structs import replace
from tests.cluster.conftest import OpenNode, both_hear
from tests.cluster.talking import Talker
from tests.faults.process import until
from tests.provision.nats import Nats

from agentvm.cluster import notices
from agentvm.cluster.membership import Membership
from agentvm.errors import SessionQuarantined, StoreFailed
from agentvm.model.account import Tenant, User
from agentvm.model.ids import ContainerId, SessionId, TenantId, UserId
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.model.secret import Secret
from agentvm.model.setting import ChangeRequest
from agentvm.model.webhook import Webhook, WebhookId
from agentvm.resources.registry import Author, NewVersion, VersionChange
from agentvm.runtime.channel import Channel
from agentvm.storage.sql.notices import ClusterNotice
from agentvm.tenants.own_keys import secret_name
from agentvm.vm import OPEN_ACCESS, AgentVM

ACME, ALICE = TenantId("acme"), UserId("alice")
OPERATOR = Principal(tenant_id=OPEN_ACCESS.tenant_id, permissions=EVERYTHING)
REQUEST = ChangeRequest(actor="root")

Nodes = tuple[AgentVM, AgentVM]


@pytest.fixture(params=["bus", "beats"])
async def pair(request: pytest.FixtureRequest, open_node: OpenNode, nats: Nats) -> AsyncIterator[Nodes]:
    """Two nodes with a tenant and a user, on the bus or without."""
    url = nats.url if request.param == "bus" else None
    async with open_node("a", url) as a, open_node("b", url) as b:
        if url is not None:
            await both_hear(a, b)
        await a.store.directory.add_tenant(Tenant(tenant_id=ACME, slug="acme", name="Acme", created_at=1, updated_at=1))
        await a.store.accounts(ACME).users.add(
            User(user_id=ALICE, tenant_id=ACME, external_id="alice", role="member", created_at=1, updated_at=1),
            (ContainerId("user-alice"),),
        )
        yield a, b


async def known(vm: AgentVM, done: Callable[[], bool], *, beats: bool = False) -> None:
    """Returns when the node knows it. Without a bus, or with `beats`, that is after a beat, which tests do not wait for."""
    membership = vm.membership
    assert membership is not None

    def look() -> bool:
        if beats or vm.hearing is None:
            membership.note_beat()
        return done()

    with anyio.fail_after(60):
        await until(look)


async def closed(vm: AgentVM, channel: Channel) -> int:
    """The code with which the node closes the channel."""
    await known(vm, lambda: channel.closing is not None)
    assert channel.closing is not None
    return channel.closing.code


async def test_a_revoked_key_closes_its_connections_on_another_node_and_no_others(pair: Nodes) -> None:
    a, b = pair
    (key, _), (other, _) = [await a.tenancy.access.issue(ACME, name=name, granter=OPERATOR) for name in ("one", "two")]
    revoked, kept = [b.attach(Principal(tenant_id=ACME, key_id=each.key_id)).channel for each in (key, other)]
    await a.tenancy.access.revoke(ACME, key.key_id)
    assert await closed(b, revoked) == 4401
    assert kept.closing is None


async def test_a_notice_that_could_not_be_followed_is_followed_later(pair: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = pair
    (key, _), (other, _) = [await a.tenancy.access.issue(ACME, name=name, granter=OPERATOR) for name in ("one", "two")]
    channels = [b.attach(Principal(tenant_id=ACME, key_id=each.key_id)).channel for each in (key, other)]
    failed: set[notices.NoticeBoard] = set()
    follow = notices.NoticeBoard._follow_key

    async def fail_once(board: notices.NoticeBoard, notice: ClusterNotice) -> None:
        if board not in failed:
            failed.add(board)
            raise StoreFailed("the database does not answer")
        await follow(board, notice)

    monkeypatch.setattr(notices.NoticeBoard, "_follow_key", fail_once)
    for each in (key, other):
        await a.tenancy.access.revoke(ACME, each.key_id)
    await known(b, lambda: all(channel.closing is not None for channel in channels), beats=True)
    assert len(failed) >= 1


async def test_a_suspended_user_and_a_suspended_tenant_are_cut_off_on_another_node(pair: Nodes) -> None:
    a, b = pair
    alice, colleague = [b.attach(Principal(tenant_id=ACME, user_id=user)).channel for user in (ALICE, UserId("bob"))]
    user = await a.store.accounts(ACME).users.get(ALICE)
    assert user is not None
    await a.tenancy.people.change_user(user.tenant_id, user.user_id, partial(replace, status="suspended"))
    assert await closed(b, alice) == 4403
    assert colleague.closing is None
    tenant = await a.store.directory.get_tenant(ACME)
    assert tenant is not None
    await a.tenancy.people.change_tenant(tenant.tenant_id, partial(replace, status="suspended"))
    assert await closed(b, colleague) == 4403


async def test_who_connects_after_the_change_stays(pair: Nodes) -> None:
    a, b = pair
    before = b.attach(Principal(tenant_id=ACME, user_id=ALICE)).channel
    before.opened_at -= 1_000
    user = await a.store.accounts(ACME).users.get(ALICE)
    assert user is not None
    await a.store.accounts(ACME).users.change(user.user_id, partial(replace, role="viewer"))
    after = b.attach(Principal(tenant_id=ACME, user_id=ALICE)).channel
    after.opened_at += 1_000
    a.tenancy.access.end(ACME, lambda _: False)
    assert await closed(b, before) == 4401
    assert after.closing is None


async def test_settings_that_are_changed_on_one_node_hold_on_the_other(pair: Nodes) -> None:
    a, b = pair
    await a.settings.change(None, {"limits.repeats": 7}, REQUEST)
    await a.settings.change(ACME, {"limits.repeats": 5}, REQUEST)
    a.tenancy.access.end(ACME, lambda _: False)
    await known(b, lambda: b.settings.settings_of(ACME).limits.repeats == 5 and b.settings.config.limits.repeats == 7)
    assert (b.settings.revision(None), b.settings.revision(ACME)) == (1, 1)
    # Each goes on from what the other has stored.
    await b.settings.change(None, {"limits.repeats": 8}, REQUEST)
    assert b.settings.revision(None) == 2


async def test_a_node_that_cannot_follow_settings_says_so_and_takes_no_new_work(
    open_node: OpenNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "FOLLOW_SECONDS", 0.0)
    async with open_node("a") as a, open_node("b") as b:

        async def fail(tenant_id: TenantId | None) -> None:
            raise StoreFailed("the secret cannot be opened")

        with monkeypatch.context() as broken:
            broken.setattr(b.settings, "catch_up", fail)
            await a.settings.change(None, {"limits.repeats": 7}, REQUEST)
            await known(b, lambda: b.hindrance is not None)
            assert "the secret cannot be opened" in str(b.hindrance)
        await known(b, lambda: b.hindrance is None)
        assert b.settings.config.limits.repeats == 7


async def test_the_first_webhook_of_a_tenant_and_a_session_that_is_set_aside_are_known_on_the_other_node(pair: Nodes) -> None:
    a, b = pair
    hook = Webhook(
        webhook_id=WebhookId("wh_1"),
        url="https://hooks.example",
        events=("turn.completed",),
        secret=b"s",
        created_by="root",
        created_at=1,
        updated_at=1,
    )
    await a.store.webhooks(ACME).add(hook)
    await known(b, lambda: ACME in b.store.hooked, beats=True)
    talker = Talker(a)
    _, session_id = await talker.create()
    place = (talker.peer.tenant_id, ContainerId("home"), SessionId(session_id))
    await a.runtime.quarantine.put(*place, "it crashed")
    await known(b, lambda: len(b.runtime.quarantine) == 1, beats=True)
    with pytest.raises(SessionQuarantined, match="it crashed"):
        b.runtime.quarantine.check(place[0], place[2])
    await a.runtime.quarantine.release(*place)
    await known(b, lambda: len(b.runtime.quarantine) == 0, beats=True)


async def test_a_revoked_key_closes_its_connections_on_three_nodes_without_a_beat(
    open_node: OpenNode, nats: Nats, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(open_node(name, nats.url)) for name in "abc"]
        await both_hear(*nodes)
        # Nothing is read at a beat any more: `bench.cluster` measures how soon the bus tells it.
        monkeypatch.setattr(Membership, "note_beat", lambda self: None)
        key, _ = await nodes[0].tenancy.access.issue(OPERATOR.tenant_id, name="one", granter=OPERATOR)
        who = Principal(tenant_id=OPERATOR.tenant_id, key_id=key.key_id)
        channels = [node.attach(who).channel for node in nodes for _ in range(3)]
        await nodes[0].tenancy.access.revoke(OPERATOR.tenant_id, key.key_id)
        with anyio.fail_after(60):
            await until(lambda: all(channel.closing is not None for channel in channels))


async def test_a_provider_key_that_is_removed_and_a_resource_that_is_published_are_known_soon(
    nodes: tuple[AgentVM, AgentVM],
) -> None:
    a, b = nodes
    author, uri = Author(tenant_id=OPEN_ACCESS.tenant_id, actor="root", may_publish=True), "resource://prompts/hello"
    tenant_id, key = author.tenant_id, secret_name("openai")
    await a.tenancy.vault.put(tenant_id, key, Secret("sk-1"))
    draft = NewVersion(type="prompts", name="hello", content={"text": "one"})
    made = await a.resources.registry.register(author, draft)
    assert await b.tenancy.own_keys.has(tenant_id, "openai/some")
    assert "one" in str(await b.resources.resolver.resolve(tenant_id, uri))
    await a.resources.registry.revise(author, made.resource.resource_id, VersionChange(content={"text": "two"}))
    await a.tenancy.vault.remove(tenant_id, key)
    # Far less than what a server alone remembers them for.
    with anyio.fail_after(4):
        while "two" not in str(await b.resources.resolver.resolve(tenant_id, uri)):  # noqa: ASYNC110  # nothing tells
            await anyio.sleep(0.05)
    with anyio.fail_after(10):
        while await b.tenancy.own_keys.has(tenant_id, "openai/some"):  # noqa: ASYNC110  # as above
            await anyio.sleep(0.05)
