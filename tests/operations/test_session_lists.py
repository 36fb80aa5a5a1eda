from tests.server.http.fixtures import open_world

from agentvm.model.limits import Limits

DAY = 86_400_000


async def test_sessions_are_listed_found_and_read() -> None:
    async with open_world() as world:
        session_id = await world.say(world.acme, "hello", "上海天气 <b>", "third")
        listed = (await world.ask("GET", "/v1/sessions?limit=1", key=world.acme.admin)).body
        assert (listed["total"], "nextCursor" in listed) == (2, True)
        rest = await world.ask("GET", f"/v1/sessions?limit=5&cursor={listed['nextCursor']}", key=world.acme.admin)
        named = {item["sessionId"]: item for item in [*listed["items"], *rest.items]}
        assert (named[session_id]["preview"], named[session_id]["unread"]) == ("third", 0)
        found = (
            await world.ask("GET", "/v1/sessions/search?q=%E5%A4%A9%E6%B0%94&role=user&since=1970-01-01", key=world.acme.admin)
        ).body
        (hit,) = found["items"]
        assert (hit["sessionId"], hit["position"], hit["before"], hit["after"]) == (session_id, 1, "hello", "third")
        assert hit["snippet"] == "上海<mark>天气</mark> &lt;b&gt;"
        around = f"/v1/sessions/{session_id}/messages?around={hit['messageId']}&limit=2"
        page = (await world.ask("GET", around, key=world.acme.admin)).body
        assert [one["content"] for one in page["items"]] == ["hello", "上海天气 <b>"]
        newest = (await world.ask("GET", f"/v1/sessions/{session_id}/messages?order=newest&limit=1", key=world.acme.admin)).body
        assert ([one["content"] for one in newest["items"]], newest["total"]) == (["third"], 3)
        assert "logCursor" in newest
        assert "logCursor" not in page


async def test_a_session_is_renamed_pinned_archived_and_marked() -> None:
    async with open_world() as world:
        path = f"/v1/sessions/{await world.say(world.acme, 'hello')}"
        for change, member in (({"pinned": True}, "pinnedAt"), ({"archived": True}, "archivedAt")):
            changed = (await world.ask("PUT", path, change, key=world.acme.admin)).body
            assert changed[member] == world.clock()
        both = {"title": "Trip", "pinned": False}
        renamed = (await world.ask("PUT", path, both, key=world.acme.admin)).body
        assert (renamed["title"], "pinnedAt" in renamed, "archivedAt" in renamed) == ("Trip", False, True)
        assert (await world.ask("PUT", path, {"title": None}, key=world.acme.admin)).body["title"] is None
        archived = await world.ask("GET", "/v1/sessions?archived=true", key=world.acme.admin)
        assert len(archived.items) == 1
        assert (await world.ask("POST", f"{path}/read", {"device": "phone"}, key=world.acme.admin)).body["unread"] == 0
        wrong = await world.ask("POST", f"{path}/read", {"cursor": "x", "messageId": "y"}, key=world.acme.admin)
        assert (wrong.status, wrong.code) == (400, "invalid_input")
        assert (await world.ask("PUT", path, {"title": "x" * 301}, key=world.acme.admin)).status == 400
        assert (await world.audit(world.acme.tenant_id))[1][0] == "session.change"


async def test_deleted_sessions_and_forks_are_listed() -> None:
    async with open_world() as world:
        session_id = await world.say(world.acme, "one", "two")
        path = f"/v1/sessions/{session_id}"
        first, _ = (await world.ask("GET", f"{path}/messages", key=world.acme.admin)).items
        fork = (await world.ask("POST", f"{path}/fork", {"messageId": first["id"]}, key=world.acme.admin)).body
        forks = await world.ask("GET", f"/v1/sessions?forkedFrom={session_id}&archived=all", key=world.acme.admin)
        assert [(one["sessionId"], one["forkedFrom"]["messageId"]) for one in forks.items] == [(fork["sessionId"], first["id"])]
        until = (await world.ask("DELETE", path, key=world.acme.admin)).body["restorableUntil"]
        (deleted,) = (await world.ask("GET", "/v1/sessions?deleted=true", key=world.acme.admin)).items
        assert (deleted["sessionId"], deleted["restorableUntil"]) == (session_id, until)
        assert (await world.ask("GET", "/v1/sessions?deleted=true", key=world.acme.user)).items == []
        await world.ask("POST", f"{path}/restore", key=world.acme.admin)
        assert (await world.ask("GET", "/v1/sessions?deleted=true", key=world.acme.admin)).items == []


