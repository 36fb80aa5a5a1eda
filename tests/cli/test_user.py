from tests.cli.desk import open_desk
from tests.cli.fake_server import Asked, answering

from agentvm.cli.api import Api
from agentvm.cli.names import USER, find


async def test_a_user_is_made_changed_and_deleted() -> None:
    async with open_desk() as desk:
        made = await desk.record("user", "create", "alice@example.org", "--name", "爱丽丝")
        assert (made["externalId"], made["displayName"], made["role"]) == ("alice@example.org", "爱丽丝", "member")
        assert (await desk.ok("user", "list")).splitlines()[1].startswith("alice@example.org  爱丽丝  member  active  usr_")
        changed = await desk.record("user", "update", "alice@example.org", "--name", "", "--role", "viewer")
        assert (changed.get("displayName"), changed["role"]) == (None, "viewer")
        assert await desk.ok("user", "delete", made["userId"], "--yes") == "The user alice@example.org is deleted.\n"
        assert await desk.record("user", "list") == []


async def test_containers_are_bound_and_taken_away() -> None:
    async with open_desk() as desk:
        await desk.ok("user", "create", "alice")
        assert (await desk.ok("user", "bind", "alice", "team-notes")).startswith("alice has access to team-notes")
        assert (await desk.record("user", "show", "alice"))["containers"] == ["user-alice", "team-notes"]
        assert "Containers     user-alice team-notes\n" in await desk.ok("user", "show", "alice")
        await desk.ok("user", "unbind", "alice", "team-notes")
        assert (await desk.record("user", "show", "alice"))["containers"] == ["user-alice"]
        assert "not_found" in (await desk.avm("user", "unbind", "alice", "team-notes")).err


async def test_a_suspended_user_is_shut_out_until_they_are_resumed() -> None:
    async with open_desk() as desk:
        await desk.ok("user", "create", "alice")
        key = (await desk.ok("key", "create", "k", "--user", "alice")).strip()
        assert (await desk.record("user", "suspend", "alice"))["status"] == "suspended"
        assert (await desk.avm("whoami", key=key)).code == 4
        await desk.ok("user", "resume", "alice")
        await desk.ok("whoami", key=key)


async def test_what_cannot_be_done_is_explained() -> None:
    async with open_desk() as desk:
        assert (await desk.avm("user", "create", "x", "--role", "king")).code == 2
        assert (await desk.avm("user", "update", "x")).code == 2
        assert "User not found: nobody (not_found" in (await desk.avm("user", "show", "nobody")).err
        await desk.ok("user", "create", "alice")
        assert "conflict" in (await desk.avm("user", "create", "alice")).err


def test_a_user_is_found_by_the_name_people_know_on_whatever_page_it_is() -> None:
    def answer(asked: Asked) -> tuple[int, object]:
        if asked.path.startswith("/v1/users/"):
            return 404, {"error": {"code": "not_found", "message": "no"}}
        if "cursor=" in asked.path:
            return 200, {"items": [{"userId": "usr_2", "externalId": "bob"}]}
        return 200, {"items": [{"userId": "usr_1", "externalId": "alice"}], "nextCursor": "alice"}

    with answering(answer) as (url, _), Api(url, None) as api:
        assert find(api, USER, "bob")["userId"] == "usr_2"
