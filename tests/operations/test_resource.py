from typing import Any
from urllib.parse import quote

import pytest
from tests.operations.fixtures import Desk, open_desk
from tests.server.http.fixtures import Reply, World, open_world

from agentvm.model.account import Quota
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.principal import Principal

GREETING = {
    "type": "prompt",
    "name": "greeting",
    "content": {"text": "Hello {{name}}!"},
    "description": "Greets",
    "tags": ["问候"],
}

TEXT = {"text": "Sell {{product}}."}
SALES = {"type": "prompt", "name": "sales-v2", "content": TEXT, "description": "Sells", "tags": ["销售"]}


async def register(world: World, key: str | None = None, **about: Any) -> Reply:
    return await world.ask("POST", "/v1/resources", {**GREETING, **about}, key=world.acme.admin if key is None else key)


def at(uri: str, rest: str = "") -> str:
    return f"/v1/resources/{quote(uri, safe='')}{rest}"


async def test_a_prompt_is_registered_and_read_again() -> None:
    async with open_world() as world:
        made = await register(world)
        assert made.status == 201
        assert made.body["uri"] == "resource://prompts/greeting@1.0.0"
        assert made.body["resource"]["visibility"] == "private"
        for named in (made.body["id"], "resource://prompts/greeting", "resource://prompts/acme/greeting"):
            read = await world.ask("GET", at(named), key=world.acme.admin)
            assert read.body["content"] == {"text": "Hello {{name}}!"}
            assert read.body["version"]["version"] == "1.0.0"
            assert read.headers["etag"].startswith(f'"{made.body["digest"]}')
            assert read.headers["vary"] == "Authorization"


async def test_registering_the_same_again_changes_nothing() -> None:
    async with open_world() as world:
        first, again = await register(world), await register(world)
        assert (first.status, again.status) == (201, 200)
        assert first.body["id"] == again.body["id"]
        other = await register(world, content={"text": "Other"}, version="2.0.0")
        assert (other.status, other.code) == (409, "resource_exists")


@pytest.mark.parametrize(
    ("about", "status", "code"),
    [
        ({"type": "poems"}, 400, "invalid_input"),
        ({"name": "../x"}, 400, "invalid_input"),
        ({"version": "one"}, 400, "invalid_input"),
        ({"content": {"txt": "x"}}, 422, "resource_invalid"),
        ({"content": "text"}, 400, "invalid_input"),
        ({"contents": {}}, 400, "invalid_input"),
        ({"content": {"text": "{{> resource://prompts/absent}}"}}, 404, "resource_not_found"),
        ({"content": {"text": "{{> resource://prompts/greeting}}"}}, 422, "resource_cycle"),
        ({"dependencies": {"a": "nonsense"}}, 400, "resource_uri_invalid"),
        ({"visibility": "shared"}, 400, "invalid_input"),
        ({"tag": "latest"}, 400, "invalid_input"),
    ],
    ids=str,
)
async def test_what_does_not_fit_is_refused(about: dict[str, Any], status: int, code: str) -> None:
    async with open_world() as world:
        refused = await register(world, **about)
        assert (refused.status, refused.code) == (status, code)
        assert (await world.ask("GET", "/v1/resources?scope=own", key=world.acme.admin)).body["total"] == 0


async def test_a_new_version_is_published_and_metadata_is_changed() -> None:
    async with open_world() as world:
        made = (await register(world)).body
        path = f"/v1/resources/{made['id']}"
        second = await world.ask("PUT", path, {"content": {"text": "Hi {{name}}!"}, "bump": "minor"}, key=world.acme.admin)
        assert second.body["version"] == "1.1.0"
        assert second.body["resource"]["description"] == "Greets"
        named = await world.ask("PUT", path, {"description": None, "tags": ["x"], "deprecated": "Old."}, key=world.acme.admin)
        assert named.body["version"] == "1.1.0"
        assert "description" not in named.body["resource"]
        assert (named.body["resource"]["tags"], named.body["resource"]["deprecated"]) == (["x"], "Old.")


async def test_who_has_not_seen_the_latest_changes_nothing() -> None:
    async with open_world() as world:
        made = (await register(world)).body
        path, seen = f"/v1/resources/{made['id']}", [(b"if-match", f'"{made["digest"]}"'.encode())]
        body: dict[str, object] = {"content": {"text": "2"}}
        assert (await world.ask("PUT", path, body, key=world.acme.admin, headers=seen)).status == 200
        for late in ({"content": {"text": "3"}}, {"description": "late"}):
            refused = await world.ask("PUT", path, late, key=world.acme.admin, headers=seen)
            assert (refused.status, refused.code) == (412, "precondition_failed")


