import dataclasses

import pytest
from tests.operations.fixtures import Vanishing, open_desk

from agentvm.model.account import Quota
from agentvm.model.session import TITLE_MAX


def about(command: str, session_id: str, image_id: str = "") -> dict[str, object]:
    """What the command takes to be about a session."""
    if command == "session_list":
        return {"imageId": image_id}
    return {"sessionId": session_id, **({"title": "x"} if command == "session_set_title" else {})}


async def test_an_image_has_a_default_session_and_may_have_more() -> None:
    async with open_desk() as desk:
        image = await desk.create_image()
        made = await desk.ask("session_create", imageId=image["imageId"], title="second")
        session = made["session"]
        assert made["__subscriptions"] == [session["sessionId"]]
        assert (session["imageId"], session["containerId"], session["title"]) == (image["imageId"], "c1", "second")
        listed = await desk.ask("session_list", imageId=image["imageId"])
        ids = [image["sessionId"], session["sessionId"]]
        assert [one["sessionId"] for one in listed["sessions"]] == ids
        assert listed["__subscriptions"] == ids
        assert "session_created" in desk.types()


async def test_a_session_is_got_and_renamed() -> None:
    async with open_desk() as desk:
        session_id = (await desk.create_image())["sessionId"]
        assert (await desk.ask("session_get", sessionId=session_id))["session"]["title"] is None
        assert (await desk.ask("session_set_title", sessionId=session_id, title="new"))["session"]["title"] == "new"
        assert (await desk.ask("session_get", sessionId=session_id))["session"]["title"] == "new"
        assert (await desk.ask("session_set_title", sessionId=session_id, title=None))["session"]["title"] is None
        told = [event["data"] for event in desk.heard if event["type"] == "session_title_updated"]
        assert [one["title"] for one in told] == ["new", None]
        assert await desk.ask("session_get", sessionId="nope") == {"session": None}


async def test_a_session_is_resumed_with_what_was_said_before() -> None:
    async with open_desk() as desk:
        image = await desk.create_image()
        session_id = (await desk.ask("session_create", imageId=image["imageId"]))["session"]["sessionId"]
        started = await desk.ask("session_resume", sessionId=session_id)
        assert (started["imageId"], started["sessionId"], started["reused"]) == (image["imageId"], session_id, False)
        assert (await desk.ask("session_resume", sessionId=session_id))["reused"]
        await desk.ask("message_send", agentId=started["agentId"], content="hi")
        await desk.hear("turn_response")
        await desk.ask("agent_destroy", agentId=started["agentId"])
        again = await desk.ask("session_resume", sessionId=session_id)
        assert not again["reused"]
        history = await desk.ask("session_messages", sessionId=session_id)
        assert [one["subtype"] for one in history["messages"]] == ["user", "assistant"]
        assert (await desk.ask("image_messages", imageId=image["imageId"]))["messages"] == []


@pytest.mark.parametrize("command", ["session_set_title", "session_resume", "session_messages"])
async def test_a_session_nobody_has_or_of_another_tenant_is_not_found(command: str) -> None:
    async with open_desk() as desk:
        session_id = (await desk.create_image())["sessionId"]
        for peer, wanted in ((desk, "nope"), (desk.another("other"), session_id)):
            reply = await peer.ask(command, **about(command, wanted))
            assert reply == {"error": f"Session not found: {wanted}", "errorCode": "session_not_found"}


@pytest.mark.parametrize("command", ["session_get", "session_list", "session_resume", "session_messages", "session_set_title"])
async def test_a_peer_that_touches_a_session_hears_its_turns(command: str) -> None:
    async with open_desk() as desk:
        image = await desk.create_image()
        listener = desk.another()
        await listener.ask(command, **about(command, image["sessionId"], image["imageId"]))
        await desk.ask("message_send", imageId=image["imageId"], content="hi")
        await listener.hear("turn_response")


@pytest.mark.parametrize(
    ("command", "code"), [("session_resume", "image_not_found"), ("session_set_title", "session_not_found")]
)
async def test_what_vanishes_in_the_middle_of_a_command_is_not_found(command: str, code: str) -> None:
    async with open_desk() as desk:
        session_id = (await desk.create_image())["sessionId"]
        desk.peer = dataclasses.replace(desk.peer, store=Vanishing(desk.peer.store))  # type: ignore[arg-type]  # a double
        assert (await desk.ask(command, **about(command, session_id)))["errorCode"] == code


async def test_a_title_is_so_long_and_no_longer() -> None:
    async with open_desk() as desk:
        image = await desk.create_image()
        for title, code in (("x" * TITLE_MAX, None), ("x" * (TITLE_MAX + 1), "invalid_input")):
            made = await desk.ask("session_create", imageId=image["imageId"], title=title)
            assert made.get("errorCode") == code
            renamed = await desk.ask("session_set_title", sessionId=image["sessionId"], title=title)
            assert renamed.get("errorCode") == code
        assert len((await desk.ask("session_list", imageId=image["imageId"]))["sessions"]) == 2


async def test_a_session_is_refused_when_nothing_more_may_be_stored() -> None:
    async with open_desk() as desk:
        image = await desk.create_image()
        accounts = desk.vm.tenancy.store.accounts(desk.peer.tenant_id)
        await accounts.quotas.put(Quota(metric="storage_bytes", hard=await accounts.quotas.storage_bytes()), 1)
        await desk.vm.tenancy.quotas.reread(desk.peer.tenant_id)
        refused = await desk.ask("session_create", imageId=image["imageId"], title="second")
        assert "Storage limit in bytes: 0 of" in refused["error"]
        listed = await desk.ask("session_list", imageId=image["imageId"])
        assert len(listed["sessions"]) == 1
