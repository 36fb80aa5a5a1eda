"""The recorded conversations of an unmodified 2.9 client, played against our server."""

import pytest
from tests.support.replay_2x import TRANSCRIPTS, load, open_playing, order_of, unlike_recorded

NO_REGISTRY = "providers are settings of the server: they are listed, and changed elsewhere"
QUEUED = "T15: a message waits for the turn before it, it is not refused"
TURN_FAILS = "T15, T16: a turn that fails says so by events; the request has been accepted"
NO_BREAKER = "there is no breaker for each instance: providers have their own"
WHOLE = "T21, T37, T38, T45: nothing of a turn is lost, so there is more in the history"
NO_ZOMBIE = "T8, T9, T13: a stopped instance is gone, and none is started to be interrupted"
NO_TOOL = "the recorded agents had a shell and files as tools"
NAMED = "params that are missing, or not an object, are named; those that can be left out can be"
KEPT = "agents outlive the connection; the server was not restarted here"
EARLIER = "names of earlier versions are known"

# Which answers differ on purpose, by transcript: reason, then the requests.
_REASONS: dict[str, dict[str, str]] = {
    "01": {NO_REGISTRY: "llm.list 2"},
    "02": {
        "the operator does not allow the command of an MCP server": (
            "image.create 1, image.get 6, image.update 12, image.update 13, image.update 15, image.get 17, image.messages 18"
        ),
        NAMED: "image.create 4, image.create 5, image.get 8",
        "one image fewer, and T5: a container is never another's": "image.list 9, image.list 10, image.list 11, image.list 25",
    },
    "03": {NO_ZOMBIE: "instance.get 14"},
    "05": {"an agent says what a message may choose, by default not its model": "message.send 3", WHOLE: "image.messages 6"},
    "06": {NO_TOOL: "os.list 5"},
    "07": {WHOLE: "image.messages 4"},
    "08": {WHOLE: "image.messages 3"},
    "09": {NO_ZOMBIE: "instance.interrupt 17, instance.list 21"},
    "10": {TURN_FAILS: "message.send 9", WHOLE: "image.messages 11"},
    "12": {QUEUED: "message.send 4, image.messages 5", "T10: two sends start one instance": "instance.list 9"},
    "13": {
        TURN_FAILS: "message.send 2, message.send 3, message.send 4, message.send 5, message.send 6, message.send 11",
        NO_BREAKER: "message.send 7, image.messages 8, image.messages 9",
    },
    "14": {NO_REGISTRY: "llm.create 5"},
    "16": {KEPT: "instance.get 6, message.send 7", WHOLE: "image.messages 10"},
    "17": {
        QUEUED: "message.send 10",
        WHOLE: "image.messages 14",
        NO_TOOL: "os.list 13, os.list 18",
        "T1 of clients: every image has a list of files": "os.list 22",
    },
    "18": {"a turn that is stopped by a rewind leaves nothing behind": "image.messages 15"},
    "19": {"a folder that is not there has no files": "os.list 13"},
    "20": {
        NO_REGISTRY: (
            "llm.list 1, llm.default 2, llm.create 3, llm.create 4, llm.create 5, llm.get 6, llm.list 8, llm.update 9, "
            "llm.update 10, llm.default 11, llm.default 12, llm.default 15, image.run 17, llm.default 18, llm.delete 19, "
            "llm.delete 20, llm.list 21"
        )
    },
    "21": {
        "T5: a container is never another's": "instance.list 9",
        NO_ZOMBIE: "instance.list 14, message.send 15, instance.destroy 17, image.run 19, image.messages 20",
    },
    "22": {
        "T12: an update does not end a running turn": "message.send 5, image.messages 9",
    },
    "23": {NAMED: "image.list 11, image.list 13", NO_REGISTRY: "llm.list 12"},
    "24": {
        EARLIER: (
            "container.create 1, container.get 2, container.list 3, agent.get 4, agent.list 5, agent.destroy 6, "
            "agent.destroyAll 7, agent.interrupt 8, prototype.list 10, workspace.read 11, workspace.list 12, "
            "message.truncateAfter 13"
        ),
        "what an image embodies holds, and a model that nobody provides is refused": "image.create 18",
    },
    "25": {TURN_FAILS: "message.send 6, message.send 7"},
    "28": {WHOLE: "image.messages 7"},
}
OTHER_ORDER: dict[str, str] = {
    "05": "the message with a model of its own is refused",
    "07": "T38: both calls of an answer come before the result of the first",
    "10": "what was said before an error is one message, and the error is its end",
    "28": "as 10",
}
"""Transcripts whose events come in another order, with the reason; of more than one connection, each hears its own part."""
TELLS_MORE: dict[str, str] = {
    "03": "a refused message is told by an error",
    "08": "T37: the turn is told to its end",
    "09": "T45: a turn that was stopped is told to its end",
    "11": "every turn ends with a turn_response",
    "12": QUEUED,
    "13": "every turn ends with a turn_response",
    "17": QUEUED,
    "21": NO_ZOMBIE,
    "22": "T12: an update does not end a running turn",
    "25": "every turn ends with a turn_response",
}
"""Transcripts to whose events ours are added, with the reason."""
NAMES = sorted(path.name for path in TRANSCRIPTS.glob("*.jsonl"))


def differing(name: str) -> dict[str, str]:
    """The reasons of a transcript, by request."""
    return {request: why for why, requests in _REASONS.get(name[:2], {}).items() for request in requests.split(", ")}


def test_all_28_transcripts_are_here() -> None:
    assert len(NAMES) == 28


@pytest.mark.parametrize("name", NAMES)
async def test_a_recorded_client_is_answered(name: str) -> None:
    records = load(name)
    async with open_playing(records, differing(name)) as playing:
        await playing.play(records)
    assert playing.problems == []
    assert playing.used == set(differing(name))
    events = [event for client in playing.clients.values() for event in client.events]
    assert list(unlike_recorded(records, events)) == []
    if len(playing.clients) == 1 and name[:2] not in OTHER_ORDER:
        (ours,) = (order_of(client.types) for client in playing.clients.values())
        told = iter(ours)
        recorded = order_of(record["event"] for record in records if "event" in record)
        assert [kind for kind in recorded if kind not in told] == [], "the recorded events in the recorded order"
        assert len(ours) == len(recorded) or name[:2] in TELLS_MORE