@pytest.mark.parametrize("body", [{"version": "2.0.0"}, {"bump": "major"}, {"tag": "stable"}], ids=str)
async def test_what_is_about_a_version_needs_one(body: dict[str, Any]) -> None:
    async with open_world() as world:
        made = (await register(world)).body
        assert (await world.ask("PUT", f"/v1/resources/{made['id']}", body, key=world.acme.admin)).status == 400


async def test_who_knows_a_resource_is_sent_nothing_again_until_something_about_it_has_changed() -> None:
    async with open_world() as world:
        path = f"/v1/resources/{(await register(world)).body['id']}"
        seen = (await world.ask("GET", path, key=world.acme.admin)).headers["etag"].encode()
        known = [(b"if-none-match", seen)]
        reply = await world.ask("GET", path, key=world.acme.admin, headers=known)
        assert (reply.status, reply.raw) == (304, b"")
        change = {"deprecated": "use another"}
        assert (await world.ask("PUT", path, change, key=world.acme.admin, headers=[(b"if-match", seen)])).status == 200
        fresh = await world.ask("GET", path, key=world.acme.admin, headers=known)
        assert (fresh.status, fresh.body["resource"]["deprecated"]) == (200, "use another")
        revised = {"content": {"text": "2"}}
        assert (await world.ask("PUT", path, revised, key=world.acme.admin, headers=[(b"if-match", seen)])).status == 200
        assert (await world.ask("PUT", path, revised, key=world.acme.admin, headers=[(b"if-match", seen)])).status == 412


async def test_resources_are_found_in_chinese_and_english_with_the_true_total() -> None:
    async with open_world() as world:
        for number in range(5):
            await register(world, name=f"greeting-{number}")
        await register(world, name="other", description="翻译助手", tags=[])

        async def ask(query: str) -> Reply:
            return await world.ask("GET", f"/v1/resources?scope=own&{query}", key=world.acme.admin)

        assert [item["name"] for item in (await ask(f"q={quote('翻译')}")).items] == ["other"]
        first = (await ask(f"q={quote('问候')}&limit=2")).body
        assert (first["total"], len(first["items"])) == (5, 2)
        second = (await ask(f"q={quote('问候')}&limit=2&cursor={quote(first['nextCursor'])}")).body
        third = (await ask(f"q={quote('问候')}&limit=2&cursor={quote(second['nextCursor'])}")).body
        names = [item["name"] for page in (first, second, third) for item in page["items"]]
        assert sorted(names) == [f"greeting-{number}" for number in range(5)]
        assert (second["total"], "nextCursor" in third) == (5, False)
        assert (await ask("cursor=nonsense")).status == 400
        assert all("content" not in item for item in first["items"])


async def test_filters_narrow_the_search() -> None:
    async with open_world() as world:
        await register(world)
        await register(world, name="public", visibility="public", content={"text": "x"})
        await register(world, name="whole", content={"text": "{{> resource://prompts/greeting}}"})

        async def names(query: str, key: str) -> set[str]:
            reply = await world.ask("GET", f"/v1/resources?{query}", key=key)
            return {item["name"] for item in reply.items if item["owner"] != "system"}

        admin, other = world.acme.admin, world.bolt.admin
        assert await names("scope=own&type=prompts", admin) == {"greeting", "public", "whole"}
        assert await names("scope=own&type=tool", admin) == set()
        assert await names("visibility=public", admin) == {"public"}
        assert await names(f"tag={quote('问候')}", admin) == {"greeting", "public", "whole"}
        assert await names(f"dependsOn={quote('resource://prompts/greeting')}", admin) == {"whole"}
        assert await names("owner=acme", other) == {"public"}
        assert await names("scope=own", other) == set()


async def test_only_an_administrator_deletes_by_force() -> None:
    async with open_world() as world:
        made = (await register(world)).body
        await register(world, name="whole", content={"text": "{{> resource://prompts/greeting}}"})
        path = f"/v1/resources/{made['id']}"
        refused = await world.ask("DELETE", path, key=world.acme.admin)
        assert (refused.status, refused.code) == (409, "resource_in_use")
        assert refused.body["error"]["details"]["referrers"]
        weak = await world.key(world.acme.tenant_id, ["resources:write", "resources:read"])
        assert (await world.ask("DELETE", f"{path}?force=true", key=weak)).status == 403
        assert (await world.ask("DELETE", f"{path}?force=true", key=world.acme.admin)).status == 204
        assert (await world.ask("GET", path, key=world.acme.admin)).status == 404


