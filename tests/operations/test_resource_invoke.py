from typing import Any

import pytest
from tests.server.http.fixtures import World, open_world

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TWICE = {"description": "d", "runtime": "python", "entry": "def run(n):\n    return 2 * n", "inputSchema": NUMBER}


async def publish(world: World, name: str, **change: object) -> str:
    body = {"type": "tools", "name": name, "content": {**TWICE, **change}}
    made = await world.ask("POST", "/v1/resources", body, key=world.acme.admin)
    assert made.status == 201, made.raw
    return str(made.body["id"])


async def invoke(world: World, resource: str, key: str | None = None, **body: object) -> Any:
    reply = await world.ask("POST", f"/v1/resources/{resource}/invoke", body, key=world.acme.user if key is None else key)
    return reply.body if reply.status == 200 else (reply.status, reply.code)


async def rule(world: World, *rules: dict[str, object]) -> None:
    changed = await world.ask("PUT", "/v1/config", {"changes": {"tools.policy": list(rules)}})
    assert changed.status == 200, changed.raw


async def test_a_tool_is_called_once_and_its_time_is_in_the_ledger() -> None:
    async with open_world() as world:
        tool = await publish(world, "twice")
        made = await invoke(world, tool, input={"n": 21})
        assert (made["output"], made["tier"]) == ({"type": "json", "value": 42}, "process")
        assert made["tool"] == "resource://tools/twice@1.0.0"
        assert (made["policy"], ["process", "chosen"] in made["why"]) == ("default rule 3: any call", True)
        entries = await world.vm.store.accounts(world.acme.tenant_id).ledger.list()
        assert [entry.user_id for _, entry in entries if entry.driver == "tier"] == [world.acme.user_id]
        assert ("resource.invoke", tool, "ok") in await world.audit(world.acme.tenant_id)


async def test_a_built_in_tool_needs_no_tier() -> None:
    async with open_world() as world:
        made = await invoke(world, "resource:%2F%2Ftools%2Fcalculator", input={"expression": "6*7"})
        assert (made["output"], made["tier"], made.get("why", [])) == ({"type": "json", "value": 42}, "inline", [])


async def test_a_failure_of_the_tool_or_its_input_is_a_result() -> None:
    async with open_world() as world:
        tool = await publish(world, "fails", entry="def run(n):\n    raise ValueError(n)")
        failed = (await invoke(world, tool, input={"n": 1}))["output"]
        assert (failed["type"], "ValueError: 1" in failed["value"]["stderr"]) == ("error-json", True)
        misfit = (await invoke(world, tool, input={"n": "x"}))["output"]
        assert (misfit["type"], "does not fit" in misfit["value"]) == ("error-text", True)


async def test_a_program_that_takes_too_long_is_told_with_all_that_it_wrote() -> None:
    async with open_world() as world:
        tool = await publish(world, "slow", entry="def run(n):\n    print('so far')\n    while True: pass", timeoutMs=400)
        output = (await invoke(world, tool, input={"n": 1}))["output"]
        assert (output["type"], output["value"]["timedOut"], output["value"]["stdout"]) == ("error-json", True, "so far\n")


async def test_a_call_that_needs_an_approval_is_made_only_for_those_who_may_give_it() -> None:
    async with open_world() as world:
        tool = await publish(world, "drop", effect="destructive")
        assert await invoke(world, tool, input={"n": 1}) == (409, "approval_required")
        made = await invoke(world, tool, input={"n": 1}, approve=True)
        assert made["policy"] == "approved by the caller (default rule 1: destructive)"
        await rule(world, {"effect": "destructive", "do": "ask", "ask": {"audience": "admins"}})
        assert await invoke(world, tool, input={"n": 1}, approve=True) == (409, "approval_required")
        assert (await invoke(world, tool, world.acme.admin, input={"n": 1}, approve=True))["output"]["value"] == 2
        await rule(world, {"tool": "drop", "do": "deny"})
        assert await invoke(world, tool, world.acme.admin, input={"n": 1}, approve=True) == (403, "tool_denied")


async def test_a_secret_needs_its_grant_here_too() -> None:
    async with open_world() as world:
        entry = "import os\ndef run(n):\n    return os.environ['API_KEY']"
        tool = await publish(world, "keyed", entry=entry, secrets=["API_KEY"], effect="read")
        refused = (await invoke(world, tool, input={"n": 1}))["output"]
        assert "avm secret grant API_KEY keyed --as env" in refused["value"]
        grant = {"secret": "API_KEY", "tool": "keyed", "as": "env"}
        assert (await world.ask("POST", "/v1/grants", grant, key=world.acme.admin)).status == 200
        assert (await invoke(world, tool, input={"n": 1}))["output"] == {"type": "text", "value": "[secret API_KEY]"}


async def test_quotas_and_limits_hold() -> None:
    async with open_world() as world:
        tool = await publish(world, "twice")
        quota = {"metric": "sandbox_seconds_per_day", "hard": 0}
        changed = await world.ask("PUT", f"/v1/quotas?tenant={world.acme.slug}", quota)
        assert changed.status < 300, changed.raw
        output = (await invoke(world, tool, input={"n": 1}))["output"]
        assert (output["type"], "sandbox" in output["value"].lower()) == ("error-text", True)


@pytest.mark.parametrize(
    ("change", "status"),
    [({"runtime": "client", "entry": "pick"}, 422), ({"runtime": "agent", "entry": "resource://agents/assistant"}, 422)],
)
async def test_a_tool_that_nobody_can_run_here_is_refused(change: dict[str, object], status: int) -> None:
    async with open_world() as world:
        tool = await publish(world, "odd", **change)
        assert (await invoke(world, tool, input={"n": 1}))[0] == status


async def test_what_is_no_tool_of_the_tenant_is_not_found_and_keys_need_the_permission() -> None:
    async with open_world() as world:
        tool = await publish(world, "twice")
        assert await invoke(world, tool, world.bolt.admin, input={"n": 1}) == (404, "resource_not_found")
        assert await invoke(world, "resource:%2F%2Fagents%2Fassistant", input={}) == (404, "resource_not_found")
        weak = await world.key(world.acme.tenant_id, ("resources:read",))
        assert (await invoke(world, tool, weak, input={"n": 1}))[0] == 403
        assert (await invoke(world, tool, input={"n": 1}, tool="other"))[0] == 400


async def test_a_member_without_effect_is_refused_when_it_is_published() -> None:
    async with open_world() as world:
        body = {"type": "tools", "name": "odd", "content": {**TWICE, "permissions": ["net"]}}
        refused = await world.ask("POST", "/v1/resources", body, key=world.acme.admin)
        assert (refused.status, refused.code) == (422, "resource_invalid")
        assert "permissions has no effect" in refused.body["error"]["message"]
