"""Webhooks, over the management API."""

from typing import Any

from tests.server.http.fixtures import World, open_world
from tests.support.web import web
from tests.webhooks.fixtures import LOCAL, Receiver

from agentvm.model.account import Quota
from agentvm.storage.sql.webhooks import WEBHOOKS_MAX

ALL = "/v1/webhooks"


async def create(world: World, url: str, *events: str, **fields: object) -> dict[str, Any]:
    body = {"url": url, "events": events or ("turn.completed",), **fields}
    reply = await world.ask("POST", ALL, body, key=world.acme.admin)
    assert reply.status == 201, reply.raw
    made: dict[str, Any] = reply.body
    return made


async def test_a_webhook_is_created_changed_and_deleted_and_its_secret_is_shown_once() -> None:
    async with open_world(tool_settings=LOCAL) as world:
        admin = world.acme.admin
        made = await create(world, "http://127.0.0.1:9/hook", "turn.failed", "turn.failed", description="Orders")
        assert made["secret"].startswith("whsec_")
        assert (made["events"], made["enabled"], made["description"]) == (["turn.failed"], True, "Orders")
        one = f"{ALL}/{made['webhookId']}"
        shown = await world.ask("GET", one, key=admin)
        assert "secret" not in shown.body
        assert (await world.ask("GET", ALL, key=admin)).items == [shown.body]
        changes = {"events": ["wait.created"], "enabled": False, "description": ""}
        changed = (await world.ask("PUT", one, changes, key=admin)).body
        assert (changed["events"], changed["enabled"], changed["url"]) == (["wait.created"], False, made["url"])
        assert "description" not in changed
        assert (await world.ask("POST", f"{one}/test", key=admin)).status == 409
        again = (await world.ask("PUT", one, {"enabled": True}, key=admin)).body
        assert (again["enabled"], "disabledAt" in again) == (True, False)
        rotated = (await world.ask("POST", f"{one}/rotate", key=admin)).body
        assert rotated["secret"].startswith("whsec_")
        assert rotated["secret"] != made["secret"]
        rows = await world.vm.store._database.read(lambda connection: connection.fetch("SELECT * FROM webhooks"))
        assert made["secret"] not in repr(rows)
        assert (await world.ask("DELETE", one, key=admin)).status == 204
        assert (await world.ask("DELETE", one, key=admin)).status == 404
        actions = [action for action, target, result in await world.audit(world.acme.tenant_id) if target == made["webhookId"]]
        assert actions[::-1] == [
            "webhook.create", "webhook.update", "webhook.test", "webhook.update", "webhook.rotate", "webhook.delete",
            "webhook.delete",
        ]  # fmt: skip


async def test_a_test_event_shows_what_became_of_it_and_can_be_sent_again() -> None:
    receiver = Receiver(500, 202, 200)
    async with open_world(tool_settings=LOCAL) as world, web(receiver.reply) as site:
        admin = world.acme.admin
        made = await create(world, site.url("/hook"))
        one = f"{ALL}/{made['webhookId']}"
        failed = (await world.ask("POST", f"{one}/test", key=admin)).body
        assert (failed["state"], failed["status"], failed["type"]) == ("pending", 500, "webhook.test")
        assert failed["error"] == "the receiver answered 500"
        assert failed["nextAt"] == world.clock() + 60_000
        sent = (await world.ask("POST", f"{one}/deliveries/{failed['number']}/redeliver", key=admin)).body
        assert (sent["state"], sent["status"], sent["eventId"]) == ("delivered", 202, failed["eventId"])
        assert {asked.headers["webhook-id"] for asked in receiver.got} == {failed["eventId"]}
        another = (await world.ask("POST", f"{one}/test", key=admin)).body
        listed = await world.ask("GET", f"{one}/deliveries?limit=1", key=admin)
        assert [item["number"] for item in listed.items] == [another["number"]]
        rest = await world.ask("GET", f"{one}/deliveries?cursor={listed.body['nextCursor']}", key=admin)
        assert rest.items == [sent]
        assert (await world.ask("POST", f"{one}/deliveries/99999/redeliver", key=admin)).status == 404


async def test_only_those_who_administer_the_tenant_may_and_no_more_than_the_quota_allows() -> None:
    async with open_world(tool_settings=LOCAL) as world:
        body = {"url": "http://127.0.0.1:9/", "events": ["turn.completed"]}
        assert (await world.ask("POST", ALL, body, key=world.acme.user)).status == 403
        for wrong in ({**body, "url": "https://192.168.0.1/"}, {**body, "events": []}, {**body, "events": ["turn.begun"]}):
            assert (await world.ask("POST", ALL, wrong, key=world.acme.admin)).status == 400
        accounts = world.vm.tenancy.store.accounts(world.acme.tenant_id)
        await accounts.quotas.put(Quota(metric="webhooks", hard=1), 1)
        await world.vm.tenancy.quotas.reread(world.acme.tenant_id)
        await create(world, "http://127.0.0.1:9/")
        refused = await world.ask("POST", ALL, body, key=world.acme.admin)
        assert (refused.status, refused.code) == (429, "quota_exceeded")
        await accounts.quotas.put(Quota(metric="webhooks", hard=None, soft=None), 1)
        await world.vm.tenancy.quotas.reread(world.acme.tenant_id)
        for _ in range(WEBHOOKS_MAX - 1):
            await create(world, "http://127.0.0.1:9/")
        assert (await world.ask("POST", ALL, body, key=world.acme.admin)).status == 409
