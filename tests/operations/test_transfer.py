import io
import json
import zipfile
from typing import Any

import anyio
import pytest
from msgspec.structs import replace
from tests.server.http.fixtures import Reply, World, open_world
from tests.sessions.histories import history

from agentvm.errors import QuotaExceeded
from agentvm.model.account import Quota
from agentvm.model.ids import ContainerId, ImageId, SessionId, TenantId
from agentvm.model.memory import MEMORIES_MAX, Memory, MemoryId
from agentvm.model.principal import EVERYTHING, MEMBER, Principal
from agentvm.sessions import import_queue
from agentvm.tenants.quota import Quotas

CLAUDE = json.dumps([{"name": "Hi", "chat_messages": [{"sender": "human", "text": "你好"}]}]).encode()


async def talk(world: World, tenant_id: TenantId, container: str = "shared") -> None:
    one, first, said = history()
    suffix = "" if container == "shared" else f"-{container}"
    home = ContainerId(container)
    moved = replace(
        one, container_id=home, image_id=ImageId(one.image_id + suffix), session_id=SessionId(one.session_id + suffix)
    )
    own = replace(first, container_id=home, image_id=moved.image_id, session_id=moved.session_id)
    await world.vm.tenancy.store.carrier(tenant_id).add(lambda: iter((moved, own, said)), 5)


async def limit(world: World, metric: str, hard: int) -> None:
    tenant_id = world.acme.tenant_id
    await world.vm.tenancy.store.accounts(tenant_id).quotas.put(Quota(metric=metric, hard=hard), 1)
    await world.vm.tenancy.quotas.reread(tenant_id)


def names(reply: Reply) -> list[str]:
    assert reply.status == 200, reply.raw
    with zipfile.ZipFile(io.BytesIO(reply.raw)) as packed:
        return packed.namelist()


async def test_a_user_takes_everything_to_another_tenant_and_nothing_is_lost() -> None:
    async with open_world() as world:
        await talk(world, world.acme.tenant_id)
        out = await world.ask("GET", "/v1/export", key=world.acme.user)
        assert out.headers["content-type"] == "application/zip"
        assert "attachment" in out.headers["content-disposition"]
        assert "sessions/000001.jsonl" in names(out)
        tried = await world.ask("POST", "/v1/import?dryRun=true", key=world.bolt.user, raw=out.raw)
        assert (tried.status, tried.body["dryRun"]) == (200, True)
        assert "blobs" not in str(names(await world.ask("GET", "/v1/export", key=world.bolt.user)))
        done = await world.ask("POST", "/v1/import", key=world.bolt.user, raw=out.raw)
        besides = {"memories": 0, "schedules": 0, "triggers": 0}
        assert done.body["counts"] == {"images": 1, "sessions": 1, "messages": 6, "turns": 1, "blobs": 1, **besides}
        assert (done.body["containers"], done.body["renamed"]) == (["shared"], {})
        assert (await world.ask("GET", "/v1/export", key=world.bolt.user)).raw == out.raw
        again = await world.ask("POST", "/v1/import", key=world.bolt.user, raw=out.raw)
        assert (again.body["known"], again.body["counts"]["messages"], again.body["renamed"]) == (1, 0, {})
        assert await world.audit(world.bolt.tenant_id)
        assert ("session.import", "*", "ok") in await world.audit(world.bolt.tenant_id)
        assert ("session.export", "*", "ok") in await world.audit(world.acme.tenant_id)


async def add_memory_and_sources(world: World, key: str) -> str:
    """Adds a memory, a schedule that goes on in the session, and a trigger; returns the trigger's secret."""
    note = {"text": "Prefers short answers. 喜欢简短的回答。", "pinned": True}
    assert (await world.ask("POST", "/v1/containers/shared/memories", note, key=key)).status == 201
    source = {"agent": "img_1", "message": "go", "container": "shared", "sessionMode": "same", "sessionId": "img_1-default"}
    timed = {**source, "cron": "0 9 * * *", "zone": "Asia/Shanghai", "budget": {"steps": 3}, "jitterSeconds": 5}
    assert (await world.ask("POST", "/v1/schedules", timed, key=key)).status == 201
    made = await world.ask("POST", "/v1/triggers", {**source, "runsPerDay": 4}, key=key)
    assert made.status == 201, made.raw
    return str(made.body["secret"])


