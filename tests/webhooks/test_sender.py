"""Attempts, retries, and receivers that misbehave."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from tests.conformance.records import SESSION, image, session
from tests.conformance.store import ACME, settle
from tests.server.http.fixtures import NOON, Clock
from tests.support.web import Asked, Replied, Reply, Web, web
from tests.webhooks.fixtures import Receiver

from agentvm.errors import InvalidInput
from agentvm.model.ids import ContainerId
from agentvm.model.public_address import AddressRules
from agentvm.model.webhook import Attempted, Delivery, DueDelivery, Notice, Webhook, WebhookId
from agentvm.storage.base import SessionWrite
from agentvm.storage.engine import open_store
from agentvm.storage.sql.store import Store
from agentvm.tenants.vault import Vault
from agentvm.tools.safe_http import SafeHttp
from agentvm.webhooks import sender as sending
from agentvm.webhooks.sender import RETRY_MAX_MS, RETRY_SECONDS, WebhookSender

HOUR_MS = 3_600_000


class World:
    """A store, a sender, and a clock that the test sets."""

    def __init__(self, store: Store, clock: Clock, sender: WebhookSender) -> None:
        self.store, self.clock, self.sender = store, clock, sender
        self.webhooks = store.webhooks(ACME)

    async def hook(self, url: str, webhook_id: str = "whk_1") -> Webhook:
        _, sealed = self.sender.new_secret(ACME, WebhookId(webhook_id))
        webhook = Webhook(
            webhook_id=WebhookId(webhook_id),
            url=url,
            events=("turn.completed",),
            secret=sealed,
            created_by="t",
            created_at=NOON,
            updated_at=NOON,
        )
        await self.webhooks.add(webhook)
        return webhook

    async def end_turn(self, name: str) -> None:
        notice = Notice(event_id=f"evt_{name}", type="turn.completed", at=self.clock(), data={"turnId": name})
        write = SessionWrite(
            tenant_id=ACME, container_id=ContainerId("home"), session_id=SESSION, now=self.clock(), notices=[notice]
        )
        assert not (await self.store.commit([write])).gone

    async def due(self) -> tuple[DueDelivery, ...]:
        return await self.store.due_deliveries.list_due(self.clock(), full=(), flying=(), limit=4, failing_limit=4)

    async def attempt(self) -> Attempted:
        (due,) = await self.due()
        return await self.sender.attempt(due)

    async def delivery(self, webhook_id: str = "whk_1") -> Delivery:
        (delivery,) = await self.webhooks.deliveries(WebhookId(webhook_id), before=None, limit=9)
        return delivery

    async def webhook(self, webhook_id: str = "whk_1") -> Webhook:
        webhook = await self.webhooks.get(WebhookId(webhook_id))
        assert webhook is not None
        return webhook


@asynccontextmanager
async def open_world(*allowed: str) -> AsyncIterator[World]:
    async with open_store(None) as store, SafeHttp(AddressRules.parse(allowed or ("127.0.0.0/8",))) as http:
        home = await settle(store, image("img-1"), container=ContainerId("home"))
        await home.add_session(session(SESSION, "img-1", "home"))
        clock = Clock()
        vault = Vault(store, key=bytes(32), clock=clock)
        yield World(store, clock, WebhookSender(store, vault, http, clock))


@asynccontextmanager
async def open_pair(reply: Reply) -> AsyncIterator[tuple[World, Web]]:
    async with open_world() as world, web(reply) as site:
        await world.hook(site.url("/hook"))
        await world.end_turn("t1")
        yield world, site


async def test_a_delivery_is_tried_again_after_longer_and_longer_times_until_it_is_taken() -> None:
    receiver = Receiver(*(500 for _ in RETRY_SECONDS), 500)
    async with open_pair(receiver.reply) as (world, _):
        waited = []
        for _ in range(len(RETRY_SECONDS) + 1):
            failed = await world.attempt()
            assert (failed.status, failed.error) == (500, "the receiver answered 500")
            assert failed.next_at is not None
            waited.append((failed.next_at - world.clock()) // 1000)
            assert await world.due() == ()
            world.clock.now = failed.next_at
        assert waited == [*RETRY_SECONDS, RETRY_SECONDS[-1]]
        assert (await world.webhook()).failing_since == NOON
        assert (await world.attempt()).error is None
        delivery = await world.delivery()
        assert (delivery.state, delivery.status, delivery.attempts) == ("delivered", 204, len(RETRY_SECONDS) + 2)
        assert (await world.webhook()).failing_since is None
        assert {asked.headers["webhook-id"] for asked in receiver.got} == {"evt_t1"}


async def test_a_webhook_that_fails_for_five_days_is_disabled_and_the_audit_log_says_so() -> None:
    async with open_pair(Receiver(*(503 for _ in range(9))).reply) as (world, _):
        await world.attempt()
        world.clock.now += RETRY_MAX_MS
        last = await world.attempt()
        assert (last.disable, last.next_at) == ("failing", None)
        webhook = await world.webhook()
        assert (webhook.disabled_at, webhook.disabled_reason) == (world.clock(), "failing")
        ((_, entry),) = await world.store.accounts(ACME).audit.list()
        assert (entry.actor, entry.action, entry.target, entry.result) == ("server", "webhook.disable", "whk_1", "failing")
        await world.end_turn("t2")
        assert await world.due() == ()
        assert (await world.delivery()).state == "failed"


async def test_a_receiver_that_is_gone_disables_its_webhook_at_once() -> None:
    async with open_pair(Receiver(410).reply) as (world, _):
        assert (await world.attempt()).disable == "gone"
        assert (await world.webhook()).disabled_reason == "gone"
        assert (await world.delivery()).state == "failed"


async def test_redirects_are_not_followed() -> None:
    def reply(asked: Asked) -> Replied:
        assert asked.target == "/hook"
        return Replied(307, headers={"location": "/elsewhere"})

    async with open_pair(reply) as (world, site):
        failed = await world.attempt()
        assert (failed.status, failed.error) == (307, "redirects are not followed")
        assert len(site.asked) == 1


async def test_an_endless_answer_is_not_read() -> None:
    async def flood() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 65_536

    async with open_pair(lambda asked: Replied(200, pieces=flood(), headers={"transfer-encoding": "chunked"})) as (world, site):
        assert (await world.attempt()).error is None
        with anyio.fail_after(60):
            await site.closed.wait()
        assert (await world.delivery()).state == "delivered"


async def test_a_receiver_that_hangs_keeps_no_other_from_being_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(asked: Asked) -> Replied:
        hung.append(asked)
        began.set()
        await anyio.sleep_forever()
        raise AssertionError

    hung, began, receiver = list[Asked](), anyio.Event(), Receiver()
    monkeypatch.setattr(sending, "WEBHOOK_ATTEMPTS_MAX", 1)
    async with open_pair(hang) as (world, _), web(receiver.reply) as good, anyio.create_task_group() as tasks:
        await world.hook(good.url("/good"), "whk_2")
        tasks.start_soon(world.sender.run)
        with anyio.fail_after(60):
            await began.wait()
        for number in range(2, 5):
            await world.end_turn(f"t{number}")
        world.sender.wake()
        got = await receiver.wait(3)
        assert [asked.headers["webhook-id"] for asked in got] == ["evt_t2", "evt_t3", "evt_t4"]
        assert len(hung) == 1
        tasks.cancel_scope.cancel()


async def test_a_receiver_that_hangs_is_given_up_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(asked: Asked) -> Replied:
        await anyio.sleep_forever()
        raise AssertionError

    monkeypatch.setattr(sending, "ATTEMPT_SECONDS", 0.05)
    async with open_pair(hang) as (world, _):
        failed = await world.attempt()
        assert (failed.status, failed.error) == (None, "the receiver did not answer within 0.05 seconds")
        assert failed.next_at == world.clock() + 60_000


async def test_private_addresses_are_refused_when_they_are_named_and_when_they_are_asked() -> None:
    async with open_world("10.9.9.9") as world:
        for url, why in (
            ("http://example.org/", "https"),
            ("https://127.0.0.1/", "public Internet"),
            ("https://169.254.169.254/latest", "public Internet"),
            ("ftp://example.org/", "http and https"),
            ("https://user:pw@example.org/", "password"),
            ("https://example.org:99999/", "65535"),
        ):
            with pytest.raises(InvalidInput, match=why):
                await world.sender.check_url(url)
        assert await world.sender.check_url("https://no-such-name.invalid/hook") == "https://no-such-name.invalid/hook"
        await world.hook("https://127.0.0.1:1/")
        await world.end_turn("t1")
        failed = await world.attempt()
        assert failed.status is None
        assert failed.error is not None
        assert "127.0.0.1" in failed.error


async def test_old_deliveries_are_dropped() -> None:
    async with open_pair(Receiver().reply) as (world, _):
        await world.attempt()
        await world.store.due_deliveries.drop_old(NOON)
        assert (await world.delivery()).state == "delivered"
        await world.store.due_deliveries.drop_old(NOON + HOUR_MS)
        assert await world.webhooks.deliveries(WebhookId("whk_1"), before=None, limit=9) == ()


async def test_webhooks_that_fail_wait_for_those_that_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "ATTEMPTS_MAX", 1)
    bad, good = Receiver(500), Receiver()
    async with open_pair(bad.reply) as (world, _), web(good.reply) as site:
        await world.attempt()
        await world.hook(site.url("/good"), "whk_2")
        await world.end_turn("t2")
        world.clock.now += HOUR_MS
        assert [due.webhook.webhook_id for due in await world.sender._choose()] == ["whk_2"]


async def test_an_attempt_that_crashes_is_one_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(url: str) -> object:
        raise ExceptionGroup("unhandled errors", [OverflowError("port must be 0-65535")])

    async with open_pair(Receiver().reply) as (world, _):
        monkeypatch.setattr(sending, "parse_url", crash)
        failed = await world.attempt()
        assert (failed.status, failed.next_at) == (None, world.clock() + 60_000)
        assert "65535" not in (failed.error or "")
