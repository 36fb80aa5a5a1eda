"""`/v1/config`: what counts, who may see and change it, and that nothing secret comes out."""

import json
from typing import Any

import anyio
import pytest
from tests.server.http.fixtures import Reply, World, open_world

from agentvm.config import scope
from agentvm.config.catalogue import SETTINGS
from agentvm.config.edits import EDIT_KEYS_MAX, own_keys

PLANTED = "sk-planted-0123456789"


async def put(world: World, changes: object, *, key: str | None = None, query: str = "", **about: Any) -> Reply:
    return await world.ask("PUT", f"/v1/config{query}", {"changes": changes, **about}, key=key)


async def value(world: World, name: str, *, key: str | None = None, query: str = "") -> Any:
    return (await world.ask("GET", f"/v1/config/{name}{query}", key=key)).body.get("value")


async def test_the_operator_sees_the_tree_that_counts_and_where_each_value_is_from() -> None:
    async with open_world() as world:
        reply = await world.ask("GET", "/v1/config")
        assert (reply.status, reply.body["revision"], reply.headers["etag"]) == (200, 0, '"0"')
        assert reply.body["config"]["defaults"] == {"timeout": 30000, "maxTokens": 4096}
        assert reply.body["config"]["system"]["auth"] == "on"
        assert "settings" not in reply.body
        full = (await world.ask("GET", "/v1/config?view=full")).body["settings"]
        layers = {one["key"]: one.get("layer") for one in full}
        assert set(layers) == {key for key in SETTINGS if "*" not in key}
        assert (layers["system.auth"], layers["system.port"], layers.get("llm.model")) == ("code", "default", None)
        assert (await world.ask("GET", "/v1/config?view=all")).status == 400


async def test_a_change_is_told_applied_and_explained() -> None:
    async with open_world() as world:
        reply = await put(world, {"limits": {"steps": 10}, "system.port": 9000}, note="fewer loops")
        assert reply.body == {
            "revision": 1,
            "changed": [{"key": "limits.steps", "to": 10}, {"key": "system.port", "to": 9000}],
            "live": ["limits.steps"],
            "restartRequired": ["system.port"],
        }
        assert world.vm.settings.settings_of(None).limits.steps == 10
        assert world.vm.config.system.port == 8080
        one = (await world.ask("GET", "/v1/config/limits.steps")).body
        assert (one["value"], one["layer"], one["place"], one["at"], one["default"]) == (
            10,
            "override",
            "change 1",
            world.clock(),
            25,
        )
        assert one["actor"].startswith("key_") or one["actor"]
        assert [source["layer"] for source in one["layers"]] == ["default", "override"]
        tree = (await world.ask("GET", "/v1/config")).body
        assert (tree["pendingRestart"], tree["config"]["system"]["port"]) == (["system.port"], 9000)
        taken_back = await put(world, {"system": None})
        assert taken_back.body["changed"] == [{"key": "system.port", "from": 9000}]
        assert (await world.ask("GET", "/v1/config")).body.get("pendingRestart", []) == []


async def test_a_group_is_shown_with_its_settings() -> None:
    async with open_world() as world:
        group = (await world.ask("GET", "/v1/config/defaults")).body
        assert group["value"] == {"defaults": {"timeout": 30000, "maxTokens": 4096}}
        assert [one["key"] for one in group["settings"]] == ["defaults.timeout", "defaults.maxTokens"]
        price = {"input": "3", "output": "15.5"}
        assert (await put(world, {"billing": {"prices": {"openai/gpt-5.4-mini": price}}})).status == 200
        assert await value(world, "billing.prices.openai%2Fgpt-5.4-mini") == price


