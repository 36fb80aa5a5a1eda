"""What must be true of a session's events and messages, whatever happened to the server."""

from collections.abc import Sequence
from typing import Any

Frame = dict[str, Any]

ENDED = "turn_response"


def check_events(events: Sequence[Frame]) -> None:
    """All events of one session, from the first: gap-free, and every turn has one beginning and one end, its last event."""
    assert [int(event["cursor"]) for event in events] == list(range(1, len(events) + 1))
    begun = [event["data"]["turnId"] for event in events if event["type"] == "turn_request"]
    assert len(set(begun)) == len(begun)
    for turn_id in begun:
        own = [event["type"] for event in events if event["context"].get("turnId") == turn_id]
        assert own.count(ENDED) == 1, (turn_id, own)
        assert own[-1] == ENDED, (turn_id, own)


def check_texts(events: Sequence[Frame]) -> None:
    """The deltas of every message that was finished are its text."""
    said: dict[str, str] = {}
    speaking = ""
    for event in events:
        match event["type"]:
            case "message_start":
                speaking = event["data"]["messageId"]
                said[speaking] = ""
            case "text_delta":
                said[speaking] += event["data"]["text"]
            case "assistant_message":
                text = "".join(part["text"] for part in event["data"]["content"] if part["type"] == "text")
                assert said[event["data"]["id"]] == text
            case _:
                pass


def check_messages(events: Sequence[Frame], messages: Sequence[Frame]) -> None:
    """The history has every message that was told, once."""
    ids = [message["id"] for message in messages]
    assert len(set(ids)) == len(ids)
    told = [event["data"]["id"] for event in events if event["category"] == "message"]
    assert len(set(told)) == len(told)
    assert [one for one in ids if one in set(told)] == told
    # A call is answered once.
    answered = [(message.get("turnId"), message["toolCallId"]) for message in messages if message["role"] == "tool"]
    assert len(set(answered)) == len(answered)


def check_same(heard: Sequence[Frame], stored: Sequence[Frame]) -> None:
    """What a client heard live is what the log has."""
    by_cursor = {event["cursor"]: event for event in stored}
    for event in heard:
        if "cursor" in event:
            kept = by_cursor[event["cursor"]]
            for member, empty in (("type", ""), ("data", {}), ("context", {})):
                assert event.get(member, empty) == kept[member]
