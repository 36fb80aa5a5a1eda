"""Bad input at the edge gets the answers that a server gives."""

from typing import Any

import pytest
from tests.compat.test_bad_input import FRAMES, wrong_data
from tests.compat.test_checklist_connection import NOISE
from tests.faults.shapes import ANTHROPIC, OPENAI, Dialect, Shape, broken_streams, odd_answers, refusals
from tests.support.answers import anthropic_text, message_start, stream, text_block
from tests.support.provider import ScriptedProvider, Stall
from tests.support.serving import serving
from tests.support.wire import Client19, Json, client

EDGE_COMMANDS = (
    *("container_create", "container_get", "container_list", "image_create", "image_get", "image_list", "image_run"),
    *("image_stop", "image_update", "image_delete", "image_messages", "agent_get", "agent_list", "agent_destroy"),
    *("agent_destroy_all", "agent_interrupt", "message_send", "tool_waits", "tool_answer"),
)
FRAME_MAX_BYTES = 4 * 1024 * 1024


async def answers(one: Client19, frame: str) -> list[tuple[str, Any]]:
    """What a frame is answered with: types and codes of everything that is heard up to the next request's reply."""
    await one.settle()
    mark = len(one.events)
    await one.socket.send(frame)
    await one.settle()
    return [(event["type"], event["data"].get("errorCode") or event["data"].get("code")) for event in one.events[mark:]]


async def test_broken_frames_and_noise_are_answered_as_by_a_server(url: str) -> None:
    async with serving() as server, client(server.url) as here, client(url) as there:
        corpus = [frame for frame in (*FRAMES.values(), *NOISE) if len(frame) <= FRAME_MAX_BYTES]
        pairs = [(frame[:80], await answers(there, frame), await answers(here, frame)) for frame in corpus]
    assert [pair for pair in pairs if pair[1] != pair[2]] == []


@pytest.mark.parametrize("name", EDGE_COMMANDS)
async def test_a_command_with_a_member_of_the_wrong_type_is_refused(url: str, name: str) -> None:
    async with client(url) as alice:
        accepted = [
            what
            for what, data in wrong_data(name)
            # Only a server sets it.
            if "__ignored" not in data and (await alice.request(f"{name}_request", **data)).get("errorCode") != "invalid_input"
        ]
    assert accepted == []


async def test_what_a_message_wants_beside_a_running_turn_is_done_or_refused(url: str, provider: ScriptedProvider) -> None:
    provider.play(stream([message_start(), *text_block(0, "Half")[:2], Stall()]), anthropic_text("Second"))
    async with client(url) as alice:
        record = await alice.image("c1")
        ids = {"imageId": record["imageId"]}
        first = await alice.request("message_send_request", **ids, content="one")
        await alice.wait("text_delta")
        waiting = await alice.request("message_send_request", **ids, content="waits, and is taken back")
        refusals: list[tuple[Json, str]] = [
            ({**ids, "onBusy": "reject"}, "agent_busy"),
            ({**ids, "onBusy": "later"}, "invalid_input"),
            ({**ids, "options": {"model": "x"}}, "invalid_input"),
            ({**ids, "output": {"schema": {}}}, "invalid_input"),
            ({**ids, "sessionId": "sess_of_somebody"}, "session_not_found"),
            ({"sessionId": "sess_of_nobody"}, "session_not_found"),
        ]
        for data, code in refusals:
            assert (await alice.request("message_send_request", content="no", **data))["errorCode"] == code, data
        # To the session alone, which is the image's.
        second = await alice.request(
            "message_send_request", sessionId=record["sessionId"], content="instead", onBusy="interrupt"
        )
        ends = [(await alice.end_of(sent["turnId"]))["data"]["outcome"] for sent in (first, second)]
        messages = (await alice.request("image_messages_request", **ids))["messages"]
    assert ends == ["interrupted", "completed"]
    assert [message["content"] for message in messages if message["role"] == "user"] == ["one", "instead"]
    assert waiting["turnId"] != second["turnId"]


def failing(wire: Dialect) -> dict[str, Shape]:
    """What can go wrong with a provider, but what only a second call would mend: nothing is tried again here."""
    return {
        name: shape
        for name, shape in {**refusals(wire), **broken_streams(wire), **odd_answers(wire)}.items()
        if shape.where in ("http", "stalled")
        and len(shape.plays) == 1
        # Its limit of calls is not the one of those tests.
        and name != "calls without end"
    }


@pytest.mark.parametrize(("wire", "model"), [(ANTHROPIC, "impatient/model"), (OPENAI, "chat-impatient/model")])
async def test_a_provider_that_fails_or_stalls_is_told_as_by_a_server(
    wire: Dialect, model: str, url: str, provider: ScriptedProvider
) -> None:
    wrong = []
    for name, shape in failing(wire).items():
        provider.play(*shape.plays)
        async with client(url) as alice:
            image_id = (await alice.image("c1", model=model))["imageId"]
            end = (await alice.say(image_id, "hi"))["data"]
            codes = [event["data"]["code"] for event in alice.events if event["type"] == "error_occurred"]
            said = "".join(event["data"]["text"] for event in alice.events if event["type"] == "text_delta")
        expected = ([] if shape.code is None else [shape.code], "completed" if shape.code is None else "failed", shape.text)
        if (codes, end["outcome"], said) != expected:
            wrong.append((name, (codes, end["outcome"], said), expected))
    assert not wrong, "\n".join(map(str, wrong))
