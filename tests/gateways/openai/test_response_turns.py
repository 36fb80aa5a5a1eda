import pytest
from tests.gateways.test_talk import talk_of
from tests.server.http.fixtures import open_world

from agentvm.errors import NotFound
from agentvm.gateways.openai.response_turns import (
    conversation_id,
    find_conversation,
    find_response,
    go_on,
    go_on_in,
    session_messages,
    turn_messages,
)
from agentvm.gateways.talk import SentTurn, Talk
from agentvm.model.ids import ContainerId, SessionId
from agentvm.model.image import ImageConfig
from agentvm.operations.image_build import ImageCreate

HOME = ContainerId("c1")


async def said(talk: Talk, session_id: SessionId, text: str) -> SentTurn:
    sent = await talk.send(session_id, text)
    assert [part async for part in talk.parts(sent)]
    return sent


async def test_a_response_is_a_turn_and_a_conversation_a_session() -> None:
    async with open_world() as world:
        talk = talk_of(world)
        image = await talk.agent("default", HOME)
        session = await talk.open(image.image_id, None)
        first, second = [await said(talk, session.session_id, text) for text in ("one", "two")]
        found = await find_response(talk, f"resp_{first.turn_id}")
        assert (found.response_id, found.number, found.client_tools) == (f"resp_{first.turn_id}", 1, frozenset())
        assert [message.turn_id for message in await turn_messages(talk, found.turn)] == [first.turn_id] * 2
        assert len(await session_messages(talk, session)) == 4
        assert (await found.read(talk))[0].response["model"] == image.image_id
        named = await conversation_id(talk, HOME, session.session_id)
        assert (await find_conversation(talk, named, HOME)).session_id == session.session_id
        forked = await go_on(talk, found, image.image_id)
        assert forked.session_id != session.session_id
        assert len(await session_messages(talk, forked)) == 2
        last = await find_response(talk, f"resp_{second.turn_id}")
        assert (await go_on(talk, last, image.image_id)).session_id == session.session_id


async def test_names_that_mean_nothing_are_not_found() -> None:
    async with open_world() as world:
        talk = talk_of(world)
        image = await talk.agent("default", HOME)
        sent = await said(talk, (await talk.open(image.image_id, None)).session_id, "one")
        for named in (
            str(sent.turn_id),
            f"resp_{sent.turn_id}-1",
            f"resp_{sent.turn_id}-x",
            f"resp_{sent.turn_id}-02",
            f"resp_{sent.turn_id}-{'9' * 5_000}",
            "resp_",
            "",
        ):
            with pytest.raises(NotFound, match="Response not found: "):
                await find_response(talk, named)
        missing = await find_response(talk, f"resp_{sent.turn_id}-2")
        with pytest.raises(NotFound, match="Response not found: "):
            await missing.read(talk)
        for named in (str(sent.session_id), "conv_", ""):
            with pytest.raises(NotFound, match="Conversation not found: "):
                await find_conversation(talk, named, HOME)


async def test_a_conversation_keeps_its_name_with_another_agent() -> None:
    async with open_world() as world:
        talk = talk_of(world)
        image = await talk.agent("default", HOME)
        session = await talk.open(image.image_id, None)
        named = await conversation_id(talk, HOME, session.session_id)
        assert await go_on_in(talk, named, session, image.image_id) == session
        other = await talk.ask(ImageCreate(container_id=HOME, config=ImageConfig()))
        moved = await go_on_in(talk, named, session, other.record.image_id)
        assert moved.image_id == other.record.image_id
        assert (await find_conversation(talk, named, HOME)).session_id == moved.session_id
        assert await conversation_id(talk, HOME, moved.session_id) == named
        with pytest.raises(NotFound):
            await talk.session(session.session_id)
