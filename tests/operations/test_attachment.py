import hashlib
from io import BytesIO
from typing import Any

import pytest
from tests.conformance.attachments import referring
from tests.operations.fixtures import open_desk
from tests.server.http.fixtures import Account, Reply, World, open_world, request

from agentvm.model.account import Quota
from agentvm.model.attachment import reference_to
from agentvm.model.ids import ContainerId, SessionId, TenantId
from agentvm.model.principal import MEMBER
from agentvm.storage.attachments import CHUNK_BYTES, Upload
from agentvm.vm import ATTACHMENT_GRACE_MS

BODY = b"\x89PNG" + b"x" * CHUNK_BYTES
DIGEST = f"sha256:{hashlib.sha256(BODY).hexdigest()}"
PNG = ((b"content-type", b"image/png"),)


async def upload(world: World, key: str, query: str = "", body: bytes = BODY, headers: Any = PNG) -> Reply:
    return await world.ask("POST", f"/v1/attachments{query}", key=key, raw=body, headers=headers)


async def home(world: World, account: Account, container: str = "shared") -> None:
    await world.vm.tenancy.store.tenant(account.tenant_id).container(ContainerId(container)).create(1)


async def download(world: World, key: str, query: str = "", method: str = "GET", **about: Any) -> Reply:
    return await world.ask(method, f"/v1/attachments/{DIGEST}{query}", key=key, **about)


async def test_a_file_is_uploaded_once_and_comes_back_as_it_was() -> None:
    async with open_world() as world:
        await home(world, world.acme)
        made = await upload(world, world.acme.user, "?name=%E5%8C%97.png")
        assert made.status == 201
        assert made.body == {
            "attachment": reference_to(DIGEST), "digest": DIGEST, "containerId": "shared", "size": len(BODY),
            "mediaType": "image/png", "createdAt": world.clock.now, "name": "北.png", "uploadedBy": world.acme.user_id,
        }  # fmt: skip
        again = await upload(world, world.acme.user, "?container=shared&name=%E5%8C%97.png")
        assert (again.status, again.body) == (200, made.body)
        for named in (DIGEST, reference_to(DIGEST), DIGEST.removeprefix("sha256:")):
            found = await world.ask("GET", f"/v1/attachments/{named}", key=world.acme.user)
            assert (found.status, found.raw) == (200, BODY)
        listed = await world.ask("GET", "/v1/attachments?container=shared", key=world.acme.user)
        assert listed.body == {"items": [made.body]}
        assert ("attachment.upload", f"shared/{DIGEST}", "ok") in await world.audit(world.acme.tenant_id)


async def test_a_download_is_a_file_and_no_page_and_may_be_kept_by_its_reader() -> None:
    async with open_world() as world:
        await home(world, world.acme)
        await upload(world, world.acme.user, "?name=..%2Fa%22%5C%25%E5%8C%97.html", headers=((b"content-type", b"text/html"),))
        found = await download(world, world.acme.user)
        assert found.headers["content-type"] == "text/html"
        assert found.headers["content-length"] == str(len(BODY))
        assert found.headers["content-disposition"] == (
            "attachment; filename=\".._a____.html\"; filename*=UTF-8''.._a%22_%25%E5%8C%97.html"
        )
        assert found.headers["x-content-type-options"] == "nosniff"
        assert found.headers["content-security-policy"].startswith("sandbox")
        assert found.headers["cache-control"] == "private, max-age=31536000, immutable"
        assert found.headers["etag"] == f'"{DIGEST}"'
        same = await download(world, world.acme.user, headers=((b"if-none-match", f'"{DIGEST}"'.encode()),))
        assert (same.status, same.raw) == (304, b"")
        head = await download(world, world.acme.user, method="HEAD")
        assert (head.status, head.raw) == (200, b"")
        wanted = ("content-length", "content-type", "etag", "content-disposition", "cache-control")
        assert {name: head.headers[name] for name in wanted} == {name: found.headers[name] for name in wanted}