async def listed(world: World, what: str, key: str) -> list[dict[str, Any]]:
    reply = await world.ask("GET", what, key=key)
    assert reply.status == 200, reply.raw
    items: list[dict[str, Any]] = reply.body["items"]
    return items


async def test_memories_schedules_and_triggers_come_along_without_secrets_and_disabled() -> None:
    async with open_world() as world:
        acme, bolt = world.acme.user, world.bolt.user
        await talk(world, world.acme.tenant_id)
        secret = await add_memory_and_sources(world, acme)
        out = await world.ask("GET", "/v1/export?container=shared", key=acme)
        assert names(out)[:2] == ["images.jsonl", "containers.jsonl"]
        with zipfile.ZipFile(io.BytesIO(out.raw)) as packed:
            lines = packed.read("containers.jsonl")
        assert secret.encode() not in lines
        for private in (b"secret", b"userId", b"keyId", b"createdBy", b"nextAt"):
            assert private not in lines
        done = await world.ask("POST", "/v1/import", key=bolt, raw=out.raw)
        assert {name: done.body["counts"][name] for name in ("memories", "schedules", "triggers")} == {
            "memories": 1, "schedules": 1, "triggers": 1,
        }  # fmt: skip
        (here,) = await listed(world, "/v1/containers/shared/memories", bolt)
        (there,) = await listed(world, "/v1/containers/shared/memories", acme)
        assert here == there
        for kind in ("schedules", "triggers"):
            (here,), (there,) = await listed(world, f"/v1/{kind}", bolt), await listed(world, f"/v1/{kind}", acme)
            own = ("scheduleId", "triggerId", "path", "enabled", "nextAt", "upcoming", "createdBy")
            assert {name: here[name] for name in here if name not in own} == {
                name: there[name] for name in there if name not in own
            }
            assert (here["enabled"], there["enabled"]) == (False, True)
        again = await world.ask("POST", "/v1/import", key=bolt, raw=out.raw)
        assert again.body["counts"]["memories"] == again.body["counts"]["schedules"] == again.body["counts"]["triggers"] == 0
        assert (await world.ask("GET", "/v1/export", key=bolt)).status == 200


async def test_a_schedule_that_was_imported_runs_once_somebody_enables_it() -> None:
    async with open_world() as world:
        await talk(world, world.acme.tenant_id)
        await add_memory_and_sources(world, world.acme.user)
        out = await world.ask("GET", "/v1/export?container=shared", key=world.acme.user)
        copied = await world.ask("POST", "/v1/import?container=copy", key=world.acme.admin, raw=out.raw)
        assert copied.status == 200, copied.raw
        (copy,) = await listed(world, "/v1/schedules?container=copy", world.acme.admin)
        (image,) = await listed(world, "/v1/images?container=copy", world.acme.admin)
        assert (copy["imageId"], copy["sessionId"]) == (image["imageId"], image["sessionId"])
        assert copy["imageId"] != "img_1"
        on = await world.ask("PUT", f"/v1/schedules/{copy['scheduleId']}", {"enabled": True}, key=world.acme.admin)
        assert on.body["nextAt"] > world.clock()
        (trigger,) = await listed(world, "/v1/triggers?container=copy", world.acme.admin)
        rotated = await world.ask("POST", f"/v1/triggers/{trigger['triggerId']}/rotate", key=world.acme.admin)
        assert rotated.body["secret"].startswith("whsec_")


