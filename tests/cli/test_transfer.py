import json
from pathlib import Path
from typing import Any

from tests.cli.desk import Desk, avm, open_desk
from tests.cli.fake_server import Asked, answering
from tests.storage.engines.sqlite.backups import names_in

CLAUDE: list[dict[str, Any]] = [{"name": "Hi", "chat_messages": [{"sender": "human", "text": "你好"}]}]


async def bring(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "claude.json").write_text(json.dumps(CLAUDE))
    said = await desk.ok("import", str(tmp_path / "claude.json"), "--from", "claude", "--container", "notes")
    assert said == "Imported 1 image, 1 session, 1 message into notes.\n"


async def test_a_file_of_another_program_is_recognised_and_adds_only_what_is_new(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(CLAUDE))
    async with open_desk() as desk:
        done = await desk.avm("import", str(path))
        assert (done.code, "container" in done.err) == (1, True)
        said = await desk.ok("import", str(path), "--container", "notes")
        assert said == "Format: Claude export.\nImported 1 image, 1 session, 1 message into notes.\n"
        again = await desk.ok("import", str(path), "--container", "notes")
        assert again.endswith("Imported 0 images, 0 sessions, 0 messages into notes. Sessions already present: 1.\n")
        grown = [{**CLAUDE[0], "chat_messages": [*CLAUDE[0]["chat_messages"], {"sender": "assistant", "text": "Hi"}]}]
        path.write_text(json.dumps(grown))
        more = await desk.ok("import", str(path), "--container", "notes")
        assert more.endswith("Imported 0 images, 0 sessions, 1 message into notes. Sessions continued: 1.\n")


async def test_the_operator_is_told_which_tenant_it_was_and_may_have_all_of_them(tmp_path: Path) -> None:
    async with open_desk() as desk:
        await bring(desk, tmp_path)
        await desk.ok("tenant", "create", "acme")
        done = await desk.avm("export", "-o", str(tmp_path / "own.zip"))
        assert done.out.endswith("of the tenant default.\n")
        assert "--all-tenants" in done.err
        done = await desk.avm("export", "--tenant", "acme", "-o", str(tmp_path / "acme.zip"))
        assert (done.out.endswith("of the tenant acme.\n"), "--all-tenants" in done.err) == (True, False)
        every = tmp_path / "all"
        said = await desk.record("export", "--all-tenants", "-o", str(every))
        assert {one["tenant"]: one["bytes"] for one in said["items"]}.keys() >= {"default", "acme"}
        assert "acme.zip" in names_in(every)
        assert (every / "default.zip").read_bytes() == (tmp_path / "own.zip").read_bytes()
        again = await desk.avm("export", "--all-tenants", "-o", str(every))
        assert (again.code, "--force" in again.err) == (1, True)
        assert "of the tenant acme" in await desk.ok("export", "--all-tenants", "-o", str(every), "--force")
        for wrong in (["--all-tenants"], ["--all-tenants", "-o", str(every), "--container", "notes"]):
            assert (await desk.avm("export", *wrong)).code == 2
        blocked = await desk.avm("export", "--all-tenants", "-o", str(tmp_path / "own.zip"))
        assert (blocked.code, "Cannot create" in blocked.err) == (1, True)


async def test_whoever_has_one_tenant_is_not_told_of_others(tmp_path: Path) -> None:
    async with open_desk() as desk:
        await bring(desk, tmp_path)
        made = await desk.record("key", "create", "k", "--permission", "sessions:export")
        done = await desk.avm("export", "-o", str(tmp_path / "x.zip"), key=made["key"])
        assert (done.code, "the tenant" in done.out, done.err) == (0, False, "")


async def test_sessions_go_from_one_server_to_another_and_come_out_the_same(tmp_path: Path) -> None:
    first, second = tmp_path / "first.zip", tmp_path / "second.zip"
    async with open_desk() as desk:
        await bring(desk, tmp_path)
        assert (await desk.ok("export", "-o", str(first))).startswith(f"Exported to {first}: ")
        again = await desk.avm("export", "-o", str(first))
        assert (again.code, "--force" in again.err) == (1, True)
        assert (await desk.record("export", "-o", str(first), "--force"))["bytes"] == first.stat().st_size
        assert "already present: 1" in await desk.ok("import", str(first))
        renamed = await desk.ok("import", str(first), "--container", "copy")
        assert renamed.count("the id is in use") == 2
    async with open_desk() as desk:
        assert "Would import 1 image," in await desk.ok("import", str(first), "--dry-run")
        report = await desk.record("import", str(first))
        assert (report["containers"], report["renamed"]) == (["notes"], {})
        await desk.ok("export", "--container", "notes", "-o", str(second))
    assert first.read_bytes() == second.read_bytes()
    assert names_in(tmp_path) == ["claude.json", "first.zip", "second.zip"]


async def test_a_page_is_written_or_printed(tmp_path: Path) -> None:
    async with open_desk() as desk:
        await bring(desk, tmp_path)
        await desk.ok("export", "--format", "html", "-o", str(tmp_path / "page.html"))
        assert "你好" in (tmp_path / "page.html").read_text()


async def test_what_is_refused_leaves_no_file(tmp_path: Path) -> None:
    async with open_desk() as desk:
        done = await desk.avm("export", "--session", "nobody", "-o", str(tmp_path / "x.zip"))
        assert (done.code, "session_not_found" in done.err) == (5, True)
        (tmp_path / "bad").write_text("[{}]")
        done = await desk.avm("import", str(tmp_path / "bad"), "--from", "claude", "--container", "c")
        assert (done.code, "chat_messages" in done.err) == (1, True)
        done = await desk.avm("export", "-o", str(tmp_path / "no" / "x.zip"))
        assert (done.code, "Cannot write" in done.err) == (1, True)
    assert names_in(tmp_path) == ["bad"]


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    for command in (["export", "-o", str(tmp_path / "x")], ["import", str(tmp_path / "a")]):
        done = avm(*command, url="http://127.0.0.1:9")
        assert (done.code, "Cannot connect" in done.err) == (3, True)


def test_the_names_of_a_user_and_a_session_become_ids_in_the_request(tmp_path: Path) -> None:
    def answer(asked: Asked) -> tuple[int, object]:
        session = {"sessionId": "sess_1", "lastMessageAt": 1}
        return 200, {"userId": "usr_7", "items": [session]} if "/export" not in asked.path else {}

    (tmp_path / "a").write_text("x")
    with answering(answer) as (url, asked):
        avm("export", "--user", "alice", "--format", "markdown", "-o", str(tmp_path / "x"), "--tenant", "acme", url=url)
        avm("export", "--session", "last", "-o", str(tmp_path / "y"), "--tenant", "acme", url=url)
    assert [one.path for one in asked if "/export" in one.path] == [
        "/v1/export?tenant=acme&format=markdown&user=usr_7",
        "/v1/export?tenant=acme&format=archive&session=sess_1",
    ]