async def test_knowing_a_digest_opens_nothing() -> None:
    """Of another tenant, of another container, of a colleague who was given less: as if there were nothing."""
    async with open_world() as world:
        for account in (world.acme, world.bolt):
            await home(world, account)
        await home(world, world.acme, "other")
        await upload(world, world.acme.user)
        absent = await world.ask("GET", f"/v1/attachments/sha256:{'0' * 64}?container=shared", key=world.bolt.admin)
        assert (absent.status, absent.code) == (404, "attachment_not_found")
        tried = [
            await download(world, key, query, method)
            for method in ("GET", "DELETE")
            for key, query in ((world.bolt.admin, "?container=shared"), (world.acme.admin, "?container=other"))
        ]
        for reply in tried:
            assert reply.status == 404
            assert reply.body["error"]["message"].replace(DIGEST, "") == absent.body["error"]["message"].replace(
                f"sha256:{'0' * 64}", ""
            )
        assert (await download(world, world.bolt.admin, "?container=shared", "HEAD")).status == 404
        cached = await download(world, world.bolt.admin, "?container=shared", headers=((b"if-none-match", b"*"),))
        assert cached.status == 404
        narrow = await world.key(world.acme.tenant_id, MEMBER, containers=["other"])
        refused = await download(world, narrow, "?container=shared")
        assert (refused.status, refused.code) == (403, "container_forbidden")
        assert (await download(world, narrow)).code == "attachment_not_found"
        assert (await download(world, world.acme.user)).raw == BODY


@pytest.mark.parametrize(
    ("query", "body", "headers", "said"),
    [
        ("", b"", PNG, "empty"),
        ("", b"x", (), "Content-Type"),
        ("", b"x", ((b"content-type", b"png"),), "media type"),
        ("", b"x", ((b"content-type", b"multipart/form-data; boundary=x"),), "not a form"),
        ("", b"x", ((b"content-type", b"application/x-www-form-urlencoded"),), "not a form"),
        ("?name=a%0Ab", b"x", PNG, "name"),
        ("?container=..", b"x", PNG, "containerId"),
    ],
)
async def test_what_is_no_upload_is_refused(query: str, body: bytes, headers: Any, said: str) -> None:
    async with open_world() as world:
        await home(world, world.acme)
        refused = await upload(world, world.acme.user, query, body, headers)
        assert (refused.status, refused.code) == (400, "invalid_input")
        assert said in refused.body["error"]["message"]


async def test_who_reaches_several_containers_says_which() -> None:
    async with open_world() as world:
        assert (await upload(world, world.acme.admin)).status == 400
        await home(world, world.acme)
        assert (await upload(world, world.acme.admin)).status == 201
        await home(world, world.acme, "other")
        refused = await upload(world, world.acme.admin)
        assert (refused.status, "`container` is required" in refused.body["error"]["message"]) == (400, True)
        absent = await upload(world, world.acme.admin, "?container=nowhere")
        assert (absent.status, absent.code) == (404, "container_not_found")
        forbidden = await upload(world, world.acme.user, "?container=other")
        assert (forbidden.status, forbidden.code) == (403, "container_forbidden")


async def test_too_much_is_refused_while_it_comes_and_never_all_taken() -> None:
    async with open_world() as world:
        await home(world, world.acme)
        changed = await world.ask("PUT", "/v1/config", {"changes": {"limits": {"attachmentBytes": 100_000}}})
        assert changed.status == 200, changed.raw
        said = await upload(world, world.acme.user)
        assert (said.status, said.code) == (413, "attachment_too_large")
        assert "100,000" in said.body["error"]["message"]
        taken = 0

        async def app(scope: Any, receive: Any, send: Any) -> None:
            async def endless() -> Any:
                nonlocal taken
                taken += 1
                return {"type": "http.request", "body": b"x" * 10_000, "more_body": True}

            # One that does not say how long it is, and does not stop.
            scope["headers"] = [pair for pair in scope["headers"] if pair[0] != b"content-length"]
            await world.app(scope, endless, send)

        headers = [(b"host", b"127.0.0.1:8080"), (b"authorization", f"Bearer {world.acme.user}".encode()), *PNG]
        reply = await request(app, "POST", "/v1/attachments", headers, b"")
        assert (reply.status, reply.code) == (413, "attachment_too_large")
        assert taken <= 12
        listed = await world.ask("GET", "/v1/attachments", key=world.acme.user)
        assert listed.items == []


async def test_attachments_count_as_storage() -> None:
    async with open_world() as world:
        await home(world, world.acme)
        quotas = world.vm.tenancy.store.accounts(world.acme.tenant_id).quotas
        await quotas.put(Quota(metric="storage_bytes", hard=await quotas.storage_bytes() + len(BODY) + 10), 1)
        await world.vm.tenancy.quotas.reread(world.acme.tenant_id)
        assert (await upload(world, world.acme.user)).status == 201
        refused = await upload(world, world.acme.user, body=b"y" * 11)
        assert (refused.status, refused.code) == (429, "quota_exceeded")
        assert (await download(world, world.acme.user, method="DELETE")).status == 204
        assert (await upload(world, world.acme.user, body=b"y" * 11)).status == 201