async def test_everything_that_is_wrong_is_told_at_once_and_nothing_is_changed() -> None:
    async with open_world() as world:
        wrong = {"limits": {"steps": "many", "turnSeconds": -1}, "llm.apikey": "x", "system": 5, "defaults.maxTokens": 7}
        reply = await put(world, wrong)
        assert (reply.status, reply.code) == (400, "invalid_input")
        problems = reply.body["error"]["details"]["problems"]
        assert len(problems) == 4
        assert "did you mean llm.apiKey?" in "".join(problems)
        assert (await world.ask("GET", "/v1/config")).body["revision"] == 0
        assert world.vm.settings.settings_of(None).defaults.max_tokens == 4096


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"system.dataDir": "/elsewhere"}, "before the stored settings"),
        ({"system.serverKey": "0" * 64}, "before the stored settings"),
        ({"system.oidc.issuer": "https://id.example"}, "go together"),
        ({"llm.fallback": ["nobody"]}, "known providers"),
        ({"llm.provider": "nobody"}, "known providers"),
        ({"llm.providers.backup.model": "m"}, "llm.providers.backup.driver"),
        ({"llm.providers.backup.driver": "nobody"}, "one of"),
        ({"llm.providers.Backup.driver": "openai"}, "small letters"),
        ({"limits.turnCost": "NaN"}, "amount"),
        ({"limits.turnCost": 1e300}, "amount"),
        ({"llm": {"model": "m"}, "llm.model": "n"}, "twice"),
        ({"llm.model": "\ud800"}, ""),
    ],
)
async def test_what_cannot_be_is_refused(changes: dict[str, object], word: str) -> None:
    async with open_world() as world:
        reply = await put(world, changes)
        assert reply.status == 400, reply.body
        assert word in reply.body["error"]["message"]
        assert await world.vm.tenancy.store.read_settings() == ()


async def test_who_writes_back_what_was_shown_does_not_lose_the_key_for_it() -> None:
    async with open_world() as world:
        shown = "https://me:pw@host/v1"
        assert (await put(world, {"llm.providers.x": {"driver": "openai", "apiKey": PLANTED, "baseUrl": shown}})).status == 200
        tree = (await world.ask("GET", "/v1/config/llm.providers.x")).body["value"]
        refused = await put(world, tree)
        assert (refused.status, "llm.providers.x.apiKey" in refused.raw.decode()) == (400, True)
        key = world.vm.settings.config.providers["x"].api_key
        assert (key and key.reveal(), world.vm.settings.revision(None)) == (PLANTED, 1)


async def test_a_dry_run_says_what_would_change_and_changes_nothing() -> None:
    async with open_world() as world:
        reply = await put(world, {"limits.steps": 7}, dryRun=True)
        assert (reply.body["changed"], reply.body["dryRun"]) == ([{"key": "limits.steps", "to": 7}], True)
        assert world.vm.settings.settings_of(None).limits.steps == 25
        assert await world.vm.tenancy.store.read_settings() == ()
        assert (await put(world, {"limits.steps": 0}, dryRun=True)).status == 400
        results = [result for action, _, result in await world.audit() if action == "config.change"]
        assert results == ["refused:invalid_input"]


async def test_of_many_who_have_seen_the_same_revision_one_wins() -> None:
    async with open_world() as world:
        replies: list[Reply] = []

        async def one(steps: int) -> None:
            replies.append(await put(world, {"limits.steps": steps}, revision=0))

        async with anyio.create_task_group() as tasks:
            for steps in range(1, 9):
                tasks.start_soon(one, steps)
        assert sorted(reply.status for reply in replies) == [200, *[412] * 7]
        (won,) = (reply for reply in replies if reply.status == 200)
        assert await value(world, "limits.steps") == won.body["changed"][0]["to"]
        lost = next(reply for reply in replies if reply.status == 412)
        assert (lost.code, lost.body["error"]["details"]) == ("precondition_failed", {"revision": 1})
        stale = await world.ask("PUT", "/v1/config", {"changes": {}}, headers=[(b"if-match", b'"0"')])
        fresh = await world.ask("PUT", "/v1/config", {"changes": {}}, headers=[(b"if-match", b'"1"')])
        odd = await world.ask("PUT", "/v1/config", {"changes": {}}, headers=[(b"if-match", b"abc")])
        assert (stale.status, fresh.status, odd.status) == (412, 200, 412)