async def test_an_import_with_more_memories_than_there_is_room_for_writes_nothing() -> None:
    async with open_world() as world:
        await talk(world, world.acme.tenant_id)
        await add_memory_and_sources(world, world.acme.user)
        out = await world.ask("GET", "/v1/export", key=world.acme.user)
        memories = world.vm.store.tenant(world.bolt.tenant_id).container(ContainerId("shared"))
        await memories.create(1)
        for number in range(MEMORIES_MAX):
            note = Memory(memory_id=MemoryId(f"mem_{number}"), text="x", by="user", created_at=1, updated_at=1)
            await memories.memories.put(note)
        refused = await world.ask("POST", "/v1/import", key=world.bolt.user, raw=out.raw)
        assert refused.code == "too_many_memories"
        assert await listed(world, "/v1/images", world.bolt.user) == []
        assert await listed(world, "/v1/schedules", world.bolt.user) == []


@pytest.mark.parametrize(("form", "media_type"), [("markdown", "text/markdown"), ("html", "text/html")])
async def test_people_get_a_page(form: str, media_type: str) -> None:
    async with open_world() as world:
        await talk(world, world.acme.tenant_id)
        page = await world.ask("GET", f"/v1/export?session=img_1-default&format={form}", key=world.acme.user)
        assert page.headers["content-type"].startswith(media_type)
        assert page.headers["content-security-policy"].startswith("sandbox")
        assert "北京" in page.raw.decode()


async def test_nobody_takes_what_they_do_not_reach() -> None:
    async with open_world() as world:
        await talk(world, world.acme.tenant_id)
        await talk(world, world.acme.tenant_id, "private")

        async def ask(query: str, key: str) -> Reply:
            return await world.ask("GET", f"/v1/export{query}", key=key)

        mine = await ask("", world.acme.user)
        assert b"private" not in mine.raw
        assert len(names(mine)) == 4
        assert (await ask("?container=private", world.acme.user)).code == "container_forbidden"
        hidden = await ask("?session=img_1-default-private", world.acme.user)
        absent = await ask("?session=nobody", world.acme.user)
        assert hidden.status == absent.status == 404
        assert (await ask("?session=img_1-default", world.bolt.user)).status == 404
        assert (await ask("?container=shared", world.bolt.admin)).status == 404
        assert len(names(await ask("", world.acme.admin))) == 5
        assert len(names(await ask("?tenant=acme", world.operator))) == 5
        reader = await world.key(world.acme.tenant_id, ["images:read"])
        assert (await ask("", reader)).code == "permission_denied"


async def test_what_belongs_to_a_user_is_for_them_and_for_who_manages_users() -> None:
    async with open_world() as world:
        await talk(world, world.acme.tenant_id)
        await talk(world, world.acme.tenant_id, "private")
        for key in (world.acme.user, world.acme.admin):
            reply = await world.ask("GET", "/v1/export?user=alice", key=key)
            assert b"private" not in reply.raw
            assert len(names(reply)) == 4
        await world.user(world.acme.tenant_id, "bob")
        assert (await world.ask("GET", "/v1/export?user=bob", key=world.acme.user)).code == "permission_denied"
        assert (await world.ask("GET", "/v1/export?user=nobody", key=world.acme.user)).code == "permission_denied"
        assert (await world.ask("GET", "/v1/export?user=nobody", key=world.acme.admin)).code == "not_found"
        assert (await world.ask("GET", "/v1/export?user=a&session=b", key=world.acme.admin)).code == "invalid_input"


async def test_an_import_goes_only_where_one_may_write() -> None:
    async with open_world() as world:
        await talk(world, world.acme.tenant_id, "private")
        body = (await world.ask("GET", "/v1/export?container=private", key=world.acme.admin)).raw
        assert (await world.ask("POST", "/v1/import", key=world.bolt.user, raw=body)).code == "container_forbidden"
        assert (await world.ask("POST", "/v1/import?container=x", key=world.bolt.user, raw=body)).code == "container_forbidden"
        done = await world.ask("POST", "/v1/import?container=shared", key=world.bolt.user, raw=body)
        assert done.body["containers"] == ["shared"]
        reader = await world.key(world.bolt.tenant_id, ["images:read", "sessions:export"])
        assert (await world.ask("POST", "/v1/import", key=reader, raw=body)).code == "permission_denied"


