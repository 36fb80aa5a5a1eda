from typing import Any
from urllib.parse import quote

import pytest
from tests.server.http.fixtures import World, open_world


async def register(world: World, kind: str, name: str, content: dict[str, Any], **about: Any) -> Any:
    body = {"type": kind, "name": name, "content": content, **about}
    return (await world.ask("POST", "/v1/resources", body, key=world.acme.admin)).body


async def test_what_is_exported_is_imported_by_another_tenant_and_exported_the_same() -> None:
    async with open_world() as world:
        await register(world, "prompts", "part", {"text": "part"})
        made = await register(world, "prompts", "whole", {"text": "{{> resource://prompts/part}}"})
        out = await world.ask("GET", f"/v1/resources/{made['id']}/export", key=world.acme.admin)
        assert out.headers["content-type"].startswith("application/gzip")
        again = await world.ask("GET", f"/v1/resources/{made['id']}/export", key=world.acme.admin)
        assert out.raw == again.raw
        path = "/v1/resources/import"
        tried = await world.ask("POST", f"{path}?dryRun=true", raw=out.raw, key=world.bolt.admin)
        assert [item["outcome"] for item in tried.items] == ["created", "created"]
        own = "/v1/resources?scope=own"
        assert (await world.ask("GET", own, key=world.bolt.admin)).body["total"] == 0
        done = await world.ask("POST", path, raw=out.raw, key=world.bolt.admin)
        assert [item["outcome"] for item in done.items] == ["created", "created"]
        twice = await world.ask("POST", path, raw=out.raw, key=world.bolt.admin)
        assert [item["outcome"] for item in twice.items] == ["unchanged", "unchanged"]
        found = await world.ask("GET", "/v1/resources/resolve?uri=resource://prompts/whole", key=world.bolt.admin)
        assert found.body["rendered"] == "part"
        assert found.body["digest"] == made["digest"]


async def test_a_uri_means_the_version_that_it_names() -> None:
    async with open_world() as world:
        for number in (1, 2):
            content = {"documents": [{"id": "a.md", "text": f"tea {number}"}]}
            path = "/v1/resources" + (f"/{quote('resource://knowledge/docs', safe='')}" if number == 2 else "")
            body = {"content": content} if number == 2 else {"type": "knowledge", "name": "docs", "content": content}
            made = await world.ask("PUT" if number == 2 else "POST", path, body, key=world.acme.admin)
            assert made.status < 300, made.raw
        first, absent = (
            f"/v1/resources/{quote(f'resource://knowledge/docs@{version}', safe='')}" for version in ("1.0.0", "9.9.9")
        )
        shown = await world.ask("GET", first, key=world.acme.admin)
        assert shown.body["content"]["documents"][0]["text"] == "tea 1"
        found = await world.ask("POST", f"{first}/query", {"q": "tea"}, key=world.acme.admin)
        assert [passage["text"] for passage in found.body["passages"]] == ["tea 1"]
        assert (await world.ask("GET", f"{first}?version=1.0.1", key=world.acme.admin)).body["version"]["version"] == "1.0.1"
        for method, path in (("GET", absent), ("POST", f"{absent}/query"), ("GET", f"{absent}/export")):
            assert (
                await world.ask(method, path, {"q": "tea"} if method == "POST" else None, key=world.acme.admin)
            ).status == 404


async def test_an_import_is_within_the_quota_or_not_at_all() -> None:
    async with open_world() as world:
        await register(world, "prompts", "part", {"text": "part"})
        made = await register(world, "prompts", "whole", {"text": "{{> resource://prompts/part}}"})
        out = await world.ask("GET", f"/v1/resources/{made['id']}/export", key=world.acme.admin)
        await world.ask("PUT", "/v1/quotas?tenant=bolt", {"metric": "resources", "hard": 1})
        refused = await world.ask("POST", "/v1/resources/import", raw=out.raw, key=world.bolt.admin)
        assert refused.status == 429
        assert (await world.ask("GET", "/v1/resources?scope=own", key=world.bolt.admin)).body["total"] == 0


@pytest.mark.parametrize("raw", [b"", b"nonsense", b"\x1f\x8b\x08\x00", b"{}"])
async def test_what_is_no_archive_is_refused(raw: bytes) -> None:
    async with open_world() as world:
        refused = await world.ask("POST", "/v1/resources/import", raw=raw, key=world.acme.admin)
        assert refused.status == 422
        assert refused.code == "resource_invalid"


async def test_a_binary_part_is_read_again_and_only_through_its_version() -> None:
    async with open_world() as world:
        made = await register(
            world, "knowledge", "docs", {"documents": [{"id": "logo", "file": {"data": "AAEC/w=="}, "mime": "image/png"}]}
        )
        one = f"/v1/resources/{made['id']}"
        content = (await world.ask("GET", one, key=world.acme.admin)).body["content"]
        digest = content["documents"][0]["file"]["blob"]
        part = await world.ask("GET", f"{one}/blobs/{digest}", key=world.acme.admin)
        assert part.raw == b"\x00\x01\x02\xff"
        assert part.headers["content-disposition"] == "attachment"
        assert (await world.ask("GET", f"{one}/blobs/{digest}", key=world.bolt.admin)).status == 404
        assert (await world.ask("GET", f"{one}/blobs/sha256:{'0' * 64}", key=world.acme.admin)).status == 404
        assert (await world.ask("GET", f"{one}/blobs/passwd", key=world.acme.admin)).status == 400


async def test_a_knowledge_base_is_searched_and_a_citation_opened_by_who_may_read_it() -> None:
    async with open_world() as world:
        text = "# Returns\n\nWithin seven days. 七天之内可以退货。"
        made = await register(world, "knowledge", "docs", {"documents": [{"id": "a", "text": text}]})
        path, admin = f"/v1/resources/{made['id']}/query", world.acme.admin
        (found,) = (await world.ask("POST", path, {"q": "可以退货吗"}, key=admin)).body["passages"]
        assert (found["text"], found["cite"]) == (text, f"resource://knowledge/docs@1.0.0#a:0-{len(text)}")
        opened = await world.ask("GET", f"/v1/passages?cite={quote(found['cite'])}", key=admin)
        assert opened.body["text"] == text
        assert (await world.ask("GET", f"/v1/passages?cite={quote(found['cite'])}", key=world.bolt.admin)).status == 404
        assert (await world.ask("POST", path, {"q": "tea"}, key=world.bolt.admin)).status == 404
        assert (await world.ask("GET", "/v1/passages?cite=nothing", key=admin)).status == 400
        paged = quote(found["cite"].replace("#a:", "#a:p1:"))
        assert (await world.ask("GET", f"/v1/passages?cite={paged}", key=admin)).status == 404
        for wrong in ({}, {"q": ""}, {"q": "x", "k": 0}, {"q": "x", "k": 21}, {"q": "x" * 2_001}):
            assert (await world.ask("POST", path, wrong, key=admin)).status == 400
        prompt = await register(world, "prompts", "hello", {"text": "x"})
        assert (await world.ask("POST", f"/v1/resources/{prompt['id']}/query", {"q": "x"}, key=admin)).status == 422
