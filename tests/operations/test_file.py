"""Files of sessions over HTTP and the socket."""

import base64
import hashlib
import io
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.conformance.records import message
from tests.operations.fixtures import open_desk
from tests.server.http.fixtures import Reply, World, open_world

from agentvm.model.account import Quota
from agentvm.model.ids import ContainerId, SessionId
from agentvm.operations import file as module
from agentvm.storage.attachments import CHUNK_BYTES

BODY = b"\x00<script>\xff" + b"x" * CHUNK_BYTES
DIGEST = f"sha256:{hashlib.sha256(BODY).hexdigest()}"


@asynccontextmanager
async def open_files() -> AsyncIterator[World]:
    """A server with a session of one tenant."""
    async with open_world() as world:
        world.acme.session_id = await world.say(world.acme, "hello", container="shared")
        yield world


async def ask(world: World, method: str, path: str, body: bytes = b"", key: str | None = None, **headers: str) -> Reply:
    sent = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    own = world.acme.user if key is None else key
    return await world.ask(method, f"/v1/sessions/{world.acme.session_id}/{path}", key=own, raw=body, headers=sent)


async def test_a_file_is_put_read_listed_and_deleted() -> None:
    async with open_files() as world:
        made = await ask(world, "PUT", "files/docs/%24%28x%29%20b.html?executable=true", BODY)
        assert (made.status, made.headers["etag"]) == (201, f'"{DIGEST}"')
        record = {
            "path": "docs/$(x) b.html",
            "digest": DIGEST,
            "size": len(BODY),
            "executable": True,
            "modifiedAt": world.clock.now,
        }
        assert made.body == record
        found = await ask(world, "GET", "files/docs/%24%28x%29%20b.html")
        assert (found.status, found.raw) == (200, BODY)
        assert found.headers["content-type"] == "text/html"
        assert found.headers["x-content-type-options"] == "nosniff"
        assert found.headers["content-disposition"].startswith("attachment; filename=")
        assert "sandbox" in found.headers["content-security-policy"]
        head = await ask(world, "HEAD", "files/docs/%24%28x%29%20b.html")
        assert (head.status, head.raw, head.headers["content-length"]) == (200, b"", str(len(BODY)))
        assert (await ask(world, "GET", "files/docs/%24%28x%29%20b.html", if_none_match=f'"{DIGEST}"')).status == 304
        await ask(world, "PUT", "files/a.txt", b"")
        page = await ask(world, "GET", "files?limit=1")
        assert [file["path"] for file in page.body["items"]] == ["a.txt"]
        rest = await ask(world, "GET", f"files?cursor={page.body['nextCursor']}")
        assert rest.body == {"items": [record]}
        assert (await ask(world, "GET", "files?under=docs")).body == {"items": [record]}
        assert (await ask(world, "DELETE", "files/a.txt")).body == {"path": "a.txt"}
        assert (await ask(world, "GET", "files/a.txt")).code == "file_not_found"
        assert (await ask(world, "DELETE", "files/a.txt")).code == "file_not_found"
        audit = await world.audit(world.acme.tenant_id)
        assert ("file.write", f"{world.acme.session_id}/docs/$(x) b.html", "ok") in audit
        assert ("file.delete", f"{world.acme.session_id}/a.txt", "ok") in audit


async def test_a_condition_that_does_not_hold_changes_nothing() -> None:
    async with open_files() as world:
        assert (await ask(world, "PUT", "files/a", b"1", if_match='"sha256:0"')).code == "precondition_failed"
        first = await ask(world, "PUT", "files/a", b"1", if_none_match="*")
        assert first.status == 201
        assert (await ask(world, "PUT", "files/a", b"2", if_none_match="*")).code == "precondition_failed"
        assert (await ask(world, "DELETE", "files/a", if_match='"sha256:0"')).code == "precondition_failed"
        second = await ask(world, "PUT", "files/a", b"2", if_match=first.headers["etag"])
        assert second.status == 200
        assert (await ask(world, "PUT", "files/a", b"3", if_match=first.headers["etag"])).code == "precondition_failed"
        assert (await ask(world, "GET", "files/a")).raw == b"2"


async def test_an_archive_has_all_files() -> None:
    async with open_files() as world:
        await ask(world, "PUT", "files/run.sh?executable=true", b"#!/bin/sh\n")
        await ask(world, "PUT", "files/data/x.bin", BODY)
        got = await ask(world, "GET", "archive")
        assert got.headers["content-type"] == "application/zip"
        with zipfile.ZipFile(io.BytesIO(got.raw)) as archive:
            assert {name: archive.read(name) for name in archive.namelist()} == {"run.sh": b"#!/bin/sh\n", "data/x.bin": BODY}
            assert archive.getinfo("run.sh").external_attr >> 16 == 0o100755
        assert (await ask(world, "GET", "archive", key=world.bolt.user)).code == "session_not_found"


@pytest.mark.parametrize("path", ["%2E%2E/x", "a%0Ab", "a%5Cb", "x" * 300])
async def test_a_path_that_no_file_can_have_is_refused(path: str) -> None:
    async with open_files() as world:
        for method in ("GET", "PUT", "DELETE"):
            refused = await ask(world, method, f"files/{path}", b"x")
            assert (refused.status, refused.code) == (400, "file_path_invalid")


