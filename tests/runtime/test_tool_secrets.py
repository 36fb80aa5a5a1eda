"""Secrets of tools in turns: who gets a value, and that none is in a result, an error, the log or an event."""

import base64
import json
import logging
from collections.abc import Iterable, Mapping
from urllib.parse import quote

import pytest
from tests.operations.fixtures import Desk, open_desk
from tests.support.web import Asked, Replied, web

from agentvm.drivers.base import Prompt, ToolResultsEntry
from agentvm.drivers.scripted import ScriptedDriver, ScriptStep, reply, tool_calls
from agentvm.model.account import Tenant
from agentvm.model.ids import TenantId
from agentvm.model.secret import Secret
from agentvm.model.secret_grant import SecretGrant, SecretUse
from agentvm.model.tool_settings import ToolNetwork, ToolSettings

NETWORK = ToolSettings(network=ToolNetwork(allow=("127.0.0.1",)))
VALUE = "s3cr3t/+key of Acme"
FORMS = (VALUE, quote(VALUE, safe=""), base64.b64encode(VALUE.encode()).decode().rstrip("=")[:-1])


def call_once(prompt: Prompt) -> Iterable[ScriptStep]:
    """A model that calls its only tool, and then ends the turn."""
    if isinstance(prompt.conversation[-1], ToolResultsEntry):
        return reply("done")
    return tool_calls((f"c{len(prompt.conversation)}", prompt.tools[0].name, {}))


def asking(server_port: int, **more: object) -> dict[str, object]:
    return {
        "description": "Mine.",
        "runtime": "http",
        "entry": f"GET http://127.0.0.1:{server_port}/orders",
        "inputSchema": {"type": "object"},
        "effect": "read",
        "secrets": ["ACME"],
        "http": {"headers": {"X-Key": "${secret:ACME}"}},
        **more,
    }


async def grant(desk: Desk, tool: str, *hosts: str, use: SecretUse = "header", owner: str | None = None) -> None:
    tenant_id = desk.peer.tenant_id
    resource = await desk.vm.resources.store.resources(tenant_id).find("tools", tool, owner)
    assert resource is not None
    await desk.peer.workspace.accounts.grants.put(
        SecretGrant(secret="ACME", tool=tool, grantee=resource.resource_id, use=use, hosts=hosts, granted_by="a", granted_at=1)
    )


async def put_secret(desk: Desk, value: str = VALUE) -> None:
    await desk.vm.tenancy.vault.put(desk.peer.tenant_id, "ACME", Secret(value))


async def told(desk: Desk, driver: ScriptedDriver, uri: str) -> str:
    """The result that the model is told of one call in a turn; no form of the secret is in any event."""
    image = await desk.create_image(tools=[uri])
    desk.forget()
    await desk.ask("message_send", imageId=image["imageId"], content="go")
    await desk.hear("turn_response")
    entry = driver.prompts[-1].conversation[-1]
    assert isinstance(entry, ToolResultsEntry)
    text = str(entry.results[0].output.value)
    everything = json.dumps(desk.heard) + text
    assert not [form for form in FORMS if form in everything]
    return text


async def test_a_granted_secret_is_sent_and_never_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    replies: list[Mapping[str, object]] = []

    def echo(asked: Asked) -> Replied:
        key = asked.headers.get("x-key", "")
        forms = {"raw": key, "url": quote(key, safe=""), "base64": base64.b64encode(f"id:{key}".encode()).decode(), key: [key]}
        replies.append(forms)
        status = 200 if len(replies) == 1 else 500
        return Replied(status, body=json.dumps(forms).encode(), headers={"content-type": "application/json"})

    driver = ScriptedDriver(call_once)
    async with web(echo) as server, open_desk(driver, tool_settings=NETWORK) as desk:
        await put_secret(desk)
        await desk.publish("tools", "orders", asking(server.port))
        await grant(desk, "orders", f"127.0.0.1:{server.port}")
        text = await told(desk, driver, "resource://tools/orders")
        assert server.asked[0].headers["x-key"] == VALUE
        assert text.count("[secret ACME]") >= 4
        text = await told(desk, driver, "resource://tools/orders")
        assert "status 500" in text
        assert "[secret ACME]" in text
    assert not [form for form in FORMS if form in caplog.text or form in str([each.__dict__ for each in caplog.records])]


@pytest.mark.parametrize("hosts", [(), ("api.acme.org",), ("127.0.0.1",), ("127.0.0.1:1",)])
async def test_without_a_grant_for_its_host_nothing_is_sent_and_the_model_is_told_the_command(hosts: tuple[str, ...]) -> None:
    driver = ScriptedDriver(call_once)
    async with web(lambda asked: Replied()) as server, open_desk(driver, tool_settings=NETWORK) as desk:
        await put_secret(desk)
        await desk.publish("tools", "orders", asking(server.port))
        if hosts:
            await grant(desk, "orders", *hosts)
        text = await told(desk, driver, "resource://tools/orders")
        assert f"avm secret grant ACME orders --as header --host 127.0.0.1:{server.port}" in text
        assert server.asked == []


