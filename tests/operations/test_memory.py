"""Memories, over the management API."""

from tests.server.http.fixtures import open_world

from agentvm.model.memory import MEMORIES_MAX


async def test_a_memory_is_added_changed_listed_and_deleted_by_who_may_use_the_container() -> None:
    async with open_world() as world:
        path, user = "/v1/containers/shared/memories", world.acme.user
        made = (await world.ask("POST", path, {"text": " Likes\x1b \n tea 喜欢茶", "pinned": True}, key=user)).body
        assert (made["text"], made["by"], made["pinned"]) == ("Likes tea 喜欢茶", "user", True)
        one = f"{path}/{made['memoryId']}"
        changed = (await world.ask("PUT", one, {"text": "Likes coffee"}, key=user)).body
        assert (changed["text"], "pinned" in changed, changed["createdAt"]) == ("Likes coffee", False, made["createdAt"])
        assert [item["text"] for item in (await world.ask("GET", path, key=user)).items] == ["Likes coffee"]
        assert (await world.ask("GET", path, key=world.bolt.user)).items == [], "a container of the same name, of others"
        assert (await world.ask("DELETE", one, key=world.bolt.user)).status == 404
        assert (await world.ask("DELETE", one, key=user)).status == 200
        assert (await world.ask("DELETE", one, key=user)).status == 404


async def test_what_is_no_memory_is_refused() -> None:
    async with open_world() as world:
        path, user = "/v1/containers/shared/memories", world.acme.user
        for wrong in ({}, {"text": ""}, {"text": "\x00 "}, {"text": "x" * 501}, {"text": 7}):
            assert (await world.ask("POST", path, wrong, key=user)).status == 400, wrong
        assert (await world.ask("PUT", f"{path}/a.b", {"text": "x"}, key=user)).status == 400
        assert (await world.ask("GET", "/v1/containers/others/memories", key=user)).status == 403
        for number in range(MEMORIES_MAX):
            assert (await world.ask("PUT", f"{path}/m{number}", {"text": "x"}, key=user)).status == 200
        full = await world.ask("POST", path, {"text": "x"}, key=user)
        assert (full.status, full.body["error"]["code"]) == (422, "too_many_memories")
