"""Fork, rewind, edit, regenerate: as a client asks for them, with the turns that come of it."""

from typing import Any

import anyio
import pytest
from tests.operations.fixtures import Desk, ask_at_once, open_desk

from agentvm.drivers.base import Prompt, UserEntry
from agentvm.drivers.scripted import Pause, ScriptedDriver, echo
from agentvm.runtime import agent
from agentvm.runtime import history as history_module


async def chat(desk: Desk, *texts: str) -> tuple[str, list[Any]]:
    """A session in which that was said; its messages."""
    image = await desk.create_image()
    for number, text in enumerate(texts, start=1):
        await desk.ask("message_send", imageId=image["imageId"], content=text)
        await desk.hear("turn_response", times=number)
    return image["sessionId"], await history(desk, image["sessionId"])


async def history(desk: Desk, session_id: str) -> list[Any]:
    found: list[Any] = (await desk.ask("session_messages", sessionId=session_id))["messages"]
    return found


def said(messages: list[Any]) -> list[str]:
    return [one["content"] if one["role"] == "user" else one["content"][0]["text"] for one in messages]


def asked(prompt: Prompt) -> list[object]:
    return [one.content for one in prompt.conversation if isinstance(one, UserEntry)]


async def test_a_fork_begins_as_the_other_did_and_goes_its_own_way() -> None:
    driver = ScriptedDriver()
    async with open_desk(driver) as desk:
        session_id, messages = await chat(desk, "one", "two")
        forked = await desk.ask("session_fork", sessionId=session_id, messageId=messages[1]["id"], title="Other")
        new = forked["session"]
        assert new["forkedFrom"] == {"sessionId": session_id, "messageId": messages[1]["id"]}
        assert (new["title"], forked["__subscriptions"]) == ("Other", [new["sessionId"]])
        assert await history(desk, new["sessionId"]) == messages[:2]
        told = next(event["data"] for event in desk.heard if event["type"] == "session_forked")
        assert (told["originalSessionId"], told["newSessionId"]) == (session_id, new["sessionId"])
        await desk.ask("message_send", imageId=new["imageId"], sessionId=new["sessionId"], content="three")
        await desk.hear("turn_response", times=3)
        assert asked(driver.prompts[-1]) == ["one", "three"]
        assert await history(desk, session_id) == messages
        found = await desk.ask("session_search", q="one", role="user")
        assert {hit["sessionId"] for hit in found["found"]} == {session_id, new["sessionId"]}


async def test_what_a_fork_brought_along_is_not_unread_and_what_comes_after_it_is() -> None:
    async with open_desk() as desk:
        session_id, messages = await chat(desk, "one", "two")
        new = (await desk.ask("session_fork", sessionId=session_id))["session"]

        async def unread() -> int:
            listed = (await desk.ask("session_browse"))["sessions"]
            return int(next(one["unread"] for one in listed if one["sessionId"] == new["sessionId"]))

        assert await unread() == 0
        await desk.ask("message_send", imageId=new["imageId"], sessionId=new["sessionId"], content="three")
        await desk.hear("turn_response", times=3)
        assert await unread() == 1
        await desk.ask("session_mark_read", sessionId=new["sessionId"], messageId=messages[0]["id"])
        assert await unread() == 1
        await desk.ask("session_mark_read", sessionId=new["sessionId"])
        assert await unread() == 0
        await desk.ask("session_rewind", sessionId=new["sessionId"], messageId=messages[0]["id"])
        assert await unread() == 0
        await desk.ask("message_regenerate", sessionId=new["sessionId"])
        await desk.hear("turn_response", times=4)
        assert await unread() == 1


async def test_a_fork_may_be_of_another_image_of_the_container_and_of_no_other() -> None:
    async with open_desk() as desk:
        session_id, messages = await chat(desk, "one")
        other = await desk.create_image()
        whole = await desk.ask("session_fork", sessionId=session_id, imageId=other["imageId"])
        assert whole["session"]["imageId"] == other["imageId"]
        assert await history(desk, whole["session"]["sessionId"]) == messages
        elsewhere = await desk.create_image("c2")
        refused = await desk.ask("session_fork", sessionId=session_id, imageId=elsewhere["imageId"])
        assert refused["errorCode"] == "image_not_found"
        assert (await desk.ask("session_fork", sessionId=session_id, messageId="nope"))["errorCode"] == "not_found"


