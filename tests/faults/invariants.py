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
    own_events: dict[str, list[str]] = {}
    for event in events:
        own_events.setdefault(event["context"].get("turnId", ""), []).append(event["type"])
    for turn_id in begun:
        own = own_events.get(turn_id, [])
        assert own.count(ENDED) == 1, (turn_id, own)
        assert own[-1] == ENDED, (turn_id, own)


def check_texts(events: Sequence[Frame], *, disk_failed: bool = False) -> None:
    """The deltas of every message that was finished are its text, with what it begins with after a restart.

    A client that knows nothing of restarts, and appends every delta until a message is finished, reads the same. When the
    disk refuses, the last deltas were never told; the message that is stored once it works again has them.
    """
    said: dict[str, str] = {}
    speaking, appended = "", ""
    for event in events:
        match event["type"]:
            case "message_start":
                speaking = event["data"]["messageId"]
                said[speaking] = event["data"].get("text", "")
            case "text_delta":
                said[speaking] += event["data"]["text"]
                appended += event["data"]["text"]
            case "assistant_message":
                text = "".join(part["text"] for part in event["data"]["content"] if part["type"] == "text")
                deltas = said.get(event["data"]["id"], "")
                assert deltas == text or (disk_failed and text.startswith(deltas)), event
                assert appended == text or disk_failed, (appended, event)
                appended = ""
            case "turn_response":
                # What a turn that failed has said of a message is not a part of the next one.
                appended = ""
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


def check_stops(events: Sequence[Frame]) -> None:
    """Stop is final: a turn that somebody stopped says nothing more when the next process takes it up."""
    stopped: dict[str, str] = {}
    resumed: set[str] = set()
    for event in events:
        turn_id = event["context"].get("turnId", "")
        match event["type"]:
            case "interrupted":
                stopped[event["data"].get("turnId") or ""] = event["data"]["agentId"]
            case "turn_resumed" if stopped.get(turn_id, event["context"]["agentId"]) != event["context"]["agentId"]:
                resumed.add(turn_id)
            case "turn_response":
                assert turn_id not in resumed or event["data"]["outcome"] != "completed", turn_id
            case kind:
                assert turn_id not in resumed or kind not in ("message_start", "text_delta", "tool_executing"), event
