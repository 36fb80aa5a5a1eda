"""Ratings of answers, over the management API."""

from tests.server.http.fixtures import open_world

LIST = "/v1/feedback"


async def test_a_rating_is_replaced_read_by_administrators_and_taken_back() -> None:
    async with open_world() as world:
        acme = world.acme
        await world.hide(acme)
        path, member = f"/v1/turns/{acme.turn_id}/feedback", await world.key(acme.tenant_id, ["agent:use", "sessions:read"])
        given = (await world.ask("PUT", path, {"rating": "down", "note": "<b>wrong</b>"}, key=member)).body
        assert (given["rating"], given["note"], bool(given["author"])) == ("down", "<b>wrong</b>", True)
        assert (await world.ask("PUT", path, {"rating": "up"}, key=member)).status == 200
        assert (await world.ask("PUT", path, {"rating": "down"}, key=acme.admin)).status == 200
        own = (await world.ask("GET", LIST, key=member)).items
        assert [(item["rating"], "note" in item) for item in own] == [("up", False)]
        seen = (await world.ask("GET", f"{LIST}?session={acme.session_id}", key=acme.admin)).items
        assert [item["rating"] for item in seen] == ["down", "up"]
        assert len((await world.ask("GET", f"{LIST}?rating=down", key=acme.admin)).items) == 1
        page = (await world.ask("GET", f"{LIST}?limit=1", key=acme.admin)).body
        rest = (await world.ask("GET", f"{LIST}?cursor={page['nextCursor']}", key=acme.admin)).items
        assert [item["rating"] for item in (*page["items"], *rest)] == ["down", "up"]
        assert (await world.ask("DELETE", path, key=member)).status == 204
        assert (await world.ask("DELETE", path, key=member)).status == 404
        assert len((await world.ask("GET", LIST, key=acme.admin)).items) == 1


async def test_an_administrator_of_some_containers_reads_the_ratings_there() -> None:
    async with open_world() as world:
        acme = world.acme
        await world.hide(acme)
        assert (await world.ask("PUT", f"/v1/turns/{acme.turn_id}/feedback", {"rating": "up"}, key=acme.admin)).status == 200
        for containers, number in ((("priv*",), 1), (("other",), 0)):
            key = await world.key(acme.tenant_id, ["tenants:admin", "sessions:read"], containers=containers)
            assert len((await world.ask("GET", LIST, key=key)).items) == number


async def test_a_rating_of_a_foreign_turn_or_with_a_wrong_word_is_refused() -> None:
    async with open_world() as world:
        await world.hide(world.acme)
        path = f"/v1/turns/{world.acme.turn_id}/feedback"
        assert (await world.ask("PUT", path, {"rating": "up"}, key=world.bolt.user)).status == 404
        for wrong in ({"rating": "fine"}, {}, {"rating": "up", "note": "x" * 2_001}):
            assert (await world.ask("PUT", path, wrong, key=world.acme.admin)).status == 400
        assert (await world.ask("GET", LIST, key=world.bolt.admin)).items == []