async def test_to_publish_needs_a_permission_of_its_own() -> None:
    async with open_world() as world:
        weak = await world.key(world.acme.tenant_id, ["resources:write", "resources:read"])
        refused = await register(world, weak, visibility="public")
        assert (refused.status, refused.code) == (403, "permission_denied")
        assert "resources:publish" in refused.body["error"]["message"]


async def test_what_ships_with_the_server_is_read_only() -> None:
    async with open_world() as world:
        found = (await world.ask("GET", "/v1/resources?owner=system&type=agents", key=world.acme.admin)).items
        assert {"assistant", "translator"} <= {item["name"] for item in found}
        refused = await world.ask("PUT", f"/v1/resources/{found[0]['id']}", {"description": "x"}, key=world.acme.admin)
        assert (refused.status, refused.code) == (403, "access_denied")
        assert (await world.ask("DELETE", f"/v1/resources/{found[0]['id']}?force=true")).status == 403


async def test_the_quota_of_resources_holds_also_for_those_who_come_at_once() -> None:
    async with open_world() as world:
        await world.ask("PUT", "/v1/quotas?tenant=acme", {"metric": "resources", "hard": 2})
        replies = [await register(world, name=f"greeting-{number}") for number in range(3)]
        assert [reply.status for reply in replies] == [201, 201, 429]
        assert replies[2].body["error"]["details"]["metric"] == "resources"


async def test_a_new_version_needs_room_as_well() -> None:
    async with open_world() as world:
        path = f"/v1/resources/{(await register(world)).body['id']}"
        await world.ask("PUT", "/v1/quotas?tenant=acme", {"metric": "storage_bytes", "hard": 1})
        refused = await world.ask("PUT", path, {"content": {"text": "more"}}, key=world.acme.admin)
        assert (refused.status, refused.body["error"]["details"]["metric"]) == (429, "storage_bytes")
        assert (await world.ask("PUT", path, {"description": "less"}, key=world.acme.admin)).status == 200


async def test_every_write_is_in_the_audit_log() -> None:
    async with open_world() as world:
        made = (await register(world)).body
        await world.ask("PUT", f"/v1/resources/{made['id']}", {"description": "x"}, key=world.acme.admin)
        await world.ask("DELETE", f"/v1/resources/{made['id']}", key=world.acme.admin)
        assert await world.audit(world.acme.tenant_id) == [
            ("resource.delete", made["id"], "ok"),
            ("resource.change", made["id"], "ok"),
            ("resource.register", "prompts/greeting", "ok"),
        ]


async def test_the_types_are_listed_with_their_schemas() -> None:
    async with open_world() as world:
        found = (await world.ask("GET", "/v1/resources/types", key=world.acme.admin)).items
        assert [item["type"] for item in found] == ["prompts", "tools", "sandboxes", "agents", "knowledge", "skills"]
        assert all(item["schema"] for item in found)


async def test_a_uri_that_is_not_encoded_is_told_how_and_nothing_is_no_change() -> None:
    async with open_world() as world:
        refused = await world.ask("PUT", "/v1/resources/resource://prompts/sales", {"description": "x"})
        assert (refused.status, "percent-encode" in refused.body["error"]["message"]) == (404, True)
        made = await world.ask("POST", "/v1/resources", {"type": "prompts", "name": "sales", "content": {"text": "Sell."}})
        nothing = await world.ask("PUT", f"/v1/resources/{made.body['id']}", {})
        assert (nothing.status, "nothing to change" in nothing.body["error"]["message"]) == (400, True)


async def test_a_prompt_is_registered_found_resolved_and_referred_to() -> None:
    async with open_desk() as desk:
        made = await desk.ask("resource_register", **SALES)
        assert (made["uri"], made["version"]) == ("resource://prompts/sales-v2@1.0.0", "1.0.0")
        found = await desk.ask("resource_list", q="销售")
        assert [record["uri"] for record in found["records"]] == ["resource://prompts/sales-v2"]
        assert found["total"] == 1
        resolved = await desk.ask("resource_resolve", uri="resource://prompts/sales-v2", args={"product": "tea"})
        assert (resolved["rendered"], resolved["digest"]) == ("Sell tea.", made["digest"])
        config = {"systemPrompt": "resource://prompts/sales-v2", "variables": {"product": "tea"}}
        image = (await desk.ask("image_create", containerId="c1", config=config))["record"]
        assert image["systemPrompt"] == "Sell tea."


