import anyio
import pytest
from tests.operations.fixtures import ask_at_once, open_desk
from tests.server.http.fixtures import open_world

from agentvm.model.principal import MEMBER


async def test_a_container_is_created_once_and_its_creation_told_before_the_reply() -> None:
    async with open_desk() as desk:
        assert await desk.ask("container_create", containerId="c1") == {"containerId": "c1"}
        assert desk.types() == ["container_created", "container_create_response"]
        created = desk.heard[0]
        assert created["data"] == {"containerId": "c1", "createdAt": created["data"]["createdAt"]}
        assert created["context"] == {"containerId": "c1"}
        assert await desk.ask("container_create", containerId="c1") == {"containerId": "c1"}
        assert desk.types().count("container_created") == 1


async def test_a_container_exists_or_not() -> None:
    async with open_desk() as desk:
        assert await desk.ask("container_get", containerId="c1") == {"exists": False}
        await desk.ask("container_create", containerId="c1")
        assert await desk.another().ask("container_get", containerId="c1") == {"exists": True, "containerId": "c1"}
        assert await desk.another("other").ask("container_get", containerId="c1") == {"exists": False}


async def test_containers_are_listed_oldest_first_for_their_tenant() -> None:
    async with open_desk() as desk:
        assert await desk.ask("container_list") == {"containerIds": []}
        for name in ("b", "a"):
            await desk.ask("container_create", containerId=name)
        assert await desk.ask("container_list") == {"containerIds": ["b", "a"]}
        assert await desk.another("other").ask("container_list") == {"containerIds": []}


@pytest.mark.parametrize("name", ["", "../etc", "a/b", "a?b", "a\x00", "x" * 129])
@pytest.mark.parametrize(
    "command", ["container_create", "container_get", "agent_list", "agent_destroy_all", "image_list", "image_create"]
)
async def test_a_name_that_is_none_is_refused_and_nothing_is_created(command: str, name: str) -> None:
    async with open_desk() as desk:
        reply = await desk.ask(command, containerId=name)
        assert reply["errorCode"] == "invalid_input"
        assert desk.types() == ["system_error", f"{command}_response"]
        assert await desk.ask("container_list") == {"containerIds": []}


async def test_only_those_who_work_with_a_container_hear_of_it() -> None:
    async with open_desk() as desk:
        neighbour, stranger = desk.another(), desk.another("other")
        await neighbour.ask("container_create", containerId="c2")
        await stranger.ask("container_create", containerId="c1")
        neighbour.forget()
        stranger.forget()
        await desk.create_image("c1")
        assert neighbour.hear_nowait() == stranger.hear_nowait() == []


async def test_those_who_ask_at_once_get_no_more_containers_than_the_limit() -> None:
    async with open_desk() as desk:
        await desk.limit("containers", 3)
        refused = await ask_at_once([(desk.another(), "container_create", {"containerId": f"c{n}"}) for n in range(20)])
        assert refused == ["quota_exceeded"] * 17
        made = (await desk.ask("container_list"))["containerIds"]
        assert len(made) == 3
        # One that is there is not one more.
        assert await desk.ask("container_create", containerId=made[0]) == {"containerId": made[0]}


async def test_containers_are_listed_page_by_page() -> None:
    async with open_desk() as desk:
        for number in range(5):
            await desk.ask("container_create", containerId=f"c{number}")
        first = await desk.ask("container_list", limit=3)
        assert first["containerIds"] == ["c0", "c1", "c2"]
        rest = await desk.ask("container_list", limit=3, cursor=first["nextCursor"])
        assert rest == {"containerIds": ["c3", "c4"]}
        assert (await desk.ask("container_list", cursor="x"))["errorCode"] == "invalid_input"
        assert (await desk.ask("container_list", limit=0))["errorCode"] == "invalid_input"


async def test_a_deleted_container_is_gone_for_everybody_and_those_who_work_with_it_are_told() -> None:
    async with open_desk() as desk:
        image = await desk.create_image("c1")
        device = desk.another()
        await device.ask("image_list", containerId="c1")
        assert await desk.ask("container_delete", containerId="c1") == {"containerId": "c1", "deleted": True}
        told = (await device.hear("container_deleted"))[-1]
        assert (told["data"]["containerId"], told["context"]) == ("c1", {"containerId": "c1"})
        assert await desk.ask("container_list") == {"containerIds": []}
        refused = await desk.ask("message_send", imageId=image["imageId"], content="hi")
        assert refused["errorCode"] == "image_not_found"
        assert (await desk.ask("container_delete", containerId="c1"))["errorCode"] == "container_not_found"


async def test_a_dry_run_counts_and_deletes_nothing() -> None:
    async with open_desk() as desk:
        image = await desk.create_image("c1")
        await desk.ask("message_send", imageId=image["imageId"], content="hi")
        await desk.hear("turn_response")
        reply = await desk.ask("container_delete", containerId="c1", dryRun=True)
        assert (reply["deleted"], reply["owned"]["sessions"], reply["owned"]["messages"]) == (False, 1, 2)
        assert await desk.ask("container_list") == {"containerIds": ["c1"]}
        missing = await desk.ask("container_delete", containerId="c2", dryRun=True)
        assert missing["errorCode"] == "container_not_found"


