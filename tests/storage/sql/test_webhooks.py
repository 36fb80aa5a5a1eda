from functools import partial

import anyio
import msgspec
import pytest
from tests.conformance.records import HOME, image, session, turn
from tests.conformance.store import ACME, RIVAL, settle

from agentvm.model.ids import SessionId, TenantId
from agentvm.model.webhook import DueDelivery, Notice, Webhook, WebhookEvent, WebhookId
from agentvm.storage.base import SessionWrite
from agentvm.storage.sql.store import Store


def hook(name: str, *events: WebhookEvent) -> Webhook:
    return Webhook(
        webhook_id=WebhookId(name),
        url="https://a.example/",
        events=events,
        secret=b"sealed",
        created_by="t",
        created_at=1,
        updated_at=1,
    )


def ended(name: str, kind: str = "turn.completed", tenant: TenantId = ACME) -> SessionWrite:
    notice = Notice(event_id=f"evt_{name}", type=kind, at=5, container_id=HOME, data={"turnId": name})
    done = turn(name, outcome="completed", ended=5)
    return SessionWrite(tenant_id=tenant, container_id=HOME, session_id=SessionId("s1"), now=5, turns=[done], notices=[notice])


async def due(store: Store, now: int = 9) -> list[DueDelivery]:
    return list(await store.due_deliveries.list_due(now, full=(), flying=(), limit=9, failing_limit=9))


@pytest.fixture
async def filled(store: Store) -> Store:
    for tenant, name in ((ACME, "img"), (RIVAL, "img-rival")):
        home = await settle(store, image(name), tenant=tenant)
        await home.add_session(session("s1", name))
    return store


async def test_the_end_of_a_turn_is_a_delivery_to_each_webhook_that_wants_it(filled: Store) -> None:
    webhooks = filled.webhooks(ACME)
    await webhooks.add(hook("a", "turn.completed", "turn.failed"))
    await webhooks.add(hook("b", "turn.failed"))
    await webhooks.add(msgspec.structs.replace(hook("c", "turn.completed"), disabled_at=2))
    await filled.webhooks(RIVAL).add(hook("d", "turn.completed"))
    await filled.commit([ended("t1")])
    # The same end, once more.
    await filled.commit([ended("t1")])
    (only,) = await due(filled)
    assert (only.tenant_id, only.webhook.webhook_id, only.delivery.event_id) == (ACME, "a", "evt_t1")
    body = msgspec.json.decode(only.body)
    assert body == {
        "id": "evt_t1", "type": "turn.completed", "timestamp": "1970-01-01T00:00:00.005Z", "data": {"turnId": "t1"},
    }  # fmt: skip


async def test_a_tenant_without_webhooks_has_no_deliveries_and_a_deleted_one_hinders_no_turn(filled: Store) -> None:
    await filled.commit([ended("t1")])
    assert ACME not in filled.hooked
    webhooks = filled.webhooks(ACME)
    await webhooks.add(hook("a", "turn.completed"))
    await filled.commit([ended("t2")])
    assert await webhooks.remove(WebhookId("a"))
    assert not await webhooks.remove(WebhookId("a"))
    assert not (await filled.commit([ended("t3")])).gone
    assert await due(filled) == []


async def test_a_created_session_is_told_in_the_same_commit(filled: Store) -> None:
    await filled.webhooks(ACME).add(hook("a", "session.created"))
    home = filled.tenant(ACME).container(HOME)
    await home.add_session(session("s2", "img"))
    await home.add_session(session("s3", "img"), [])
    assert [item.delivery.event_id for item in await due(filled)] == ["evt_s2", "evt_s3"]


async def test_a_warning_alone_is_told_and_one_of_a_session_that_is_gone_is_not(filled: Store) -> None:
    await filled.webhooks(ACME).add(hook("a", "quota.warning"))
    write = msgspec.structs.replace(ended("q1", "quota.warning"), turns=[])
    gone = msgspec.structs.replace(write, session_id=SessionId("nobody"), notices=ended("q2", "quota.warning").notices)
    committed = await filled.commit([write, gone])
    assert committed.gone == {"nobody"}
    assert [item.delivery.event_id for item in await due(filled)] == ["evt_q1"]


async def test_no_delivery_is_listed_that_is_on_its_way_or_whose_webhook_is_busy(filled: Store) -> None:
    for name in ("a", "b"):
        await filled.webhooks(ACME).add(hook(name, "turn.completed"))
    for number in range(3):
        await filled.commit([ended(f"t{number}")])
    listed = await due(filled)
    assert len(listed) == 6
    first = listed[0]
    rest = await filled.due_deliveries.list_due(9, full=(), flying=[first.delivery.number], limit=2, failing_limit=1)
    assert first.delivery.number not in {item.delivery.number for item in rest}
    assert [item.webhook.webhook_id for item in rest] == ["a", "a", "b", "b"]
    free = await filled.due_deliveries.list_due(9, full=[first.webhook_key], flying=(), limit=2, failing_limit=1)
    assert {item.webhook.webhook_id for item in free} == {"b"}
    assert await due(filled, now=4) == []


async def test_changes_at_the_same_time_do_not_undo_each_other(filled: Store) -> None:
    webhooks = filled.webhooks(ACME)
    await webhooks.add(hook("a", "turn.completed"))
    async with anyio.create_task_group() as tasks:
        for change in ({"secret": b"new"}, {"description": "mine"}, {"url": "https://b.example/"}):
            tasks.start_soon(webhooks.change, WebhookId("a"), partial(msgspec.structs.replace, **change))
    changed = await webhooks.get(WebhookId("a"))
    assert changed is not None
    assert (changed.secret, changed.description, changed.url) == (b"new", "mine", "https://b.example/")
    assert await filled.webhooks(RIVAL).change(WebhookId("a"), lambda webhook: webhook) is None