async def test_a_session_in_which_nothing_was_said_can_be_forked() -> None:
    async with open_desk() as desk:
        session_id, _ = await chat(desk)
        new = (await desk.ask("session_fork", sessionId=session_id))["session"]
        assert "forkedFrom" not in new
        assert await history(desk, new["sessionId"]) == []


async def test_what_is_taken_back_is_told_and_kept_and_no_longer_part_of_the_prompt() -> None:
    driver = ScriptedDriver()
    async with open_desk(driver) as desk:
        session_id, messages = await chat(desk, "one", "two", "three")
        ids = [one["id"] for one in messages]
        rewound = await desk.ask("session_rewind", sessionId=session_id, messageId=ids[1])
        assert rewound["messageIds"] == ids[2:]
        told = next(event for event in desk.heard if event["type"] == "session_rewound")
        assert told["data"]["messageIds"] == ids[2:]
        assert told["cursor"] == str(int(told["cursor"]))
        assert await history(desk, session_id) == messages[:2]
        assert (await desk.ask("session_search", q="three"))["found"] == []
        listed = (await desk.ask("session_rewinds", sessionId=session_id))["rewinds"]
        assert [(one["rewindId"], one["messages"]) for one in listed] == [(rewound["rewindId"], 4)]
        kept = await desk.ask("session_history", sessionId=session_id, rewind=rewound["rewindId"])
        assert kept["messages"] == messages[2:]
        await desk.ask("message_send", imageId=(await image_of(desk, session_id)), content="four")
        await desk.hear("turn_response", times=4)
        assert asked(driver.prompts[-1]) == ["one", "four"]
        # And from what was taken back one can still go on, as it was then.
        again = (await desk.ask("session_fork", sessionId=session_id, messageId=ids[3]))["session"]
        assert await history(desk, again["sessionId"]) == messages[:4]


async def image_of(desk: Desk, session_id: str) -> str:
    return str((await desk.ask("session_get", sessionId=session_id))["session"]["imageId"])


async def test_everything_can_be_taken_back_and_nothing_twice() -> None:
    async with open_desk() as desk:
        session_id, messages = await chat(desk, "one")
        first = messages[0]["id"]
        assert len((await desk.ask("session_rewind", sessionId=session_id, before=first))["messageIds"]) == 2
        assert await history(desk, session_id) == []
        assert (await desk.ask("session_rewind", sessionId=session_id, before=first))["errorCode"] == "not_found"
        for wrong in ({}, {"messageId": first, "before": first}):
            assert (await desk.ask("session_rewind", sessionId=session_id, **wrong))["errorCode"] == "invalid_input"
        session_id, messages = await chat(desk)
        assert (await desk.ask("session_rewinds", sessionId=session_id))["rewinds"] == []


async def test_to_rewind_to_the_end_takes_nothing_back_and_tells_nobody() -> None:
    async with open_desk() as desk:
        session_id, messages = await chat(desk, "one")
        rewound = await desk.ask("session_rewind", sessionId=session_id, messageId=messages[-1]["id"])
        assert rewound == {"sessionId": session_id, "messageIds": []}
        assert "session_rewound" not in desk.types()


async def test_an_edit_says_something_else_in_the_place_of_a_question() -> None:
    driver = ScriptedDriver()
    async with open_desk(driver) as desk:
        session_id, messages = await chat(desk, "one", "two", "three")
        desk.forget()
        sent = await desk.ask("message_edit", sessionId=session_id, messageId=messages[2]["id"], content="zwei")
        assert set(sent) == {"imageId", "agentId", "messageId", "turnId", "sessionId", "cursor"}
        await desk.hear("turn_response")
        # First what is taken back, then what is said instead; the turn begins after the reply.
        assert desk.types()[:5] == [
            "session_rewound", "message_persisted", "user_message", "turn_request", "message_edit_response",
        ]  # fmt: skip
        after = await history(desk, session_id)
        assert after[:2] == messages[:2]
        assert [one["id"] for one in after[2:3]] == [sent["messageId"]]
        assert asked(driver.prompts[-1]) == ["one", "zwei"]
        refused = await desk.ask("message_edit", sessionId=session_id, messageId=after[1]["id"], content="x")
        assert refused["errorCode"] == "invalid_input"
        for wrong, code in ((messages[4]["id"], "not_found"), ("nope", "not_found")):
            refused = await desk.ask("message_edit", sessionId=session_id, messageId=wrong, content="x")
            assert refused["errorCode"] == code
        empty = await desk.ask("message_edit", sessionId=session_id, messageId=after[0]["id"], content="")
        assert empty["errorCode"] == "invalid_input"
        assert await history(desk, session_id) == after