async def test_conversations_of_others_come_in() -> None:
    async with open_world() as world:
        done = await world.ask("POST", "/v1/import?from=claude&container=shared", key=world.acme.user, raw=CLAUDE)
        assert done.body["counts"]["messages"] == 1
        page = await world.ask("GET", "/v1/export?format=markdown", key=world.acme.user)
        assert page.raw.decode().startswith("# Hi\n")
        assert (await world.ask("POST", "/v1/import?from=claude", key=world.acme.admin, raw=CLAUDE)).code == "invalid_input"
        assert (await world.ask("POST", "/v1/import?from=word", key=world.acme.user, raw=CLAUDE)).code == "invalid_input"


async def test_a_bad_archive_says_where_and_nothing_is_written() -> None:
    async with open_world() as world:
        bad = await world.ask("POST", "/v1/import?from=claude&container=shared", key=world.acme.user, raw=b"[{}]")
        assert (bad.status, bad.code) == (422, "archive_invalid")
        assert bad.body["error"]["details"] == {"file": "conversations.json", "member": "chat_messages"}
        assert (await world.ask("POST", "/v1/import", key=world.acme.user, raw=b"")).code == "archive_invalid"
        assert await world.vm.tenancy.store.tenant(world.acme.tenant_id).list_containers() == ()


async def test_quotas_count() -> None:
    async with open_world() as world:
        await talk(world, world.acme.tenant_id)
        body = (await world.ask("GET", "/v1/export", key=world.acme.user)).raw

        async def put(query: str = "") -> Reply:
            return await world.ask("POST", f"/v1/import{query}", key=world.acme.admin, raw=body)

        for metric, hard, query in (
            ("images_per_container", 0, "?container=new"), ("containers", 1, "?container=new"),
            ("storage_bytes", 10, "?container=new"),
        ):  # fmt: skip
            await limit(world, metric, hard)
            refused = await put(query)
            assert (refused.code, refused.body["error"]["details"]["metric"]) == ("quota_exceeded", metric)
            await limit(world, metric, 10**9)
        # What is here already counts for nothing.
        await limit(world, "storage_bytes", 10)
        assert (await put()).body["known"] == 1
        await limit(world, "storage_bytes", 10**9)
        assert (await put("?container=new&dryRun=true")).status == 200
        assert (await put("?container=new")).status == 200


async def test_somebody_with_one_container_need_not_name_it_nor_say_who_wrote_the_file() -> None:
    async with open_world() as world:
        carl = await world.user(world.acme.tenant_id, "carl")
        key = await world.key(world.acme.tenant_id, MEMBER, user_id=carl)
        done = await world.ask("POST", "/v1/import", key=key, raw=CLAUDE)
        assert (done.body["format"], len(done.body["containers"])) == ("claude", 1)
        again = await world.ask("POST", "/v1/import", key=key, raw=CLAUDE)
        assert (again.body["known"], again.body["continued"], again.body["bytes"]) == (1, 0, 0)
        unknown = await world.ask("POST", "/v1/import", key=key, raw=b"[{}]")
        assert unknown.code == "archive_invalid"


async def test_an_import_has_only_so_many_bytes_unpacked() -> None:
    async with open_world() as world:
        talk = [{"name": "Hi", "chat_messages": [{"sender": "human", "text": "x" * 100_000}]}]
        put = await world.ask("PUT", "/v1/config", {"changes": {"limits": {"importBytes": 50_000}}})
        assert put.status == 200, put.raw
        refused = await world.ask("POST", "/v1/import?container=shared", key=world.acme.user, raw=json.dumps(talk).encode())
        assert (refused.status, refused.code) == (422, "archive_too_large")
        assert "limits.importBytes" in refused.body["error"]["message"]


