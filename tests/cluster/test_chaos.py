"""A short run of `tests.cluster.chaos`, and proof that its checks can fail."""

from collections import Counter
from typing import Any

import anyio
import pytest
from tests.cluster.chaos import Sent, run_seed
from tests.cluster.chaos_checks import check_calls, check_session
from tests.cluster.chaos_node import words
from tests.faults.invariants import Frame
from tests.provision import Unavailable

TURN, TEXT = "turn_1", "say p0 0"
TURNS = {TURN: TEXT}


async def test_whatever_was_acknowledged_has_one_end_after_nodes_and_servers_have_failed() -> None:
    try:
        with anyio.fail_after(300):
            counts: Counter[str] = await run_seed(seed=3, seconds=4.0, people=3)
    except Unavailable as error:
        pytest.skip(str(error))
    assert counts["turns"] > 0


def event(cursor: int, kind: str, category: str = "notification", **data: Any) -> Frame:
    return {
        "cursor": str(cursor),
        "type": kind,
        "category": category,
        "data": data,
        "context": {"turnId": TURN, "agentId": "a"},
    }


def history() -> dict[str, Any]:
    """A turn as it must be."""
    answer = "".join(words(TEXT))
    events = [
        event(1, "turn_request", turnId=TURN),
        event(2, "user_message", "message", id="m1", content=TEXT),
        event(3, "message_start", messageId="m2"),
        event(4, "text_delta", text=answer),
        event(5, "assistant_message", "message", id="m2", content=[{"type": "text", "text": answer}]),
        event(6, "turn_response", turnId=TURN, outcome="completed"),
    ]
    messages = [
        {"id": "m1", "role": "user", "turnId": TURN, "content": TEXT},
        {"id": "m2", "role": "assistant", "turnId": TURN, "content": answer},
    ]
    return {"sent": [Sent(TEXT, {TURN})], "logs": [events, [*events]], "messages": messages, "readers": [[*events]]}


def test_a_history_without_fault_passes() -> None:
    check_session(**history())


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(lambda each: each["sent"][0].turn_ids.add("turn_2"), id="two turns for one message"),
        pytest.param(lambda each: each["sent"].append(Sent("lost", {"turn_9"})), id="a message that is nowhere"),
        pytest.param(lambda each: each["sent"].append(Sent("never acknowledged")), id="a message without an answer"),
        pytest.param(lambda each: each["logs"][1].pop(), id="nodes that differ"),
        pytest.param(lambda each: each["readers"][0].pop(2), id="a reader with a gap"),
        pytest.param(lambda each: each["messages"].append(each["messages"][0]), id="a message that is there twice"),
        pytest.param(lambda each: [log.pop(3) for log in each["logs"]], id="a delta that is lost"),
    ],
)
def test_a_broken_history_is_seen(fault: Any) -> None:
    broken = history()
    fault(broken)
    with pytest.raises(AssertionError):
        check_session(**broken)


NOTES: list[dict[str, Any]] = [{"call": 1000, "text": TEXT}, {"reported": 1000, "output": 40}, {"noted": TEXT}]
ENTRY = ("m2.1", TURN, 1000, 40, 0)


def test_calls_that_are_billed_as_they_were_reported_pass() -> None:
    check_calls(NOTES, [ENTRY], TURNS)


@pytest.mark.parametrize(
    ("notes", "ledger"),
    [
        pytest.param(NOTES, [], id="a call that nobody paid"),
        pytest.param(NOTES, [ENTRY, ENTRY], id="a call that was paid twice"),
        pytest.param(NOTES, [("m2.1", TURN, 1000, 41, 0)], id="a call that was paid otherwise"),
        pytest.param([*NOTES, NOTES[-1]], [ENTRY], id="a tool that was run again"),
    ],
)
def test_wrong_bills_and_repeated_tools_are_seen(notes: list[dict[str, Any]], ledger: list[tuple[Any, ...]]) -> None:
    with pytest.raises(AssertionError):
        check_calls(notes, ledger, TURNS)
