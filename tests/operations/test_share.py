"""Links to conversations, over the management API."""

from tests.server.http.fixtures import open_world


async def test_a_link_shows_a_colleague_what_was_said_until_it_was_made() -> None:
    async with open_world() as world:
        acme = world.acme
        said = (await world.ask("POST", "/v1/messages", {"content": "first words"}, key=acme.admin)).body
        session = said["sessionId"]
        stranger = await world.key(acme.tenant_id, ["sessions:read"], containers=["elsewhere"])
        assert (await world.ask("GET", f"/v1/sessions/{session}/messages", key=stranger)).status in (403, 404)
        share = (await world.ask("POST", f"/v1/sessions/{session}/shares", {"days": 7}, key=acme.admin)).body
        link = f"/v1/shares/{share['shareId']}"
        seen = (await world.ask("GET", link, key=stranger)).body
        assert [(item["role"], item["text"]) for item in seen["items"]] == [
            ("user", "first words"),
            ("assistant", said["text"]),
        ]
        world.clock.now += 1_000
        more = {"content": "later words", "sessionId": session}
        assert (await world.ask("POST", "/v1/messages", more, key=acme.admin)).status == 200
        assert (await world.ask("GET", link, key=stranger)).body["items"] == seen["items"]
        first = (await world.ask("GET", f"{link}?limit=1", key=stranger)).body
        rest = (await world.ask("GET", f"{link}?cursor={first['nextCursor']}", key=stranger)).body
        assert first["items"] + rest["items"] == seen["items"]
        world.clock.now += 7 * 86_400_000
        assert (await world.ask("GET", link, key=stranger)).status == 404


async def test_a_link_is_listed_and_ended_by_those_who_may_use_the_session() -> None:
    async with open_world() as world:
        acme = world.acme
        await world.hide(acme)
        path = f"/v1/sessions/{acme.session_id}/shares"
        ids = [(await world.ask("POST", path, {}, key=acme.admin)).body["shareId"] for _ in range(2)]
        listed = [item["shareId"] for item in (await world.ask("GET", path, key=acme.admin)).items]
        assert listed == [*ids[::-1], acme.share_id]
        outside = await world.key(acme.tenant_id, ["agent:use", "sessions:read"], containers=["elsewhere"])
        assert (await world.ask("GET", path, key=outside)).status in (403, 404)
        assert (await world.ask("DELETE", f"/v1/shares/{ids[0]}", key=outside)).status == 404
        for key in (world.bolt.admin, world.bolt.user):
            assert (await world.ask("GET", f"/v1/shares/{ids[0]}", key=key)).status == 404
        assert (await world.ask("DELETE", f"/v1/shares/{ids[0]}", key=acme.admin)).status == 204
        assert (await world.ask("GET", f"/v1/shares/{ids[0]}", key=acme.admin)).status == 404
        for days in (0, 366, "soon"):
            assert (await world.ask("POST", path, {"days": days}, key=acme.admin)).status == 400
        assert (await world.ask("DELETE", f"/v1/sessions/{acme.session_id}", key=acme.admin)).status in (200, 204)
        assert (await world.ask("GET", f"/v1/shares/{ids[1]}", key=acme.admin)).status == 404