async def test_a_line_that_is_too_long_is_refused_with_503(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_queue, "TENANT_QUEUED_MAX", 0)
    async with open_world() as world:
        refused = await world.ask("POST", "/v1/import", key=world.acme.user, raw=CLAUDE)
        assert (refused.status, refused.code) == (503, "server_busy")


async def test_exports_at_the_same_time_do_not_share_what_is_left() -> None:
    async with open_world() as world:
        await talk(world, world.acme.tenant_id)
        one = len((await world.ask("GET", "/v1/export", key=world.acme.user)).raw)
        most = 4 * one + one // 2
        await limit(world, "export_bytes_per_day", most)
        replies: list[Reply] = []

        async def export() -> None:
            replies.append(await world.ask("GET", "/v1/export", key=world.acme.user))

        async with anyio.create_task_group() as tasks:
            for _ in range(12):
                tasks.start_soon(export)
        sent = sum(len(reply.raw) for reply in replies if reply.status == 200)
        # Those beyond the memory that a tenant's exports may have are told to come again.
        assert {reply.status for reply in replies} <= {200, 429, 503}
        assert len({reply.status for reply in replies}) > 1
        assert one + sent <= most
        # What was set aside and not used is free again.
        left = await world.ask("GET", "/v1/export?session=img_1-default&format=markdown", key=world.acme.user)
        assert left.status == 200


async def test_as_much_may_leave_in_a_day_as_the_quota_says() -> None:
    async with open_world() as world:
        await talk(world, world.acme.tenant_id)
        await limit(world, "export_bytes_per_day", 4_000)
        sent = 0
        while (reply := await world.ask("GET", "/v1/export", key=world.acme.user)).status == 200:
            sent += len(reply.raw)
        assert (reply.code, reply.body["error"]["details"]["used"]) == ("quota_exceeded", sent)
        assert sent <= 4_000
        world.clock.now += 86_400_000
        assert (await world.ask("GET", "/v1/export", key=world.acme.user)).status == 200


async def test_what_left_before_a_restart_counts_also_if_nobody_waited_for_the_end() -> None:
    async with open_world() as world:
        await talk(world, world.acme.tenant_id)
        sent = len((await world.ask("GET", "/v1/export", key=world.acme.user)).raw)
        await limit(world, "export_bytes_per_day", sent)
        again = Quotas(world.vm.tenancy.store, world.clock)
        with pytest.raises(QuotaExceeded):
            await again.refuse(world.acme.tenant_id, None, "export_bytes_per_day", 1)


async def test_devices_hear_of_what_is_imported_and_nobody_else_does() -> None:
    async with open_world() as world:
        await talk(world, world.acme.tenant_id)
        archive = (await world.ask("GET", "/v1/export", key=world.acme.admin)).raw
        here, elsewhere, theirs = (
            world.vm.attach(Principal(tenant_id=tenant_id, permissions=EVERYTHING))
            for tenant_id in (world.acme.tenant_id, world.acme.tenant_id, world.bolt.tenant_id)
        )
        here.join(ContainerId("copy"))
        elsewhere.join(ContainerId("shared"))
        theirs.join(ContainerId("copy"))
        for path in ("/v1/import?container=copy&dryRun=true", "/v1/import?container=copy"):
            assert (await world.ask("POST", path, raw=archive, key=world.acme.admin)).status == 200
        told = [json.loads(frame.bare) for frame in here.channel.take_nowait()]
        assert [event["type"] for event in told] == ["image_created"]
        image_id = told[0]["data"]["imageId"]
        assert (await world.vm.tenancy.store.tenant(world.acme.tenant_id).find_image(image_id)) == "copy"
        assert [*elsewhere.channel.take_nowait(), *theirs.channel.take_nowait()] == []
        foreign = "/v1/import?container=copy&from=claude"
        assert (await world.ask("POST", foreign, raw=CLAUDE, key=world.acme.admin)).status == 200
        kinds = [json.loads(frame.bare)["type"] for frame in here.channel.take_nowait()]
        assert kinds[0] == "image_created"
