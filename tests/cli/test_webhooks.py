"""avm webhooks."""

from tests.cli.desk import open_desk


async def test_a_webhook_is_created_listed_tried_and_deleted() -> None:
    async with open_desk() as desk:
        assert await desk.record("webhooks", "list") == []
        # An address that is documented to lead nowhere.
        made = await desk.record("webhooks", "create", "https://no-such-host.invalid/hook", "--event", "turn.failed")
        assert made["secret"].startswith("whsec_")
        webhook_id = made["webhookId"]
        assert "turn.failed" in await desk.ok("webhooks", "list")
        assert "whsec_" not in await desk.ok("webhooks", "show", webhook_id)
        assert "Not delivered: no-such-host.invalid could not be reached" in await desk.ok("webhooks", "test", webhook_id)
        (delivery,) = await desk.record("webhooks", "deliveries", webhook_id)
        assert (delivery["type"], delivery["state"], delivery["attempts"]) == ("webhook.test", "pending", 1)
        again = await desk.record("webhooks", "redeliver", webhook_id, str(delivery["number"]))
        assert again["eventId"] == delivery["eventId"]
        changed = await desk.record("webhooks", "update", webhook_id, "--event", "wait.created", "--disable")
        assert (changed["events"], changed["enabled"]) == (["wait.created"], False)
        assert "disabled" in await desk.ok("webhooks", "list")
        assert (await desk.record("webhooks", "rotate", webhook_id))["secret"] != made["secret"]
        assert "deleted" in await desk.ok("webhooks", "delete", webhook_id, "--yes")
        assert await desk.record("webhooks", "list") == []