async def test_a_container_of_the_same_name_begins_with_nothing() -> None:
    async with open_desk() as desk:
        await desk.create_image("c1")
        await desk.ask("container_delete", containerId="c1")
        with anyio.fail_after(60):
            while "errorCode" in (reply := await desk.ask("container_create", containerId="c1")):
                assert reply["errorCode"] == "container_erasing"
                await anyio.lowlevel.checkpoint()
        assert (await desk.ask("image_list", containerId="c1"))["records"] == []
        assert (await desk.ask("session_browse", containerId="c1"))["sessions"] == []


async def test_containers_are_listed_in_pages_as_far_as_one_reaches() -> None:
    async with open_world() as world:
        for name in ("user-alice", "b", "c"):
            await world.say(world.acme, "x", container=name)
        first = await world.ask("GET", "/v1/containers?limit=2", key=world.acme.admin)
        assert [one["containerId"] for one in first.items] == ["user-alice", "b"]
        rest = await world.ask("GET", f"/v1/containers?cursor={first.body['nextCursor']}", key=world.acme.admin)
        assert [one["containerId"] for one in rest.items] == ["c"]
        own = await world.ask("GET", "/v1/containers", key=world.acme.user)
        assert [one["containerId"] for one in own.items] == ["user-alice"]
        assert len((await world.ask("GET", "/v1/containers?tenant=acme")).items) == 3
        assert (await world.ask("GET", "/v1/containers", key=world.bolt.admin)).items == []


async def test_a_container_is_shown_with_what_is_in_it() -> None:
    async with open_world() as world:
        await world.say(world.acme, "one", "two", container="b")
        shown = (await world.ask("GET", "/v1/containers/b", key=world.acme.admin)).body
        assert (shown["containerId"], shown["owned"]["sessions"], shown["owned"]["messages"]) == ("b", 2, 2)
        assert (await world.ask("GET", "/v1/containers/nowhere", key=world.acme.admin)).code == "container_not_found"
        assert (await world.ask("GET", "/v1/containers/b", key=world.acme.user)).code == "container_forbidden"


async def test_a_dry_run_is_no_entry_of_the_audit_log() -> None:
    async with open_world() as world:
        await world.say(world.acme, "one", container="b")
        counted = await world.ask("DELETE", "/v1/containers/b?dryRun=true", key=world.acme.admin)
        assert (counted.status, counted.body["containers"], counted.body["messages"]) == (200, ["b"], 1)
        assert (await world.ask("GET", "/v1/containers/b", key=world.acme.admin)).status == 200
        assert await world.audit(world.acme.tenant_id) == []


async def test_a_container_is_deleted_and_the_audit_log_says_so() -> None:
    async with open_world() as world:
        await world.say(world.acme, "one", container="b")
        assert (await world.ask("DELETE", "/v1/containers/b", key=world.acme.admin)).status == 204
        assert (await world.ask("GET", "/v1/containers/b", key=world.acme.admin)).code == "container_not_found"
        assert (await world.ask("DELETE", "/v1/containers/b", key=world.acme.admin)).code == "container_not_found"
        assert await world.audit(world.acme.tenant_id) == [
            ("container.delete", "b", "refused:container_not_found"),
            ("container.delete", "b", "ok"),
        ]


async def test_a_key_of_the_tenant_deletes_what_it_reaches_and_a_user_only_what_is_theirs_alone() -> None:
    async with open_world() as world:
        acme = world.acme
        for name in ("user-alice", "shared", "user-bob"):
            await world.say(acme, "x", container=name)
        bob = await world.user(acme.tenant_id, "bob")
        await world.ask("PUT", f"/v1/users/{bob}/containers/shared", key=acme.admin)
        assert (await world.ask("DELETE", "/v1/containers/shared", key=acme.user)).code == "access_denied"
        assert (await world.ask("DELETE", "/v1/containers/user-alice", key=acme.user)).status == 204
        service = await world.key(acme.tenant_id, MEMBER, containers=["user-*"])
        assert (await world.ask("DELETE", "/v1/containers/shared", key=service)).code == "container_forbidden"
        assert (await world.ask("DELETE", "/v1/containers/user-bob", key=service)).status == 204


async def test_a_deletion_over_a_socket_is_in_the_audit_log_and_a_dry_run_is_not() -> None:
    async with open_desk() as desk:
        await desk.ask("container_create", containerId="c1")
        await desk.ask("container_delete", containerId="c1", dryRun=True)
        await desk.ask("container_delete", containerId="c1")
        entries = [entry for _, entry in await desk.peer.workspace.accounts.audit.list()]
        assert [(entry.action, entry.target, entry.result) for entry in entries] == [("container.delete", "c1", "ok")]