async def test_an_edit_that_is_sent_twice_under_one_key_is_one() -> None:
    driver = ScriptedDriver()
    async with open_desk(driver) as desk:
        session_id, messages = await chat(desk, "one")
        edit = {"sessionId": session_id, "messageId": messages[0]["id"], "content": "uno", "clientMessageId": "k"}
        first = await desk.ask("message_edit", **edit)
        await desk.hear("turn_response", times=2)
        again = await desk.ask("message_edit", **edit)
        assert (again["messageId"], again["turnId"]) == (first["messageId"], first["turnId"])
        assert len(driver.prompts) == 2
        assert len(await history(desk, session_id)) == 2


async def test_an_edit_and_a_new_answer_have_the_options_of_the_question_unless_others_are_chosen() -> None:
    driver = ScriptedDriver()
    tool = {"name": "weather", "parameters": {"type": "object"}}
    async with open_desk(driver) as desk:
        image = await desk.create_image()
        about = {"imageId": image["imageId"], "sessionId": image["sessionId"]}
        chosen = {"temperature": 0.25, "instructions": "Be brief", "tools": [tool], "clientData": "of the first"}
        await desk.ask("message_send", **about, content="one", options=chosen)
        await desk.hear("turn_response")
        await desk.ask("message_send", **about, content="two")
        await desk.hear("turn_response", times=2)
        first = (await history(desk, image["sessionId"]))[0]["id"]
        session = {"sessionId": image["sessionId"]}
        await desk.ask("message_edit", **session, messageId=first, content="uno")
        await desk.hear("turn_response", times=3)
        await desk.ask("message_regenerate", **session)
        await desk.hear("turn_response", times=4)
        await desk.ask("message_regenerate", **session, options={"temperature": 1.0})
        await desk.hear("turn_response", times=5)
        refused = await desk.ask("message_regenerate", **session, options={"model": "dear"})
        assert refused["errorCode"] == "unprocessable"
    seen = [(prompt.temperature, [tool.name for tool in prompt.tools][-1:] == ["weather"]) for prompt in driver.prompts]
    assert seen == [(0.25, True), (None, False), (0.25, True), (0.25, True), (1.0, False)]


async def test_an_answer_is_made_anew() -> None:
    driver = ScriptedDriver()
    async with open_desk(driver) as desk:
        session_id, messages = await chat(desk, "one", "two")
        await desk.ask("message_regenerate", sessionId=session_id)
        await desk.hear("turn_response", times=3)
        assert asked(driver.prompts[-1]) == ["one", "two"]
        assert said(await history(desk, session_id)) == said(messages)
        await desk.ask("message_regenerate", sessionId=session_id, messageId=messages[1]["id"])
        await desk.hear("turn_response", times=4)
        assert said(await history(desk, session_id)) == said(messages[:2])
        empty, _ = await chat(desk)
        assert (await desk.ask("message_regenerate", sessionId=empty))["errorCode"] == "invalid_input"


async def test_while_a_turn_runs_its_history_does_not_change_unless_it_is_stopped() -> None:
    until = anyio.Event()

    def script(prompt: Prompt) -> Any:
        first, *rest = echo(prompt)
        return [first, Pause(until), *rest] if len(asked(prompt)) == 2 else [first, *rest]

    async with open_desk(ScriptedDriver(script)) as desk:
        session_id, messages = await chat(desk, "one")
        image_id, first = await image_of(desk, session_id), messages[0]["id"]
        await desk.ask("message_send", imageId=image_id, content="two")
        await desk.ask("message_send", imageId=image_id, content="waits")
        await desk.hear("message_start", times=2)
        changes: list[tuple[str, dict[str, object]]] = [
            ("session_rewind", {"messageId": first}),
            ("message_edit", {"messageId": first, "content": "uno"}),
            ("message_regenerate", {}),
        ]
        for command, data in changes:
            assert (await desk.ask(command, sessionId=session_id, **data))["errorCode"] == "agent_busy"
        edited = await desk.ask("message_edit", sessionId=session_id, messageId=first, content="uno", onBusy="interrupt")
        heard = await desk.hear("turn_response", times=4)
        outcomes = [event["data"]["outcome"] for event in heard if event["type"] == "turn_response"]
        assert outcomes == ["completed", "interrupted", "interrupted", "completed"]
        assert [one["turnId"] for one in await history(desk, session_id)] == [edited["turnId"]] * 2


