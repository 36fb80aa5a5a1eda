"""Checklist 39-46: turns. T1 to T5 are the timelines of the protocol document, section 4.3."""

from pathlib import Path

import pytest
from tests.support.replay import ADDITIVE
from tests.support.serving import Play, serving
from tests.support.wire import Client19, Json, client

from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import ScriptStep, reply
from agentvm.model.limits import Limits

ACCEPTED = ["message_persisted", "message_send_response"]
STARTED = ["message_start", "conversation_start"]
ENDED = ["message_stop", "assistant_message", "conversation_end"]
TOOL = ["tool_use_start", "tool_planned", "tool_executing", "input_json_delta", "input_json_delta", "tool_use_stop"]
ERROR = ["error_received", "error_message", "error_occurred"]


def block(deltas: int) -> list[str]:
    """A text block; `conversation_responding` comes once (Q29)."""
    spoken = ["text_delta", "conversation_responding", *["text_delta"] * (deltas - 1)]
    return ["text_content_block_start", *spoken, "text_content_block_stop"]


async def turn(alice: Client19, image_id: str, content: object) -> list[str]:
    """The types of the turn that content brings, without additive ones; checks that each has its whole context."""
    record = (await alice.request("image_get_request", imageId=image_id))["record"]
    mark = len(alice.events)
    end = await alice.say(image_id, content)
    agent_id = end["context"]["agentId"]
    context = {"containerId": "c1", "imageId": image_id, "agentId": agent_id, "sessionId": record["sessionId"]}
    for event in alice.events[mark:]:
        if event["source"] == "agent":
            assert event["context"].items() >= context.items(), event
    return alice.since(mark, additive=ADDITIVE)


async def test_item_39_t1_a_plain_turn_on_a_cold_and_on_a_warm_image() -> None:
    async with serving() as server, client(server.url) as alice:
        image_id = (await alice.image())["imageId"]
        plain = [*ACCEPTED, *STARTED, *block(2), *ENDED]
        assert await turn(alice, image_id, "Hello world") == ["agent_registered", *plain]
        assert await turn(alice, image_id, "Hello again") == plain


async def test_item_39_t2_a_turn_with_a_tool() -> None:
    async with serving(Play()) as server, client(server.url) as alice:
        image_id = (await alice.image())["imageId"]
        await alice.request("image_run_request", imageId=image_id)
        assert await turn(alice, image_id, "tool please") == [
            *(*ACCEPTED, *STARTED, *block(1), *TOOL, "tool_call_message", "message_stop", "assistant_message"),
            *("tool_result", "tool_result_message"),
            *(*STARTED, *block(2), *ENDED),
        ]
        stops = [event["data"]["stopReason"] for event in alice.events if event["type"] == "message_stop"]
        assert stops == ["tool_use", "end_turn"]


async def test_item_39_t3_an_interrupted_turn() -> None:
    async with serving(Play()) as server, client(server.url) as alice:
        image_id = (await alice.image())["imageId"]
        await alice.request("image_run_request", imageId=image_id)
        mark = len(alice.events)
        sent = await alice.request("message_send_request", imageId=image_id, content="slow")
        await alice.wait("text_delta", 2)
        await alice.request("agent_interrupt_request", imageId=image_id)
        await alice.end_of(sent["turnId"])
        assert alice.since(mark, additive=ADDITIVE) == [
            *(*ACCEPTED, *STARTED, "text_content_block_start", "text_delta", "conversation_responding", "text_delta"),
            *("interrupted", "agent_interrupt_response", *ENDED),
        ]
        stop, said = await alice.wait("message_stop"), await alice.wait("assistant_message")
        assert stop["data"] == {"stopReason": "end_turn"}
        assert said["data"]["content"] == [{"type": "text", "text": "w0 w1 "}]


