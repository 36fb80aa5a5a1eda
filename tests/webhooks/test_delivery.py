"""Events of a real server, verified by the official libraries of receivers."""

import json
import signal
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from openai import InvalidWebhookSignatureError, OpenAI
from tests.faults.process import open_server
from tests.provision.clients import Clients
from tests.support.serving import Play
from tests.support.web import Asked, Replied, web
from tests.webhooks.fixtures import Receiver, hooked

ALL = ("turn.completed", "turn.failed", "turn.interrupted", "session.created", "wait.created", "quota.warning")

VERIFY = """
import { Webhook } from "standardwebhooks";
const [secret, body, headers] = [process.env.SECRET, process.env.BODY, JSON.parse(process.env.HEADERS)];
const read = new Webhook(secret).verify(body, headers);
let refused = "";
try { new Webhook(secret).verify(body + " ", headers); } catch (error) { refused = error.constructor.name; }
console.log(JSON.stringify({ type: read.type, turn: read.data.turnId, refused }));
"""


def verified(asked: Asked, secret: str) -> Any:
    client = OpenAI(api_key="none", webhook_secret=secret)
    with pytest.raises(InvalidWebhookSignatureError):
        client.webhooks.unwrap(asked.body + b" ", asked.headers)
    return client.webhooks.unwrap(asked.body, asked.headers)


async def test_the_ends_of_turns_arrive_signed_and_official_libraries_verify_them(clients: Clients) -> None:
    async with hooked(Play()) as world:
        secret = (await world.create(*ALL))["secret"]
        answer = await world.ask("POST", "/v1/messages", {"content": "hello"})
        failed = await world.ask("POST", "/v1/messages", {"content": "fail", "sessionId": answer["sessionId"]})
        got = await world.receiver.wait(4)
        by_type = {msg["type"]: (asked, msg) for asked, msg in zip(got, world.receiver.events, strict=True)}
        assert set(by_type) == {"session.created", "turn.completed", "turn.failed"}
        asked, ended = by_type["turn.completed"]
        assert ended["data"]["turnId"] == answer["turnId"]
        assert ended["data"]["sessionId"] == answer["sessionId"]
        assert ended["id"] == asked.headers["webhook-id"] == f"evt_{answer['turnId']}"
        assert by_type["turn.failed"][1]["data"]["turnId"] == failed["turnId"]
        assert verified(asked, secret).type == "turn.completed"
        headers = {name: value for name, value in asked.headers.items() if name.startswith("webhook-")}
        env = {"SECRET": secret, "BODY": asked.body.decode(), "HEADERS": json.dumps(headers)}
        read = json.loads(await clients.run(VERIFY, **env))
        expected = {"type": "turn.completed", "turn": answer["turnId"], "refused": "WebhookVerificationError"}
        assert read == expected


async def test_a_wait_is_told_and_an_old_secret_verifies_for_a_while_after_a_rotation() -> None:
    async with hooked(Play()) as world:
        made = await world.create("turn.completed")
        fresh = (await world.ask("POST", f"/v1/webhooks/{made['webhookId']}/rotate"))["secret"]
        assert fresh != made["secret"]
        await world.ask("POST", "/v1/messages", {"content": "hello"})
        (asked,) = await world.receiver.wait(1)
        assert [verified(asked, secret).type for secret in (fresh, made["secret"])] == ["turn.completed"] * 2


async def test_what_was_committed_before_a_kill_is_delivered_after_it_with_the_same_id(tmp_path: Path) -> None:
    receiver, held = Receiver(), anyio.Event()

    async def hang(asked: Asked) -> Replied:
        if held.is_set():
            return receiver.reply(asked)
        first.append(asked)
        came.set()
        await anyio.sleep_forever()
        raise AssertionError

    first, came = list[Asked](), anyio.Event()
    async with web(hang) as site, open_server(tmp_path, "tests.faults.server", "0.0", "127.0.0.0/8") as server:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", timeout=60, trust_env=False) as client:
            made = await client.post("/v1/webhooks", json={"url": site.url("/hook"), "events": ["turn.completed"]})
            assert made.status_code == 201, made.text
            answer = (await client.post("/v1/messages", json={"content": "hello"})).json()
            with anyio.fail_after(60):
                await came.wait()
        await server.end(signal.SIGKILL)
        held.set()
        await server.start()
        (again,) = await receiver.wait(1)
        assert again.headers["webhook-id"] == first[0].headers["webhook-id"] == f"evt_{answer['turnId']}"
        assert again.body == first[0].body
        assert json.loads(again.body)["data"]["turnId"] == answer["turnId"]
