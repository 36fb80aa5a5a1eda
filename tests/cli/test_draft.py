from tests.cli.desk import open_desk


async def test_a_draft_is_kept_shown_listed_and_removed() -> None:
    async with open_desk() as desk:
        session_id = (await desk.server.agentx.images.create(container_id="c1")).session_id
        assert "Draft saved." in await desk.ok("session", "draft", "set", session_id, "one\ntwo", "--device", "phone")
        assert "one\ntwo" in await desk.ok("session", "draft", "show", session_id)
        assert "one two" in await desk.ok("session", "draft", "list")
        (found,) = await desk.record("session", "draft", "show", session_id)
        late = await desk.avm("session", "draft", "set", session_id, "x", "--device", "phone", "--if-updated-at", "1")
        assert (late.code, "changed in the meantime" in late.err) == (1, True)
        moment = str(found["updatedAt"])
        assert await desk.ok("session", "draft", "set", session_id, "x", "--device", "phone", "--if-updated-at", moment)
        assert "Draft deleted." in await desk.ok("session", "draft", "delete", session_id, "--device", "phone")
        assert "No drafts found." in (await desk.avm("session", "draft", "show", session_id)).err
