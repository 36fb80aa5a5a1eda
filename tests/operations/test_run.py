"""One call without a session: answered, billed, and gone."""

from tests.operations.fixtures import open_desk
from tests.server.http.fixtures import open_world

FORM = {"name": "n", "schema": {"type": "object", "required": ["n"]}}


async def test_a_run_is_answered_and_only_the_ledger_keeps_it() -> None:
    async with open_world() as world:
        key = world.acme.user
        ran = await world.ask("POST", "/v1/run", {"content": '{"n": 1}', "output": FORM}, key=key)
        assert (ran.body["outcome"], ran.body["output"]) == ("completed", {"n": 1})
        session_id = ran.body["sessionId"]
        assert (await world.ask("GET", f"/v1/sessions/{session_id}", key=key)).code == "session_not_found"
        listed = await world.ask("GET", "/v1/sessions?archived=all", key=key)
        assert session_id not in [item["sessionId"] for item in listed.items]
        deleted = await world.ask("GET", "/v1/sessions?archived=all&deleted=true", key=key)
        turns = await world.ask("GET", "/v1/turns", key=key)
        assert (deleted.items, turns.items) == ([], [])
        restored = await world.ask("POST", f"/v1/sessions/{session_id}/restore", {}, key=key)
        assert restored.code == "session_not_found"
        usage = await world.ask("GET", "/v1/usage?by=image", key=world.acme.admin)
        assert [item["calls"] for item in usage.items] == [1]
        kept = await world.ask("POST", "/v1/run", {"content": "hello", "keep": True}, key=key)
        assert (await world.ask("GET", f"/v1/sessions/{kept.body['sessionId']}", key=key)).status == 200


async def test_a_run_names_the_passages_that_its_answer_cites() -> None:
    async with open_world() as world:
        key = world.acme.admin
        content = {"documents": [{"id": "returns.md", "text": "Within seven days."}], "retrieval": {"inject": 1}}
        docs = {"type": "knowledge", "name": "docs", "content": content}
        assert (await world.ask("POST", "/v1/resources", docs, key=key)).status == 201
        sales = {"config": {"knowledge": ["resource://knowledge/docs"]}}
        image = (await world.ask("POST", "/v1/images", sales, key=key)).body["image"]
        asked = {"agent": image["imageId"], "content": "seven days [1], or [2]?"}
        ran = await world.ask("POST", "/v1/run", asked, key=key)
        assert ran.body["citations"] == [{"n": 1, "cite": "resource://knowledge/docs@1.0.0#returns.md:0-18"}]


async def test_a_run_is_streamed_and_its_session_goes_by_itself() -> None:
    async with open_world() as world:
        key = world.acme.user
        streamed = await world.ask("POST", "/v1/run", {"content": "hello", "stream": True}, key=key)
        assert b"event: turn_response" in streamed.raw
        store = world.vm.tenancy.store.tenant(world.acme.tenant_id)
        (turn,) = (await world.ask("GET", "/v1/turns", key=key)).items
        container_id = await store.find_session(turn["sessionId"])
        assert container_id is not None
        assert await store.container(container_id).aliases.of_session("unstored", turn["sessionId"]) == (turn["sessionId"],)


async def test_a_run_needs_rights_an_agent_and_content() -> None:
    async with open_world() as world:
        mute = await world.key(world.acme.tenant_id, ["agent:use"])
        assert (await world.ask("POST", "/v1/run", {"content": "hi"}, key=mute)).code == "permission_denied"
        for body, code in (
            ({"content": ""}, "invalid_input"),
            ({"content": "hi", "agent": "nobody"}, "definition_not_found"),
            ({"content": "hi", "output": {"name": "n", "schema": {"type": 3}}}, "unprocessable"),
            ({"content": "hi", "sessionId": "sess_x"}, "invalid_input"),
        ):
            assert (await world.ask("POST", "/v1/run", body, key=world.acme.user)).code == code
        assert (await world.ask("GET", "/v1/turns", key=world.acme.user)).items == []


async def test_a_run_over_a_socket_is_heard_by_its_sender() -> None:
    async with open_desk() as desk:
        sent = await desk.ask("run_start", content="hello")
        assert sent["turnId"].startswith("turn_")
        assert sent["sessionId"].startswith("sess_")