async def test_history_difference_and_the_way_back() -> None:
    async with open_world() as world:
        await put(world, {"limits.steps": 10})
        world.clock.now += 1000
        await put(world, {"limits.steps": 11, "limits.inbox": 5}, note="second")
        found = (await world.ask("GET", "/v1/config/history?limit=1")).body
        assert (found["items"][0]["revision"], found["items"][0]["note"], found["nextCursor"]) == (2, "second", "2")
        assert found["items"][0]["changes"] == [{"key": "limits.inbox", "to": 5}, {"key": "limits.steps", "to": 11}]
        rest = (await world.ask("GET", "/v1/config/history?cursor=2")).body
        assert [item["revision"] for item in rest["items"]] == [1]
        diff = (await world.ask("GET", "/v1/config/diff?from=1")).body
        assert diff == {
            "from": 1,
            "to": 2,
            "changed": [{"key": "limits.inbox", "to": 5}, {"key": "limits.steps", "from": 10, "to": 11}],
        }
        dry = await world.ask("POST", "/v1/config/rollback", {"to": 1, "dryRun": True})
        assert (dry.body["revision"], len(dry.body["changed"])) == (2, 2)
        back = await world.ask("POST", "/v1/config/rollback", {"to": 1})
        assert back.body["revision"] == 3
        assert (await value(world, "limits.steps"), await value(world, "limits.inbox")) == (10, 32)
        assert (await world.ask("GET", "/v1/config/diff?from=1&to=3")).body["changed"] == []
        assert (await world.ask("POST", "/v1/config/rollback", {"to": 9})).status == 400
        assert (await world.ask("GET", "/v1/config/diff?from=9")).status == 400


async def test_a_tenant_sees_and_sets_what_concerns_it_and_nothing_of_the_server() -> None:
    async with open_world() as world:
        acme, bolt = world.acme, world.bolt
        await put(world, {"system.host": "192.0.2.7", "limits.steps": 20})
        seen = await world.ask("GET", "/v1/config?view=full", key=acme.admin)
        assert {one["key"] for one in seen.body["settings"]} == set(own_keys())
        assert {one.get("layer") for one in seen.body["settings"]} <= {"server", None}
        assert all("place" not in one and "actor" not in one and "variable" not in one for one in seen.body["settings"])
        assert (seen.body["tenantId"], seen.body["revision"], seen.body["config"]["limits"]["steps"]) == (acme.tenant_id, 0, 20)
        changed = await put(world, {"limits.steps": 5, "defaults": {"maxTokens": 99}}, key=acme.admin)
        assert (changed.status, changed.body["restartRequired"]) == (200, [])
        settings = world.vm.settings.settings_of
        assert (settings(acme.tenant_id).limits.steps, settings(acme.tenant_id).defaults.max_tokens) == (5, 99)
        assert (settings(bolt.tenant_id).limits.steps, settings(None).limits.steps) == (20, 20)
        assert await value(world, "limits.steps", key=bolt.admin) == 20
        assert await value(world, "limits.steps", query="?tenant=acme") == 5
        assert await value(world, "limits.steps") == 20
        one = (await world.ask("GET", "/v1/config/limits.steps", key=acme.admin)).body
        assert [source["layer"] for source in one["layers"]] == ["server", "tenant"]
        history = await world.ask("GET", "/v1/config/history", key=acme.admin)
        assert [item["revision"] for item in history.items] == [1]
        for hidden in ("system.host", "llm.apiKey", "system", "llm.providers", "billing.markup"):
            refused = await world.ask("GET", f"/v1/config/{hidden}", key=acme.admin)
            assert (refused.status, "192.0.2.7" in refused.raw.decode()) == (404, False)


