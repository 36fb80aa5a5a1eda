from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from tests.operations.fixtures import open_desk

from agentvm.client.verbs import RuntimeView
from agentvm.errors import ChannelClosed, ImageNotFound, InvalidInput, UnknownCommand
from agentvm.model.image import ImageConfig
from agentvm.runtime.channel import GOING_AWAY, TOO_SLOW
from agentvm.server.local_link import LocalLink


@asynccontextmanager
async def open_view() -> AsyncIterator[RuntimeView]:
    async with open_desk() as desk, anyio.create_task_group() as tasks:
        link = LocalLink(desk.peer)
        tasks.start_soon(link.run)
        yield RuntimeView(link)
        desk.peer.channel.close(GOING_AWAY)


async def test_a_whole_turn_goes_through_without_a_socket() -> None:
    async with open_view() as view:
        image = await view.images.create(ImageConfig(name="Chat"), container_id="c1")
        agent = await view.images.run(image.image_id)
        with anyio.fail_after(60):
            told = [event async for event in agent.stream("Hello you")]
        assert [event.data["text"] for event in told if event.type == "text_delta"] == ["Hello", " you"]
        assert told[-1].type == "turn_response"
        session = await view.sessions.get(image.session_id)
        assert session is not None
        assert len(await session.messages()) == 2


async def test_the_wires_words_are_answered_as_on_the_wire() -> None:
    async with open_view() as view:
        response = await view.request("container_create_request", {"containerId": "c1"})
        assert (response.type, response.category, response.data) == (
            "container_create_response",
            "response",
            {"containerId": "c1"},
        )


@pytest.mark.parametrize("kind", ["image_explode_request", "container_list", "container_list_response", "", "_request"])
async def test_an_unknown_request_is_refused(kind: str) -> None:
    async with open_view() as view:
        with pytest.raises(UnknownCommand):
            await view.request(kind)


@pytest.mark.parametrize(
    "data", [{}, {"containerId": 5}, {"containerId": object()}, {"containerId": "\ud800"}, {"containerId": "../x"}]
)
async def test_data_of_the_wrong_kind_is_refused(data: dict[str, object]) -> None:
    async with open_view() as view:
        with pytest.raises(InvalidInput):
            await view.request("container_create_request", data)


async def test_an_argument_of_the_wrong_kind_is_refused_as_over_a_socket() -> None:
    async with open_view() as view:
        for wrong in (5, "\ud800", object()):
            with pytest.raises(InvalidInput):
                await view.containers.create(wrong)  # type: ignore[arg-type]  # which is the point


async def test_an_error_is_raised_as_its_own_class() -> None:
    async with open_view() as view:
        with pytest.raises(ImageNotFound):
            await view.images.run("nope")


async def test_handlers_hear_events_until_they_unsubscribe_and_iterators_end_with_the_link() -> None:
    heard: list[str] = []
    async with open_desk() as desk:
        link = LocalLink(desk.peer)
        view = RuntimeView(link)
        stop = view.on("container_created", lambda event: heard.append(str(event.data["containerId"])))
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks, link.events() as events:
                tasks.start_soon(link.run)
                await view.containers.create("c1")
                assert (await anext(events)).type == "container_created"
                stop()
                await view.containers.create("c2")
                desk.peer.channel.close(GOING_AWAY)
                assert [event.type async for event in events] == ["container_created", "disconnected"]
        assert heard == ["c1"]


async def test_the_end_of_a_link_is_its_last_event_and_names_the_reason() -> None:
    ends: list[object] = []
    async with open_desk() as desk:
        link = LocalLink(desk.peer)
        RuntimeView(link).on("disconnected", lambda event: ends.append(event.data["message"]))
        desk.peer.channel.close(TOO_SLOW)
        with anyio.fail_after(60):
            await link.run()
    assert ends == [TOO_SLOW.reason]


async def test_a_link_that_has_ended_says_so_instead_of_acting() -> None:
    async with open_desk() as desk:
        link = LocalLink(desk.peer)
        view = RuntimeView(link)
        desk.peer.channel.close(TOO_SLOW)
        with pytest.raises(ChannelClosed, match=TOO_SLOW.reason):
            await view.containers.create("c1")
        with pytest.raises(ChannelClosed):
            await view.request("container_create_request", {"containerId": "c1"})
        with anyio.fail_after(60), pytest.raises(ChannelClosed):
            async with link.events() as events:
                await anext(events)
        assert await desk.another().ask("container_list") == {"containerIds": []}
