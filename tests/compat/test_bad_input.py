"""Bad input over the socket: each gets a clear answer, and the next request is served as if nothing had happened."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.support.serving import Play, Served, serving
from tests.support.wire import Client19, Json, client

from agentvm.operations.table import COMMANDS

WRONG: tuple[Any, ...] = (None, 5, -1.5, True, "text", "", [], [1], {}, {"a": {"b": []}}, [{"type": "text"}], 10**30)
VALID: Json = {"definition": {"name": "d"}, "content": "hi", "updates": {}}
DEEP = 1_000_000


def valid_data(name: str) -> Json:
    """A request that means something, though nothing it names exists."""
    fields = msgspec.structs.fields(COMMANDS[name])
    return {field.encode_name: VALID.get(field.encode_name, "nope") for field in fields if field.required}


def wrong_data(name: str) -> Iterator[tuple[str, Json]]:
    """The valid request with one member left out, or of a type that it cannot have."""
    valid = valid_data(name)
    for field in msgspec.structs.fields(COMMANDS[name]):
        key = field.encode_name
        if field.required:
            yield f"without {key}", {other: value for other, value in valid.items() if other != key}
        for value in WRONG:
            try:
                msgspec.convert(value, field.type)
            except msgspec.ValidationError:
                yield f"{key}={value!r}", {**valid, key: value}


async def still_serves(server: Served) -> None:
    """A normal turn for somebody else."""
    async with client(server.url) as bob:
        record = await bob.image("bobs")
        assert (await bob.say(record["imageId"], "hello"))["data"]["outcome"] == "completed"


@pytest.mark.parametrize("name", COMMANDS)
async def test_a_command_with_a_member_of_the_wrong_type_is_refused_by_name(shared: Served, name: str) -> None:
    async with client(shared.url) as alice:
        for what, data in wrong_data(name):
            answer = await alice.answer(await alice.ask(f"{name}_request", **data))
            assert answer["type"] == f"{name}_response"
            assert answer["data"]["errorCode"] == "invalid_input", what
            assert answer["data"]["error"], what
        assert not alice.closed
        await still_serves(shared)


@pytest.mark.parametrize("name", COMMANDS)
async def test_a_command_whose_data_is_no_object_is_refused(shared: Served, name: str) -> None:
    async with client(shared.url) as alice:
        odd: tuple[Any, ...] = (None, 5, "text", [], [{"requestId": "x"}])
        for data in odd:
            await alice.send({"type": f"{name}_request", "data": data})
        await alice.send({"type": f"{name}_request"})
        await alice.settle()
        answers = [event for event in alice.events if event["type"] == f"{name}_response" and "error" in event["data"]]
        assert [answer["data"]["errorCode"] for answer in answers] == ["invalid_input"] * 6


async def test_every_command_of_the_table_can_be_asked_about_what_does_not_exist() -> None:
    async with serving() as server, client(server.url) as alice:
        for name in COMMANDS:
            answer = await alice.request(f"{name}_request", **valid_data(name))
            assert answer.get("errorCode") != "internal_error", (name, answer)
        await still_serves(server)


@pytest.mark.parametrize("request_id", [None, 5, [], {}, True])
async def test_a_request_id_that_is_no_text_is_treated_as_none(shared: Served, request_id: Any) -> None:
    async with client(shared.url) as alice:
        await alice.send({"type": "container_list_request", "data": {"requestId": request_id}})
        answer = await alice.wait("container_list_response")
        assert answer["data"].keys() == {"containerIds"}


async def test_a_request_id_of_any_length_comes_back_whole(shared: Served) -> None:
    async with client(shared.url) as alice:
        for request_id in ("", "x" * 10_000, "😀\x00\u2028", '"}}'):
            alice.requested.add(request_id)
            await alice.send({"type": "container_list_request", "data": {"requestId": request_id}})
            assert "error" not in (await alice.answer(request_id))["data"]


FRAMES = {
    "cut off": '{"type":"container_list_request","data":{',
    "two values": '{"type":"a"}{"type":"b"}',
    "single quotes": "{'type':'container_list_request'}",
    "a number that is none": '{"type":"container_list_request","data":{"x":NaN}}',
    "a comment": '{"type":"container_list_request"/* */}',
    "type is a list": '{"type":["container_list_request"]}',
    "deep objects": '{"a":' * DEEP + "1" + "}" * DEEP,
    "deep lists": "[" * DEEP + "]" * DEEP,
    "deep data": '{"type":"image_create_request","data":{"config":' + "[" * DEEP + "]" * DEEP + "}}",
    "deep and cut off": '{"type":"image_create_request","data":' + '{"a":' * DEEP,
    "only spaces": " " * 1_000_000,
    "a long number": '{"type":"container_list_request","data":{"x":' + "9" * 100_000 + "}}",
    "many keys": '{"type":"unknown",' + ",".join(f'"k{number}":{number}' for number in range(100_000)) + "}",
    "the same key again": '{"type":"unknown",' + '"type":"container_list_response",' * 1_000 + '"x":1}',
}


@pytest.mark.parametrize("what", FRAMES)
async def test_a_broken_frame_harms_neither_the_requests_around_it_nor_anybody_else(shared: Served, what: str) -> None:
    async with client(shared.url) as alice:
        before = await alice.ask("container_list_request")
        await alice.socket.send(FRAMES[what])
        after = await alice.ask("container_list_request")
        for request_id in (before, after):
            assert "error" not in (await alice.answer(request_id))["data"]
        assert not alice.closed
        await still_serves(shared)


CONTENTS: dict[str, Any] = {
    "empty text": "",
    "no parts": [],
    "a part of no type": [{"text": "x"}],
    "a part of an unknown type": [{"type": "video", "data": "AAAA"}],
    "a part without its text": [{"type": "text"}],
    "a part that only a model makes": [{"type": "tool-call", "id": "x", "name": "y", "input": {}}],
    "a list in a list": [[{"type": "text", "text": "x"}]],
    "half right": [{"type": "text", "text": "x"}, {"type": "image", "data": 5}],
}


@pytest.mark.parametrize("what", CONTENTS)
async def test_a_message_without_proper_content_is_refused_and_not_stored(shared: Served, what: str) -> None:
    async with client(shared.url) as alice:
        image_id = (await alice.image())["imageId"]
        answer = await alice.request("message_send_request", imageId=image_id, content=CONTENTS[what])
        assert answer["errorCode"] == "invalid_input"
        assert (await alice.request("image_messages_request", imageId=image_id))["messages"] == []
        await alice.say(image_id, "hello")


CONFIGS: dict[str, Json] = {
    "a model that nobody has": {"model": "nobody/nothing"},
    "a tool that nobody has": {"tools": ["rm -rf"]},
    "tools that are no names": {"tools": [1]},
    "a name that is none": {"name": 5},
    "a limit that is none": {"maxTokens": "many"},
}


@pytest.mark.parametrize("what", CONFIGS)
async def test_an_image_that_could_not_run_is_not_built(shared: Served, what: str) -> None:
    async with client(shared.url) as alice:
        answer = await alice.request("image_create_request", containerId="unbuilt", config=CONFIGS[what])
        assert answer["error"]
        assert answer["errorCode"] != "internal_error"
        assert (await alice.request("image_list_request", containerId="unbuilt"))["records"] == []


@pytest.mark.parametrize("tokens", [-5, 0])
async def test_an_image_whose_answers_could_have_no_tokens_is_not_built(shared: Served, tokens: int) -> None:
    async with client(shared.url) as alice:
        answer = await alice.request("image_create_request", containerId="c1", config={"maxTokens": tokens})
        assert answer.get("errorCode") == "invalid_input"


async def test_a_message_nested_as_deep_as_json_allows_is_stored_and_read_back(shared: Served) -> None:
    nested: Any = "x"
    for _ in range(200):
        nested = {"a": [nested]}
    async with client(shared.url) as alice:
        record = await alice.image(variables={"deep": nested})
        assert (await alice.request("image_get_request", imageId=record["imageId"]))["record"]["imageId"] == record["imageId"]


async def test_a_thousand_requests_at_once_are_all_answered() -> None:
    async with serving() as server, client(server.url) as alice:
        asked = [await alice.ask("container_create_request", containerId=f"c{number % 10}") for number in range(1000)]
        for request_id in asked:
            assert "error" not in (await alice.answer(request_id))["data"]
        assert alice.types.count("container_created") == 10


async def test_an_inbox_that_is_full_refuses_more_and_the_waiting_ones_still_run() -> None:
    play = Play()
    async with serving(play) as server, client(server.url) as alice:
        image_id = (await alice.image())["imageId"]
        answers = [await alice.request("message_send_request", imageId=image_id, content="slow") for _ in range(40)]
        refused = [answer for answer in answers if "error" in answer]
        assert {answer["errorCode"] for answer in refused} == {"inbox_full"}
        assert len(refused) >= 7
        play.gate.set()
        accepted = [answer["turnId"] for answer in answers if "error" not in answer]
        await alice.end_of(accepted[-1])
        assert await stored_users(alice, image_id) == len(accepted)


async def stored_users(one: Client19, image_id: str) -> int:
    messages = (await one.request("image_messages_request", imageId=image_id))["messages"]
    return sum(message["subtype"] == "user" for message in messages)


def test_the_wrong_requests_are_many_and_really_wrong() -> None:
    count = sum(1 for name in COMMANDS for _ in wrong_data(name))
    assert count > 200
    assert json.dumps(valid_data("message_send")) == '{"content": "hi"}'
