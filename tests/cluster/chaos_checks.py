"""What must be true after chaos, whatever has happened: of each session, of the ledger, and of what has left the nodes."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.cluster.chaos_node import words
from tests.faults.invariants import Frame, check_events, check_messages, check_same, check_stops, check_texts

Row = tuple[Any, ...]
LEDGER = "SELECT key, turn_id, cache_read_tokens, output_tokens, estimated FROM ledger"


def check_session(
    sent: Sequence[Any], logs: Sequence[list[Frame]], messages: Sequence[Frame], readers: Sequence[list[Frame]]
) -> None:
    """Each message is one turn with one end; every node has the same log, and every reader has heard all of it, once."""
    events = logs[0]
    for other in logs[1:]:
        assert other == events, "two nodes tell different histories"
    check_events(events)
    check_texts(events)
    check_stops(events)
    check_messages(events, messages)
    for heard in readers:
        check_same(heard, events)
        assert [event["cursor"] for event in heard] == [event["cursor"] for event in events], (
            "a reader has not heard everything"
        )
    turns: dict[str, list[str]] = defaultdict(list)
    for message in messages:
        if message["role"] == "user":
            turns[text_of(message)].append(message["turnId"])
    for each in sent:
        acknowledged = each.turn_ids
        assert len(acknowledged) == 1, f"{each.text} was acknowledged as {acknowledged}"
        assert turns[each.text] == [*acknowledged], f"{each.text} was acknowledged as {acknowledged}, and is {turns[each.text]}"
        (turn_id,) = acknowledged
        ends = [event["data"] for event in events if event["type"] == "turn_response" and event["data"]["turnId"] == turn_id]
        answers = [
            event["data"] for event in events
            if event["type"] == "assistant_message" and event["context"].get("turnId") == turn_id
        ]  # fmt: skip
        if ends[0]["outcome"] == "completed":
            answer = "".join(map(text_of, answers))
            assert answer.count("".join(words(each.text))) == 1, f"{each.text} was answered with {answer}"
        else:
            assert (ends[0]["outcome"], each.is_stopped) == ("interrupted", True), f"{each.text} ended with {ends[0]}"


def text_of(message: Frame) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def read_notes(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in folder.iterdir() for line in file.read_text().splitlines()]


def check_calls(notes: Iterable[dict[str, Any]], ledger: Iterable[Row], turns: dict[str, str]) -> None:
    """Each call of the model is in the ledger, each that has reported something with that; no tool was run again.

    A call that a crash has cut off is estimated: its report may have been lost with the node. `turns` are the texts of turns.
    """
    asked = Counter[str]()
    reported: dict[int, int] = {}
    noted = Counter[str]()
    for note in notes:
        if "call" in note:
            asked[note["text"]] += 1
        elif "reported" in note:
            reported[note["reported"]] = note["output"]
        else:
            noted[note["noted"]] += 1
    again = {text: times for text, times in noted.items() if times > 1}
    assert not again, f"a tool that must not be repeated was run again: {again}"
    billed, entries = Counter[int](), Counter[str]()
    for key, turn_id, read, written, estimated in ledger:
        entries[turns[turn_id]] += 1
        if read:
            billed[read] += 1
        if read and not estimated:
            assert reported.get(read) == written, (
                f"{key} was billed for {written}, and call {read} reported {reported.get(read)}"
            )
    twice = {number: times for number, times in billed.items() if times > 1}
    assert not twice, f"calls were billed more than once: {twice}"
    missing = {text: (times, entries[text]) for text, times in asked.items() if entries[text] < times}
    assert not missing, f"calls that are not in the ledger: {missing}"