@pytest.mark.parametrize(("content", "partial"), [("crash", True), ("fail", False)])
async def test_item_39_t4_a_failed_turn_ends_with_its_three_errors_and_the_next_one_works(content: str, partial: bool) -> None:
    async with serving(Play()) as server, client(server.url) as alice:
        image_id = (await alice.image())["imageId"]
        await alice.request("image_run_request", imageId=image_id)
        heard = await turn(alice, image_id, content)
        # Q16: what was said before the failure is kept, and told before the three errors.
        said = [*STARTED, "text_content_block_start", "text_delta", "conversation_responding", "assistant_message"]
        assert heard == [*ACCEPTED, *(said if partial else []), *ERROR]
        assert await turn(alice, image_id, "hello") == [*ACCEPTED, *STARTED, *block(1), *ENDED]


async def test_item_39_t5_a_turn_after_a_restart(tmp_path: Path) -> None:
    async with serving(data_dir=tmp_path) as server, client(server.url) as alice:
        image_id = (await alice.image())["imageId"]
        await alice.say(image_id, "first")
        old = (await alice.wait("agent_registered"))["data"]["agentId"]
    async with serving(data_dir=tmp_path) as server, client(server.url) as alice:
        plain = [*ACCEPTED, *STARTED, *block(2), *ENDED]
        assert await turn(alice, image_id, "plain resumed") == ["agent_registered", *plain]
        assert "container_created" not in alice.types
        got = (await alice.request("image_get_request", imageId=image_id))["record"]
        assert got["online"] is True
        assert got["agentId"] not in (old, "")


async def test_item_40_the_answer_to_a_message_comes_before_its_turn_even_with_an_instant_model() -> None:
    async with serving() as server, client(server.url) as alice:
        image_id = (await alice.image())["imageId"]
        asked = [await alice.ask("message_send_request", imageId=image_id, content=str(number)) for number in range(20)]
        turns = [(await alice.answer(request_id))["data"]["turnId"] for request_id in asked]
        await alice.end_of(turns[-1])
        for request_id, turn_id in zip(asked, turns, strict=True):
            answered = alice.events.index(await alice.answer(request_id))
            streamed = [
                number
                for number, event in enumerate(alice.events)
                if event.get("context", {}).get("turnId") == turn_id and event["category"] in ("stream", "state")
                if event["type"] != "conversation_queued"
            ]
            assert answered < min(streamed)


@pytest.mark.parametrize("how", ["image_stop", "image_delete", "agent_destroy", "agent_destroy_all", "agent_interrupt"])
async def test_item_41_a_turn_that_is_cut_off_still_ends_for_its_listeners(how: str) -> None:
    async with serving(Play()) as server, client(server.url) as alice, client(server.url) as bob:
        record = await alice.image()
        await bob.request("image_get_request", imageId=record["imageId"])
        first = await alice.request("message_send_request", imageId=record["imageId"], content="slow")
        queued = await alice.request("message_send_request", imageId=record["imageId"], content="queued")
        await alice.wait("text_delta", 2)
        ids = {"imageId": record["imageId"], "agentId": first["agentId"], "containerId": "c1"}
        wanted = {"image": "imageId", "agent": "agentId"}[how.partition("_")[0]]
        wanted = "containerId" if how == "agent_destroy_all" else wanted
        assert "error" not in await alice.request(f"{how}_request", **{wanted: ids[wanted]})
        for one in (alice, bob):
            for turn_id in (first["turnId"], queued["turnId"]):
                await one.end_of(turn_id)
                mine = [event["type"] for event in one.events if event.get("context", {}).get("turnId") == turn_id]
                assert mine[-1] == "turn_response"
                assert mine.count("conversation_end") == 1


async def test_item_41_a_turn_that_takes_too_long_ends_with_the_three_errors() -> None:
    async with serving(Play(), limits=Limits(turn_seconds=0.05)) as server, client(server.url) as alice:
        image_id = (await alice.image())["imageId"]
        await alice.say(image_id, "slow")
        assert [kind for kind in alice.types if kind in ERROR] == ERROR
        occurred = (await alice.wait("error_occurred"))["data"]
        assert (occurred["code"], occurred["message"]) == ("timeout", "Request timeout after 50ms")