async def test_a_tenant_may_not_set_more() -> None:
    async with open_world() as world:
        for name in set(SETTINGS) - set(own_keys()):
            changes = {name.replace("*", "x"): None}
            refused = await put(world, changes, key=world.acme.admin)
            assert (refused.status, refused.code) == (403, "access_denied"), name
        higher = await put(world, {"limits.steps": 26}, key=world.acme.admin)
        assert (higher.status, "only be lowered" in higher.body["error"]["message"]) == (400, True)
        reader = await world.key(world.acme.tenant_id, ["config:read"])
        assert (await put(world, {"limits.steps": 3}, key=reader)).status == 403
        assert (await put(world, {"limits.steps": 3}, key=world.acme.user)).status == 403
        assert (await world.ask("GET", "/v1/config", key=world.acme.user)).status == 403


async def test_what_a_tenant_lowered_stays_below_the_server_and_comes_back_with_it() -> None:
    async with open_world() as world:
        acme = world.acme
        await put(world, {"limits.steps": 15}, key=acme.admin)
        await put(world, {"limits.steps": 10})
        assert world.vm.settings.settings_of(acme.tenant_id).limits.steps == 10
        await put(world, {"limits.steps": None})
        assert world.vm.settings.settings_of(acme.tenant_id).limits.steps == 15
        assert (await world.ask("DELETE", "/v1/tenants/acme")).status == 204
        assert world.vm.settings.settings_of(acme.tenant_id).limits.steps == 25


async def test_the_operator_changes_a_tenants_own_settings_by_naming_it() -> None:
    async with open_world() as world:
        reply = await put(world, {"llm.model": "scripted/other"}, query="?tenant=acme")
        assert reply.status == 200
        assert world.vm.settings.default_of(world.acme.tenant_id) == "scripted/other"
        assert world.vm.settings.default_of(world.bolt.tenant_id) is None
        assert await value(world, "llm.model") is None
        assert (await put(world, {"system.port": 1}, query="?tenant=acme")).status == 403
        assert (await put(world, {"llm.model": "mystery"}, query="?tenant=acme")).status == 400


async def test_a_tenant_chooses_only_whom_it_can_have() -> None:
    async with open_world() as world:
        acme = world.acme
        for changes in ({"llm.provider": "anthropic"}, {"llm.model": "anthropic/claude-sonnet-5"}):
            refused = await put(world, changes, key=acme.admin)
            assert (refused.status, world.vm.settings.revision(acme.tenant_id)) == (400, 0)
            assert "avm secret set provider.anthropic" in refused.body["error"]["message"]
        nobody = await put(world, {"llm.model": "nosuch/x"}, key=acme.admin)
        assert (nobody.status, "'nosuch' is not a provider" in nobody.body["error"]["message"]) == (400, True)
        assert (await world.ask("PUT", "/v1/secrets/provider.anthropic", {"value": PLANTED}, key=acme.admin)).status < 300
        assert (await put(world, {"llm.model": "anthropic/claude-sonnet-5"}, key=acme.admin)).status == 200
        assert world.vm.settings.default_of(acme.tenant_id) == "anthropic/claude-sonnet-5"
        assert (await put(world, {"llm.provider": "anthropic"}, key=world.bolt.admin)).status == 400


async def test_what_a_tenant_chose_does_not_keep_it_from_changing_other_settings() -> None:
    async with open_world() as world:
        acme = world.acme
        await world.ask("PUT", "/v1/secrets/provider.anthropic", {"value": PLANTED}, key=acme.admin)
        assert (await put(world, {"llm.provider": "anthropic"}, key=acme.admin)).status == 200
        await world.ask("DELETE", "/v1/secrets/provider.anthropic", key=acme.admin)
        assert (await put(world, {"limits.steps": 3}, key=acme.admin)).status == 200
        assert (await put(world, {"llm.provider": None}, key=acme.admin)).status == 200