async def test_a_file_cannot_be_a_folder() -> None:
    async with open_files() as world:
        await ask(world, "PUT", "files/a/b", b"1")
        assert (await ask(world, "PUT", "files/a", b"1")).code == "file_path_invalid"
        assert (await ask(world, "PUT", "files/a/b/c", b"1")).code == "file_path_invalid"


async def test_limits_and_the_storage_quota_are_kept() -> None:
    async with open_files() as world:
        changed = await world.ask("PUT", "/v1/config", {"changes": {"limits": {"sessionFiles": 2, "sessionFilesBytes": 100}}})
        assert changed.status == 200
        refused = await ask(world, "PUT", "files/a", bytes(101))
        assert (refused.status, refused.code) == (413, "workspace_full")
        for name in ("a", "b"):
            assert (await ask(world, "PUT", f"files/{name}", bytes(50))).status == 201
        assert (await ask(world, "PUT", "files/b", bytes(51))).code == "workspace_full"
        assert (await ask(world, "PUT", "files/c", b"")).code == "workspace_full"
        assert (await ask(world, "PUT", "files/b", bytes(40))).status == 200
        await world.vm.tenancy.store.accounts(world.acme.tenant_id).quotas.put(Quota(metric="storage_bytes", hard=1), 1)
        await world.vm.tenancy.quotas.reread(world.acme.tenant_id)
        assert (await ask(world, "PUT", "files/b", b"x")).code == "quota_exceeded"


async def test_a_stranger_reaches_nothing() -> None:
    async with open_files() as world:
        await ask(world, "PUT", "files/a", b"secret")
        for method, path in (("GET", "files"), ("GET", "files/a"), ("PUT", "files/a"), ("DELETE", "files/a")):
            refused = await ask(world, method, path, b"x", key=world.bolt.admin)
            assert (refused.status, refused.code) == (404, "session_not_found")
        assert (await ask(world, "GET", "files/a")).raw == b"secret"


async def test_the_socket_writes_lists_reads_and_deletes() -> None:
    async with open_desk() as desk:
        await desk.ask("container_create", containerId="c1")
        image = (await desk.ask("image_create", containerId="c1", config={"name": "Chat"}))["record"]
        session_id, data = image["sessionId"], base64.b64encode(b"\x00hi").decode()
        await desk.ask("session_messages", sessionId=session_id)
        written = await desk.ask("file_write", sessionId=session_id, path="a/b.txt", data=data, executable=True)
        listed = await desk.ask("file_list", sessionId=session_id)
        assert [file["path"] for file in listed["files"]] == ["a/b.txt"]
        assert (
            (await desk.ask("file_get", sessionId=session_id, path="a/b.txt"))["file"] == listed["files"][0] == written["file"]
        )
        found = await desk.ask("file_read", sessionId=session_id, path="a/b.txt")
        assert (found["data"], found["file"]["executable"]) == (data, True)
        await desk.ask("file_delete", sessionId=session_id, path="a/b.txt")
        assert (await desk.ask("file_get", sessionId=session_id, path="a/b.txt"))["errorCode"] == "file_not_found"


async def test_a_file_that_is_too_large_for_a_frame_is_refused_with_the_way_that_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_desk() as desk:
        await desk.ask("container_create", containerId="c1")
        session_id = (await desk.ask("image_create", containerId="c1", config={"name": "Chat"}))["record"]["sessionId"]
        large = base64.b64encode(b"x" * 100).decode()
        await desk.ask("file_write", sessionId=session_id, path="a", data=large)
        monkeypatch.setattr(module, "FRAME_MAX_BYTES", 99)
        for command, fields in (("file_write", {"data": large}), ("file_read", {})):
            refused = await desk.ask(command, sessionId=session_id, path="a", **fields)
            assert (refused["errorCode"], "over HTTP" in refused["error"]) == ("invalid_input", True)
        refused = await desk.ask("file_write", sessionId=session_id, path="../a", data="")
        assert refused["errorCode"] == "file_path_invalid"


async def test_earlier_states_of_a_file_are_listed_and_downloaded() -> None:
    async with open_files() as world:
        await ask(world, "PUT", "files/notes.txt", b"first")
        home = world.vm.tenancy.store.tenant(world.acme.tenant_id).container(ContainerId("shared"))
        session_id = SessionId(world.acme.session_id)
        await home.log(session_id).record(messages=[message("msg_next", "go on")], now=world.clock())
        await ask(world, "PUT", "files/notes.txt", b"second")
        listed = (await ask(world, "GET", "file-versions?path=notes.txt")).items
        assert [item["size"] for item in listed] == [6, 5]
        old = await ask(world, "GET", f"files/notes.txt?digest={listed[1]['digest']}")
        assert old.raw == b"first"
        assert (await ask(world, "GET", f"files/notes.txt?digest={DIGEST}")).code == "file_not_found"
        await ask(world, "DELETE", "files/notes.txt")
        latest = (await ask(world, "GET", "file-versions?path=notes.txt&limit=1")).items[0]
        assert "digest" not in latest
        assert (await ask(world, "GET", f"files/notes.txt?digest={listed[1]['digest']}")).raw == b"first"
        stranger = await ask(world, "GET", "file-versions?path=notes.txt", key=world.bolt.user)
        assert stranger.code == "session_not_found"