async def test_registering_the_same_again_changes_nothing_and_another_is_a_conflict() -> None:
    async with open_desk() as desk:
        first = await desk.ask("resource_register", **SALES)
        assert first.pop("created")
        assert await desk.ask("resource_register", **SALES) == first
        other = await desk.ask("resource_register", **{**SALES, "content": {"text": "Other."}})
        assert other["errorCode"] == "resource_exists"
        assert all(way in other["error"] for way in ("PUT /v1/resources/{id}", "resource_publish", "--bump"))


async def test_a_new_version_is_published_by_number_or_as_the_next() -> None:
    async with open_desk() as desk:
        made = await desk.ask("resource_register", **SALES)
        uri, more = "resource://prompts/sales-v2", {"text": "Sell more {{product}}."}
        assert (await desk.ask("resource_publish", uri=uri, content=more))["uri"] == f"{uri}@1.0.1"
        found = await desk.ask("resource_publish", uri=made["record"]["id"], content=TEXT, bump="major", tag="stable")
        assert (found["version"], found["digest"]) == ("2.0.0", made["digest"])
        told = await desk.ask("resource_publish", uri=uri, content=more, version="2.1.0", description="Sells more", tags=["a"])
        assert (told["version"], told["record"]["description"], told["record"]["tags"]) == ("2.1.0", "Sells more", ["a"])
        stable = await desk.ask("resource_resolve", uri=f"{uri}@stable", args={"product": "tea"})
        assert (stable["resolved"], stable["rendered"]) == (f"{uri}@2.0.0", "Sell tea.")
        entries = await desk.peer.workspace.accounts.audit.list(action="resource.change")
        assert [(entry.target, entry.result) for _, entry in entries] == [("prompts/sales-v2", "ok")] * 3


async def test_a_version_never_changes_and_others_resources_are_not_published() -> None:
    async with open_desk() as desk:
        await desk.ask("resource_register", **SALES)
        uri, other = "resource://prompts/sales-v2", {"text": "Other."}

        async def code(**data: object) -> object:
            return (await desk.ask("resource_publish", **data))["errorCode"]

        assert await code(uri=uri, content=other, version="1.0.0") == "resource_version_exists"
        assert await code(uri=uri, content=other, version="1.1.0", bump="minor") == "invalid_input"
        assert await code(uri=uri) == "invalid_input"
        assert await code(uri=f"{uri}@2.0.0", content=other) == "invalid_input"
        assert await code(uri=uri, content={}) == "resource_invalid"
        assert await code(uri="resource://prompts/absent", content=other) == "resource_not_found"
        assert await code(uri="resource://prompts/assistant", content=other) == "access_denied"
        await desk.limit("storage_bytes", 0)
        assert await code(uri=uri, content=other) == "quota_exceeded"


@pytest.mark.parametrize(
    ("command", "data", "code"),
    [
        ("resource_register", {**SALES, "type": "poem"}, "invalid_input"),
        ("resource_register", {**SALES, "content": {}}, "resource_invalid"),
        ("resource_register", {"type": "prompt"}, "invalid_input"),
        ("resource_list", {"limit": 101}, "invalid_input"),
        ("resource_list", {"cursor": "nonsense"}, "invalid_input"),
        ("resource_resolve", {"uri": "nonsense"}, "resource_uri_invalid"),
        ("resource_resolve", {"uri": "resource://prompts/absent"}, "resource_not_found"),
    ],
)
async def test_a_command_that_does_not_fit_is_refused(command: str, data: dict[str, object], code: str) -> None:
    async with open_desk() as desk:
        assert (await desk.ask(command, **data))["errorCode"] == code


async def test_a_peer_needs_the_permissions_that_http_needs() -> None:
    async with open_desk() as desk:
        reading = Principal(tenant_id=DEFAULT_TENANT, permissions=frozenset({"resources:read"}))
        weak = Desk(desk.vm, desk.vm.attach(reading))
        assert (await weak.ask("resource_register", **SALES))["errorCode"] == "permission_denied"
        assert (await weak.ask("resource_list", scope="own"))["total"] == 0
        may = frozenset({"resources:read", "resources:write"})
        writer = Desk(desk.vm, desk.vm.attach(Principal(tenant_id=DEFAULT_TENANT, permissions=may)))
        assert (await writer.ask("resource_register", **SALES, visibility="public"))["errorCode"] == "permission_denied"
        assert (await writer.ask("resource_register", **SALES))["version"] == "1.0.0"