async def test_a_redirect_does_not_take_a_secret_along() -> None:
    driver = ScriptedDriver(call_once)
    async with web(lambda asked: Replied(body=b"taken")) as thief:
        moved = Replied(307, headers={"location": thief.url("/?k=" + quote(VALUE))})
        async with web(lambda asked: moved) as server, open_desk(driver, tool_settings=NETWORK) as desk:
            await put_secret(desk)
            await desk.publish("tools", "orders", asking(server.port))
            await grant(desk, "orders", f"127.0.0.1:{server.port}")
            assert "which is not followed" in await told(desk, driver, "resource://tools/orders")
            assert (len(server.asked), thief.asked) == (1, [])


async def test_each_tenant_sends_its_own_secret_and_a_public_tool_gets_none_by_itself() -> None:
    driver = ScriptedDriver(call_once)
    async with web(lambda asked: Replied(body=b"ok")) as server, open_desk(driver, tool_settings=NETWORK) as vm_desk:
        author, acme, rival = vm_desk.another("author"), vm_desk.another("acme"), vm_desk.another("rival")
        for desk in (author, acme, rival):
            name = desk.peer.tenant_id
            tenant = Tenant(tenant_id=name, slug=name, name=name, created_at=1, updated_at=1)
            await desk.vm.tenancy.store.directory.add_tenant(tenant)
        host = f"127.0.0.1:{server.port}"
        await author.publish("tools", "orders", asking(server.port), visibility="public")
        uri = "resource://tools/author/orders"
        await put_secret(author, "the author's own")
        await grant(author, "orders", host)
        await put_secret(acme)
        await put_secret(rival, "of the rival")
        for desk in (acme, rival):
            assert "avm secret grant ACME author/orders --as header" in await told(desk, driver, uri)
        assert server.asked == []
        await grant(acme, "orders", host, owner="author")
        assert await told(acme, driver, uri) == "ok"
        assert "is not granted to author/orders" in await told(rival, driver, uri)
        await grant(rival, "orders", host, owner="author")
        assert await told(rival, driver, uri) == "ok"
        assert [asked.headers["x-key"] for asked in server.asked] == [VALUE, "of the rival"]


async def test_a_tool_that_took_over_the_name_of_another_gets_none_of_its_grants() -> None:
    driver = ScriptedDriver(call_once)
    async with web(lambda asked: Replied(body=b"ok")) as server, open_desk(driver, tool_settings=NETWORK) as desk:
        await put_secret(desk)
        await desk.publish("tools", "orders", asking(server.port))
        await grant(desk, "orders", f"127.0.0.1:{server.port}")
        tenant_id: TenantId = desk.peer.tenant_id
        resource = await desk.vm.resources.store.resources(tenant_id).find("tools", "orders")
        assert resource is not None
        await desk.vm.resources.store.resources(tenant_id).delete(resource.resource_id, now=5, force=False)
        await desk.publish("tools", "orders", asking(server.port))
        assert "is not granted to orders" in await told(desk, driver, "resource://tools/orders")
        assert server.asked == []


CODE = {
    "description": "Mine.",
    "inputSchema": {"type": "object"},
    "effect": "read",
    "secrets": ["ACME"],
}


@pytest.mark.parametrize(
    ("runtime", "entry"),
    [
        ("python", "import os\ndef run():\n    return [os.environ['ACME'], {os.environ['ACME']: len(os.environ['ACME'])}]"),
        ("python", "import os, sys\ndef run():\n    print(os.environ['ACME'], file=sys.stderr)\n    sys.exit(3)"),
        ("shell", 'echo "$ACME"; echo "$ACME" | base64'),
        ("shell", 'echo "$ACME" >&2; exit 3'),
        ("command", '["printenv", "ACME"]'),
    ],
)
async def test_code_has_a_granted_secret_as_a_variable_and_no_result_has_it(runtime: str, entry: str) -> None:
    driver = ScriptedDriver(call_once)
    async with open_desk(driver) as desk:
        await put_secret(desk)
        await desk.publish("tools", "mine", {**CODE, "runtime": runtime, "entry": entry})
        await grant(desk, "mine", "api.acme.org")
        assert "avm secret grant ACME mine --as env" in await told(desk, driver, "resource://tools/mine")
        await grant(desk, "mine", use="env")
        assert "[secret ACME]" in await told(desk, driver, "resource://tools/mine")


async def test_code_with_a_secret_reaches_no_other_hosts_than_the_granted_ones() -> None:
    driver = ScriptedDriver(call_once)
    async with open_desk(driver) as desk:
        await put_secret(desk)
        network = {"mode": "allowlist", "allow": ["api.acme.org", "evil.example"]}
        await desk.publish("sandboxes", "box", {"runtime": "python", "network": network})
        tool = {**CODE, "runtime": "python", "entry": "def run():\n    return 1", "sandbox": "resource://sandboxes/box"}
        await desk.publish("tools", "mine", tool)
        await grant(desk, "mine", "api.acme.org", use="env")
        assert "--as env --host evil.example" in await told(desk, driver, "resource://tools/mine")