async def test_what_a_message_refers_to_cannot_be_deleted() -> None:
    async with open_world() as world:
        session_id = SessionId(await world.say(world.acme, "hi", container="shared"))
        await upload(world, world.acme.user)
        store = world.vm.tenancy.store
        log = store.tenant(world.acme.tenant_id).container(ContainerId("shared")).log(session_id)
        await log.record(messages=[referring("m", BODY)], now=1)
        refused = await download(world, world.acme.user, method="DELETE")
        assert (refused.status, refused.code) == (409, "attachment_in_use")
        assert (await download(world, world.acme.user)).raw == BODY


async def test_an_upload_waits_a_day_to_be_sent() -> None:
    async with open_world() as world:
        await home(world, world.acme)
        await upload(world, world.acme.user)
        store = world.vm.tenancy.store
        later = world.clock.now + ATTACHMENT_GRACE_MS
        assert await store.collect(later - 1, grace=0, attachment_grace=ATTACHMENT_GRACE_MS) == 0
        assert await store.collect(later, grace=0, attachment_grace=ATTACHMENT_GRACE_MS) == 1
        assert (await download(world, world.acme.user)).status == 404


async def test_a_list_comes_in_pages() -> None:
    async with open_world() as world:
        await home(world, world.acme)
        for number in range(5):
            await upload(world, world.acme.user, body=str(number).encode())
        found, after = [], ""
        while True:
            page = await world.ask("GET", f"/v1/attachments?limit=2{after}", key=world.acme.user)
            found += [item["digest"] for item in page.items]
            if "nextCursor" not in page.body:
                break
            after = f"&cursor={page.body['nextCursor']}"
        assert len(set(found)) == len(found) == 5


async def test_reading_and_writing_need_their_permissions() -> None:
    async with open_world() as world:
        await home(world, world.acme)
        reader = await world.key(world.acme.tenant_id, ["sessions:read"])
        writer = await world.key(world.acme.tenant_id, ["agent:use"])
        assert (await upload(world, reader)).code == "permission_denied"
        assert (await upload(world, writer)).status == 201
        assert (await download(world, writer)).code == "permission_denied"
        assert (await download(world, reader)).status == 200
        assert (await download(world, reader, method="DELETE")).code == "permission_denied"


async def test_the_operator_reaches_another_tenants_by_its_name() -> None:
    async with open_world() as world:
        await home(world, world.acme)
        await upload(world, world.acme.user)
        assert (await download(world, world.operator, "?tenant=acme&container=shared")).raw == BODY
        assert (await download(world, world.bolt.admin, "?tenant=acme&container=shared")).status == 404
        assert TenantId("ten_acme") == world.acme.tenant_id


async def test_files_are_listed_and_told_of_and_only_to_those_who_have_them() -> None:
    async with open_desk() as desk:
        for name in ("c1", "c2"):
            await desk.ask("container_create", containerId=name)
        files = desk.vm.tenancy.store.tenant(desk.peer.tenant_id).container(ContainerId("c1")).attachments
        added = [(await files.add(BytesIO(body), Upload(media_type="text/plain", name="n"), 7))[0] for body in (b"a", b"b")]
        page = await desk.ask("attachment_list", containerId="c1", limit=1)
        assert [item["digest"] for item in page["records"]] == [added[1].digest]
        rest = await desk.ask("attachment_list", containerId="c1", cursor=page["nextCursor"])
        assert rest == {"records": [
            {"attachment": added[0].reference, "digest": added[0].digest, "containerId": "c1", "size": 1,
             "mediaType": "text/plain", "createdAt": 7, "name": "n"},
        ]}  # fmt: skip
        for named in (added[0].reference, added[0].digest):
            assert (await desk.ask("attachment_get", containerId="c1", attachment=named))["record"] == rest["records"][0]
        for asker, container in ((desk, "c2"), (desk.another("other"), "c1")):
            refused = await asker.ask("attachment_get", containerId=container, attachment=added[0].reference)
            assert refused["errorCode"] == "attachment_not_found"
            assert (await asker.ask("attachment_list", containerId=container))["records"] == []
        assert (await desk.ask("attachment_list", containerId="c1", cursor="?"))["errorCode"] == "invalid_input"
        assert (await desk.ask("attachment_get", containerId="c1", attachment="?"))["errorCode"] == "attachment_not_found"
