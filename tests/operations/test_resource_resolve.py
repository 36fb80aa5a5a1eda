import json
import sys
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.server.http.fixtures import Reply, World, open_world


async def register(world: World, name: str = "hello", text: str = "Hello {{name}}!", **about: Any) -> Any:
    body = {"type": "prompts", "name": name, "content": {"text": text}, **about}
    return (await world.ask("POST", "/v1/resources", body, key=world.acme.admin)).body


async def resolve(world: World, uri: str, *, key: str | None = None, known: str | None = None, **query: str) -> Reply:
    headers = [] if known is None else [(b"if-none-match", known.encode())]
    path = f"/v1/resources/resolve?{urlencode({'uri': uri, **query})}"
    return await world.ask("GET", path, key=world.acme.admin if key is None else key, headers=headers)


async def test_a_uri_resolves_to_a_version_and_what_it_renders_to() -> None:
    async with open_world() as world:
        made = await register(world)
        found = await resolve(world, "resource://prompts/hello", args='{"name": "Ada"}')
        assert found.body["rendered"] == "Hello Ada!"
        assert found.body["resolved"] == "resource://prompts/hello@1.0.0"
        assert found.body["digest"] == made["digest"]
        assert found.body["lock"][0]["digest"] == made["digest"]
        missing = await resolve(world, "resource://prompts/hello")
        assert (missing.status, missing.code) == (422, "prompt_unresolved")
        assert missing.body["error"]["details"] == {"unresolved": ["name"]}


async def test_an_exact_version_may_be_kept_for_ever_and_a_floating_one_is_asked_again() -> None:
    async with open_world() as world:
        made = await register(world, text="Hello.")
        exact = await resolve(world, "resource://prompts/hello@1.0.0")
        assert exact.headers["etag"] == f'"{made["digest"]}"'
        assert "immutable" in exact.headers["cache-control"]
        # Another key may be another tenant, for whom the same URI is something else.
        assert exact.headers["vary"] == "Authorization"
        assert (await resolve(world, "resource://prompts/hello@1.0.0", known=exact.headers["etag"])).status == 304
        floating = await resolve(world, "resource://prompts/hello")
        assert "no-cache" in floating.headers["cache-control"]
        assert (await resolve(world, "resource://prompts/hello", known=floating.headers["etag"])).status == 304
        body = {"content": {"text": "Bye."}}
        await world.ask("PUT", f"/v1/resources/{made['id']}", body, key=world.acme.admin)
        changed = await resolve(world, "resource://prompts/hello", known=floating.headers["etag"])
        assert (changed.status, changed.body["rendered"]) == (200, "Bye.")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"uri": "prompts/hello"}, "resource_uri_invalid"),
        ({"uri": "resource://prompts/../hello"}, "resource_uri_invalid"),
        ({"uri": "resource://prompts/hello", "args": "[1]"}, "invalid_input"),
        ({"uri": "resource://prompts/hello", "args": "{"}, "invalid_input"),
        pytest.param(
            {"uri": "resource://prompts/hello", "args": '{"a":' + "[" * 5_000 + "]" * 5_000 + "}"},
            "invalid_input",
            marks=pytest.mark.skipif(sys.version_info >= (3, 12), reason="newer interpreters read JSON that is nested so deep"),
        ),
        ({"uri": "resource://prompts/hello", "lock": "{}"}, "invalid_input"),
        ({"uri": "resource://prompts/hello", "expand": "all"}, "invalid_input"),
    ],
    ids=lambda value: str(value)[:80],
)
async def test_a_question_that_cannot_be_understood_is_refused(query: dict[str, str], code: str) -> None:
    async with open_world() as world:
        refused = await world.ask("GET", f"/v1/resources/resolve?{urlencode(query)}", key=world.acme.admin)
        assert (refused.status, refused.code) == (400, code)


async def test_what_is_not_yours_is_answered_like_what_is_not_there() -> None:
    async with open_world() as world:
        await register(world, text="secret")
        foreign = await resolve(world, "resource://prompts/acme/hello", key=world.bolt.admin)
        absent = await resolve(world, "resource://prompts/acme/nope", key=world.bolt.admin)
        assert foreign.status == absent.status == 404
        assert foreign.but_its_id()[1].replace(b"hello", b"nope") == absent.but_its_id()[1]


async def test_a_lock_that_does_not_hold_is_a_conflict() -> None:
    async with open_world() as world:
        made = await register(world, text="Hello.")
        lock = json.dumps((await resolve(world, "resource://prompts/hello")).body["lock"])
        assert (await resolve(world, "resource://prompts/hello", lock=lock)).status == 200
        await world.ask("PUT", f"/v1/resources/{made['id']}", {"content": {"text": "Bye."}}, key=world.acme.admin)
        refused = await resolve(world, "resource://prompts/hello", lock=lock)
        assert (refused.status, refused.code) == (409, "resource_lock_mismatch")


async def test_of_several_one_that_fails_does_not_hinder_the_others() -> None:
    async with open_world() as world:
        await register(world)
        uris = ["resource://prompts/hello", "resource://prompts/nope", "nonsense"]
        body = {"uris": uris, "args": {"name": "Ada"}}
        found = (await world.ask("POST", "/v1/resources/resolve", body, key=world.acme.admin)).items
        assert found[0]["resolved"]["rendered"] == "Hello Ada!"
        assert [item["error"]["code"] for item in found[1:]] == ["resource_not_found", "resource_uri_invalid"]


@pytest.mark.parametrize("body", [{}, {"uri": "resource://prompts/a", "uris": []}, {"uris": ["resource://prompts/a"] * 101}])
async def test_one_or_several_and_not_too_many(body: dict[str, Any]) -> None:
    async with open_world() as world:
        assert (await world.ask("POST", "/v1/resources/resolve", body, key=world.acme.admin)).status == 400


async def test_long_arguments_go_into_the_body() -> None:
    async with open_world() as world:
        await register(world)
        body = {"uri": "resource://prompts/hello", "args": {"name": "A" * 50_000}}
        found = await world.ask("POST", "/v1/resources/resolve", body, key=world.acme.admin)
        assert found.body["rendered"] == f"Hello {'A' * 50_000}!"


async def test_what_several_uris_come_to_is_bounded() -> None:
    async with open_world() as world:
        await register(world, text="x" * 1_000_000)
        body = {"uris": ["resource://prompts/hello"] * 20}
        items = (await world.ask("POST", "/v1/resources/resolve", body, key=world.acme.admin)).items
        codes = [item.get("error", {}).get("code") for item in items]
        assert 8 <= codes.count(None) <= 10
        assert set(codes[codes.count(None) :]) == {"resource_too_large"}


async def test_what_was_resolved_is_gone_with_its_tenant_and_moves_with_its_slug() -> None:
    async with open_world() as world:
        await register(world, text="Hello.", visibility="public")
        assert (await resolve(world, "resource://prompts/acme/hello", key=world.bolt.admin)).status == 200
        assert (await world.ask("PUT", f"/v1/tenants/{world.acme.tenant_id}", {"slug": "zenith"})).status == 200
        assert (await resolve(world, "resource://prompts/acme/hello", key=world.bolt.admin)).status == 404
        assert (await resolve(world, "resource://prompts/zenith/hello", key=world.bolt.admin)).status == 200
        assert (await world.ask("DELETE", f"/v1/tenants/{world.acme.tenant_id}")).status == 204
        assert (await resolve(world, "resource://prompts/zenith/hello", key=world.bolt.admin)).status == 404