async def test_every_write_is_in_the_audit_log_also_when_it_is_refused() -> None:
    async with open_world() as world:
        await put(world, {"limits.steps": 5, "llm.apiKey": PLANTED})
        await put(world, {"limits.steps": 5}, key=world.acme.admin)
        await put(world, {"system.port": 5}, key=world.acme.admin)
        await world.ask("POST", "/v1/config/rollback", {"to": 0})
        assert await world.audit() == [
            ("config.rollback", "server: limits.steps, llm.apiKey", "ok"),
            ("config.change", "server: limits.steps, llm.apiKey", "ok"),
        ]
        acme = world.acme.tenant_id
        assert await world.audit(acme) == [
            ("config.change", f"{acme}: system.port", "refused:access_denied"),
            ("config.change", f"{acme}: limits.steps", "ok"),
        ]


async def test_the_schema_is_a_schema() -> None:
    async with open_world() as world:
        schema = (await world.ask("GET", "/v1/config/schema")).body
        assert schema["properties"]["llm"]["properties"]["apiKey"]["writeOnly"]
        assert json.dumps(schema)


async def test_without_authentication_everybody_is_the_operator() -> None:
    async with open_world(auth=False) as world:
        assert (await put(world, {"limits.steps": 4}, key="")).status == 200
        assert world.vm.settings.settings_of(None).limits.steps == 4


async def test_a_derived_value_is_shown_with_its_reason() -> None:
    async with open_world() as world:
        model = (await world.ask("GET", "/v1/config/llm.model")).body
        assert ("value" in model, model["effective"]) == (False, "smollm2-135m")
        assert (model["source"], "so the embedded model answers" in model["why"]) == ("derived", True)
        auth = (await world.ask("GET", "/v1/config/system.auth")).body
        assert (auth["effective"], auth["value"], auth["why"]) == ("on", "on", "set by the program that started the server")
        steps = (await world.ask("GET", "/v1/config/limits.steps")).body
        assert (steps["effective"], steps["source"], steps["why"]) == (25, "default", "the default")


async def test_what_get_gives_can_be_edited_and_put_back() -> None:
    async with open_world() as world:
        await put(world, {"llm.apiKey": PLANTED})
        whole = (await world.ask("GET", "/v1/config?view=full")).body
        assert (await world.ask("PUT", "/v1/config", whole)).body["changed"] == []
        whole["config"]["limits"]["steps"] = 7
        outcome = await world.ask("PUT", "/v1/config", whole)
        assert [one["key"] for one in outcome.body["changed"]] == ["limits.steps"]
        assert await value(world, "limits.steps") == 7
        one = (await world.ask("GET", "/v1/config/limits.steps")).body
        outcome = await world.ask("PUT", "/v1/config/limits.steps", {**one, "value": 8})
        assert (outcome.status, await value(world, "limits.steps")) == (200, 8)
        assert (await world.ask("PUT", "/v1/config/limits.steps", {"value": None})).status == 200
        assert await value(world, "limits.steps") == 25


@pytest.mark.parametrize("member", ["changes", "config"])
async def test_a_change_of_very_many_unknown_settings_is_looked_at_as_far_as_the_bound(
    monkeypatch: pytest.MonkeyPatch, member: str
) -> None:
    looked_at = list[str]()
    monkeypatch.setattr(scope, "find", looked_at.append)
    async with open_world() as world:
        reply = await world.ask("PUT", "/v1/config", {member: {f"nope{number}": 1 for number in range(EDIT_KEYS_MAX * 10)}})
    assert (reply.status, "at most" in str(reply.body)) == (400, True)
    assert len(looked_at) <= 2 * (EDIT_KEYS_MAX + 1)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/config", {}, 400),
        ("/v1/config", {"changes": {}, "config": {}}, 400),
        ("/v1/config", {"config": {"limits": {"step": 1}}}, 400),
        ("/v1/config/limits.step", {"value": 1}, 404),
        ("/v1/config/limits.steps", {}, 400),
        ("/v1/config/limits.steps", {"value": "many"}, 400),
    ],
)
async def test_a_wrong_change_is_refused(path: str, body: object, status: int) -> None:
    async with open_world() as world:
        assert (await world.ask("PUT", path, body)).status == status