async def test_what_is_refused_costs_nobody_the_turn_that_runs() -> None:
    until = anyio.Event()

    def script(prompt: Prompt) -> Any:
        first, *rest = echo(prompt)
        return [first, Pause(until), *rest] if len(asked(prompt)) == 2 else [first, *rest]

    async with open_desk(ScriptedDriver(script)) as desk:
        session_id, messages = await chat(desk, "one")
        await desk.ask("message_send", imageId=await image_of(desk, session_id), content="two")
        await desk.hear("message_start", times=2)
        wrong: list[tuple[str, dict[str, object], str]] = [
            ("message_edit", {"messageId": "nope", "content": "x"}, "not_found"),
            ("message_edit", {"messageId": messages[1]["id"], "content": "x"}, "invalid_input"),
            ("message_regenerate", {"messageId": "nope"}, "not_found"),
            ("session_rewind", {"before": "nope"}, "not_found"),
        ]
        for command, data, code in wrong:
            refused = await desk.ask(command, sessionId=session_id, onBusy="interrupt", **data)
            assert refused["errorCode"] == code
        until.set()
        heard = await desk.hear("turn_response", times=2)
        assert [event["data"]["outcome"] for event in heard if event["type"] == "turn_response"] == ["completed"] * 2


async def test_of_those_who_interrupt_each_other_at_once_the_last_is_answered() -> None:
    async with open_desk() as desk:
        session_id, _ = await chat(desk, "one")
        again: dict[str, object] = {"sessionId": session_id, "onBusy": "interrupt"}
        refused = await ask_at_once([(desk.another(), "message_regenerate", again) for _ in range(4)])
        assert refused == []
        heard = await desk.hear("turn_response", times=5)
        outcomes = [event["data"]["outcome"] for event in heard if event["type"] == "turn_response"]
        assert outcomes[-1] == "completed"
        assert said(await history(desk, session_id)) == ["one", "one"]


async def test_of_many_who_rewrite_and_send_at_once_each_is_heard_or_refused_and_the_history_is_whole() -> None:
    async with open_desk() as desk:
        session_id, messages = await chat(desk, "one")
        image_id = await image_of(desk, session_id)
        peers = [desk.another() for _ in range(6)]
        rewrites: list[tuple[Desk, str, dict[str, object]]] = [
            (peer, "message_edit", {"sessionId": session_id, "messageId": messages[0]["id"], "content": f"edit {number}"})
            for number, peer in enumerate(peers[:3])
        ]
        sends: list[tuple[Desk, str, dict[str, object]]] = [
            (peer, "message_send", {"imageId": image_id, "content": f"send {number}"}) for number, peer in enumerate(peers[3:])
        ]
        refused = await ask_at_once([*rewrites, *sends])
        assert set(refused) <= {"agent_busy", "not_found"}
        assert len(refused) >= 2
        await desk.hear("turn_response", times=7 - len(refused))
        after = await history(desk, session_id)
        # Every question has its answer, and none is there twice.
        turns = [one["turnId"] for one in after]
        assert {turns.count(turn) for turn in turns} == {2}
        assert len({one["id"] for one in after}) == len(after)


async def test_a_fork_counts_for_the_storage_that_a_tenant_may_use() -> None:
    async with open_desk() as desk:
        session_id, _ = await chat(desk, "x" * 5_000)
        await desk.limit("storage_bytes", 25_000)
        await desk.ask("session_fork", sessionId=session_id)
        codes = [(await desk.ask("session_fork", sessionId=session_id)).get("errorCode") for _ in range(3)]
        assert codes[-1] == "quota_exceeded"


async def test_what_is_too_large_to_be_held_in_memory_is_not_forked_nor_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_desk() as desk:
        session_id, messages = await chat(desk, "one", "x" * 2_000, "three")
        monkeypatch.setattr(history_module, "REWRITE_MAX_BYTES", 1_500)
        refused = await desk.ask("session_fork", sessionId=session_id)
        assert "export and import" in refused["error"]
        refused = await desk.ask("session_fork", sessionId=session_id, messageId=messages[-1]["id"])
        assert "choose an earlier message" in refused["error"]
        assert "session" in await desk.ask("session_fork", sessionId=session_id, messageId=messages[1]["id"])
        monkeypatch.setattr(agent, "REWRITE_MAX_BYTES", 1_500)
        refused = await desk.ask("session_rewind", sessionId=session_id, messageId=messages[0]["id"])
        assert "fork the session" in refused["error"]
        assert await history(desk, session_id) == messages
        assert (await desk.ask("session_rewind", sessionId=session_id, before=messages[-1]["id"])).get("error") is None