async def test_the_quota_and_the_audit_log_know_of_it() -> None:
    async with open_desk() as desk:
        await desk.peer.workspace.accounts.quotas.put(Quota(metric="resources", hard=1), 1)
        await desk.ask("resource_register", **SALES)
        refused = await desk.ask("resource_register", **{**SALES, "name": "more"})
        assert refused["errorCode"] == "quota_exceeded"
        entries = await desk.peer.workspace.accounts.audit.list(action="resource.register")
        assert [(entry.target, entry.result) for _, entry in entries] == [
            ("prompts/more", "refused:quota_exceeded"),
            ("prompts/sales-v2", "ok"),
        ]


async def test_an_agent_does_not_take_the_name_of_a_definition() -> None:
    async with open_desk() as desk:
        await desk.ask("definition_register", definition={"name": "poet", "systemPrompt": "Rhyme."})
        other = await desk.ask("resource_register", type="agent", name="poet", content={"systemPrompt": "Write prose."})
        assert other["errorCode"] == "definition_conflict"
        same = await desk.ask("resource_register", type="agent", name="poet", content={"systemPrompt": "Rhyme."})
        assert same["version"] == "1.0.0"


async def test_a_dry_run_checks_everything_and_stores_nothing() -> None:
    async with open_world() as world:
        key = world.acme.admin
        checked = await register(world, dryRun=True)
        assert (checked.status, checked.body["version"]) == (201, "1.0.0")
        assert (await world.ask("GET", at("resource://prompts/greeting"), key=key)).status == 404
        made = await register(world)
        assert (made.status, made.body["digest"]) == (201, checked.body["digest"])
        assert (await register(world, content={"text": "x"}, dryRun=True)).code == "resource_exists"

        body: dict[str, object] = {"content": {"text": "Hi {{name}}!"}, "bump": "minor", "dryRun": True}
        revised = await world.ask("PUT", at(made.body["id"]), body, key=key)
        assert revised.body["version"] == "1.1.0"
        read = await world.ask("GET", at(made.body["id"]), key=key)
        assert (read.body["resource"]["latest"], read.body["content"]) == ("1.0.0", GREETING["content"])
        stale = [(b"if-match", b'"sha256:0"')]
        assert (await world.ask("PUT", at(made.body["id"]), body, key=key, headers=stale)).status == 412
        assert (await world.ask("PUT", at(made.body["id"]), {"description": "x", "dryRun": True}, key=key)).status == 400
        audit = await world.audit(world.acme.tenant_id)
        assert [result for action, _, result in audit if action.startswith("resource.")].count("ok") == 1


async def test_a_dry_run_over_a_socket_stores_nothing_either() -> None:
    async with open_desk() as desk:
        await desk.ask("resource_register", **SALES)
        draft = {"uri": "resource://prompts/sales-v2", "content": {"text": "Sell more."}, "dryRun": True}
        assert (await desk.ask("resource_publish", **draft))["version"] == "1.0.1"
        assert (await desk.ask("resource_publish", **{**draft, "dryRun": False}))["version"] == "1.0.1"


@pytest.mark.parametrize(
    ("kind", "content", "path"),
    [
        ("prompts", {"text": 1}, "text"),
        ("prompts", {"text": "x", "varables": {}}, "varables"),
        ("prompts", {"text": "x", "variables": {"type": "object", "properties": {"a": {"type": "strng"}}}}, "variables"),
        ("agents", {"systemPrompt": "x", "tools": ["resource://prompts/x"]}, "tools.0"),
        ("agents", {"systemPrompt": "resource://prompts/nobody"}, "systemPrompt"),
        ("tools", {"runtime": "builtin", "entry": "x", "description": "x", "inputSchema": {"type": "array"}}, "inputSchema"),
    ],
)
async def test_a_refused_content_names_the_place(kind: str, content: dict[str, object], path: str) -> None:
    async with open_world() as world:
        refused = await register(world, type=kind, name="draft", content=content, dryRun=True)
        assert refused.status in (404, 422), refused.body
        assert str(refused.body["error"]["details"]["path"]).startswith(path)