async def test_a_search_finds_titles_of_what_the_asker_reaches() -> None:
    async with open_world() as world:
        session_id = await world.say(world.acme, "hello")
        await world.ask("PUT", f"/v1/sessions/{session_id}", {"title": "A needle"}, key=world.acme.admin)
        found = (await world.ask("GET", "/v1/sessions/search?q=needle", key=world.acme.admin)).body
        assert [one["sessionId"] for one in found["titles"]] == [session_id]
        for key in (world.acme.user, world.bolt.admin):
            assert "titles" not in (await world.ask("GET", "/v1/sessions/search?q=needle", key=key)).body


async def test_a_deleted_session_can_be_restored_for_a_while() -> None:
    async with open_world() as world:
        session_id = await world.say(world.acme, "needle")
        path = f"/v1/sessions/{session_id}"
        deleted = (await world.ask("DELETE", path, key=world.acme.admin)).body
        assert deleted == {"sessionId": session_id, "restorableUntil": world.clock() + int(Limits().undo_seconds * 1000)}
        assert (await world.ask("GET", path, key=world.acme.admin)).code == "session_not_found"
        assert (await world.ask("GET", "/v1/sessions/search?q=needle", key=world.acme.admin)).items == []
        world.clock.now += 6 * DAY
        assert (await world.ask("POST", f"{path}/restore", key=world.acme.admin)).body["sessionId"] == session_id
        await world.ask("DELETE", path, key=world.acme.admin)
        world.clock.now += 8 * DAY
        assert (await world.ask("POST", f"{path}/restore", key=world.acme.admin)).status == 404


async def test_the_default_session_of_an_image_can_be_deleted_too() -> None:
    async with open_world() as world:
        await world.say(world.acme, "hello")
        items = (await world.ask("GET", "/v1/sessions", key=world.acme.admin)).items
        default = next(item["sessionId"] for item in items if "preview" not in item)
        assert (await world.ask("DELETE", f"/v1/sessions/{default}", key=world.acme.admin)).status == 200
        assert (await world.ask("GET", f"/v1/sessions/{default}", key=world.acme.admin)).status == 404
        # The image has another, and keeps it.
        assert len((await world.ask("GET", "/v1/sessions", key=world.acme.admin)).items) == len(items) - 1
        assert (await world.ask("POST", f"/v1/sessions/{default}/restore", key=world.acme.admin)).status == 200


async def test_a_user_sees_the_containers_they_reach_and_no_other() -> None:
    async with open_world() as world:
        own = await world.say(world.acme, "needle", container="acme-user")
        other = await world.say(world.acme, "needle", container="elsewhere")
        key = await world.key(world.acme.tenant_id, ["sessions:read", "agent:use"], user_id=world.acme.user_id)
        reachable = (await world.ask("GET", "/v1/sessions/search?q=needle", key=key)).items
        assert other not in [item["sessionId"] for item in reachable]
        assert own != other
        assert (await world.ask("GET", f"/v1/sessions/{other}", key=key)).status == 404
        assert (await world.ask("POST", f"/v1/sessions/{other}/restore", key=key)).status == 404
        assert (await world.ask("GET", "/v1/sessions?container=elsewhere", key=key)).status == 403


async def test_the_operator_looks_into_another_tenant_by_naming_it() -> None:
    async with open_world() as world:
        session_id = await world.say(world.acme, "needle")
        found = await world.ask("GET", "/v1/sessions/search?q=needle&tenant=acme", key=world.operator)
        assert [item["sessionId"] for item in found.items] == [session_id]
        assert (await world.ask("GET", "/v1/sessions/search?q=needle", key=world.operator)).items == []