async def test_item_42_a_tool_call_has_one_id_and_its_parent_is_the_current_message() -> None:
    async with serving(Play()) as server, client(server.url) as alice:
        await alice.say((await alice.image())["imageId"], "tool please")

        async def data(kind: str) -> Json:
            found: Json = (await alice.wait(kind))["data"]
            return found

        started, call, result = await data("tool_use_start"), await data("tool_call_message"), await data("tool_result_message")
        ids = {started["toolCallId"], call["toolCall"]["id"], result["toolCallId"], result["toolResult"]["id"]}
        ids |= {(await data("tool_planned"))["toolId"], (await data("tool_use_stop"))["toolCallId"]}
        assert ids == {"call_1"}
        assert call["parentId"] == (await data("message_start"))["messageId"]
        assert call["toolCall"] == {"type": "tool-call", "id": "call_1", "name": "calculator", "input": {"expression": "2+3*4"}}
        assert result["toolResult"]["name"] == "calculator"


async def test_item_43_an_assistant_message_is_the_concatenation_of_its_deltas() -> None:
    async with serving(Play()) as server, client(server.url) as alice:
        image_id = (await alice.image())["imageId"]
        await alice.say(image_id, "one two three")
        said, started = (await alice.wait("assistant_message"))["data"], (await alice.wait("message_start"))
        assert said["id"] == started["data"]["messageId"] != ""
        assert said["timestamp"] <= started["timestamp"]
        deltas = "".join(event["data"]["text"] for event in alice.events if event["type"] == "text_delta")
        assert said["content"] == [{"type": "text", "text": deltas}]
        await alice.say(image_id, "blank")
        assert alice.types.count("assistant_message") == 1


async def test_item_43_an_assistant_message_carries_the_time_of_its_beginning() -> None:
    async with serving(Play()) as server, client(server.url) as alice:
        await alice.say((await alice.image())["imageId"], "hello")
        event = await alice.wait("assistant_message")
        assert event["data"]["timestamp"] <= event["timestamp"]


async def test_item_44_a_failing_tool_is_error_text_and_a_result_that_is_no_string_is_json_text() -> None:
    async with serving(Play()) as server, client(server.url) as alice:
        image_id = (await alice.image())["imageId"]
        await alice.say(image_id, "broken")
        await alice.say(image_id, "tool")
        outputs = [event["data"]["toolResult"]["output"] for event in alice.events if event["type"] == "tool_result_message"]
        assert outputs[0]["type"] == "error-text"
        assert outputs[1] == {"type": "text", "value": "14"}
        results = [event["data"] for event in alice.events if event["type"] == "tool_result"]
        assert [result["isError"] for result in results] == [True, False]
        assert results[1]["result"] == 14


async def test_item_45_an_error_message_has_its_role_text_and_code() -> None:
    async with serving(Play()) as server, client(server.url) as alice:
        await alice.say((await alice.image())["imageId"], "fail")
        told, occurred = (await alice.wait("error_message"))["data"], (await alice.wait("error_occurred"))["data"]
        assert (told["role"], told["subtype"]) == ("error", "error")
        assert (told["content"], told["errorCode"]) == ("the model is overloaded", "provider_overloaded")
        assert occurred == {"code": "provider_overloaded", "message": "the model is overloaded", "recoverable": True}


async def test_item_46_content_of_several_parts_is_stored_and_returned_verbatim() -> None:
    parts = [
        {"type": "text", "text": "look"},
        {"type": "image", "data": "AAAA", "mediaType": "image/png", "name": "x.png"},
        {"type": "file", "data": "JVBE", "mediaType": "application/pdf", "filename": "x.pdf"},
        {"type": "text", "text": ""},
    ]

    def script(prompt: Prompt) -> list[ScriptStep]:
        return reply("seen")

    async with serving(script) as server, client(server.url) as alice:
        image_id = (await alice.image())["imageId"]
        await alice.say(image_id, parts)
        history = (await alice.request("image_messages_request", imageId=image_id))["messages"]
        assert history[0]["content"] == parts
