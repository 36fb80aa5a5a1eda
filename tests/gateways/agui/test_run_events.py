"""Any order of a turn's parts gives a run that the official client accepts."""

import base64
import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gateways.scene import turns
from tests.provision.clients import Clients
from tests.support.examples import examples

from agentvm.gateways.agui.run_events import AgUiEvents
from agentvm.gateways.blocks import WHOLE, Stretch
from agentvm.gateways.turn_parts import CallWaits, TextAdded, TurnEnded, TurnPart, TurnWaits
from agentvm.model.usage import Usage
from agentvm.model.wait import WaitId

PARSER = (Path(__file__).parent / "parser.mjs").read_text()
WAIT = WaitId("w")


def written(told: list[TurnPart], stretch: Stretch = WHOLE, tools: frozenset[str] = frozenset()) -> bytes:
    events = AgUiEvents("t", "r", "turn_1", stretch=stretch, client_tools=tools)
    return events.begin() + b"".join(events.write(part, 1) for part in told)


async def test_any_order_of_parts_gives_a_run_that_the_official_client_accepts(clients: Clients, tmp_path: Path) -> None:
    streams: list[bytes] = []

    @settings(max_examples=examples(30, 1_000), database=None)
    @given(st.lists(turns, min_size=4, max_size=8), st.booleans())
    def collect(several: list[list[TurnPart]], is_client: bool) -> None:
        tools = frozenset({"f"}) if is_client else frozenset[str]()
        stretches = (Stretch(), Stretch(after=WAIT), Stretch(answered=frozenset({WAIT})))
        streams.extend(written(told, stretch, tools) for told in several for stretch in stretches)

    collect()
    file = tmp_path / "streams"
    file.write_bytes(b"\n".join(map(base64.b64encode, streams)))
    seen = json.loads(await clients.run(PARSER, str(file)))
    assert seen == {"count": len(streams), "refused": []}, [streams[index] for index, *_ in seen["refused"][:1]]


def test_a_run_ends_at_a_wait_and_the_next_begins_after_it() -> None:
    wait = CallWaits("c", "f", {"x": 1}, "approval", WAIT, "sha256:0", "It is dear")
    told: list[TurnPart] = [TextAdded("one"), wait, TurnWaits((WAIT,)), TextAdded("two"), TurnEnded("interrupted", "end_turn")]
    first, second = (
        [json.loads(line[6:]) for line in written(told, stretch).splitlines() if line] for stretch in (Stretch(), Stretch(WAIT))
    )
    assert first[-1]["outcome"]["type"] == "interrupt"
    (interrupt,) = first[-1]["outcome"]["interrupts"]
    assert (interrupt["id"], interrupt["message"], interrupt["metadata"]) == (
        "w",
        "It is dear",
        {"toolName": "f", "input": {"x": 1}},
    )
    assert [event["type"] for event in second] == [
        "RUN_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]
    assert second[2]["delta"] == "two"
    assert second[-1]["outcome"] == {"type": "cancelled"}


def test_usage_counts_the_tokens_of_the_cache_as_input() -> None:
    usage = Usage(input_tokens=1, output_tokens=2, cache_read_tokens=4, cache_write_tokens=8, thinking_tokens=1)
    last = json.loads(written([TurnEnded("completed", "end_turn", usage)]).split(b"\n\n")[-2][6:])
    assert last["usage"] == [
        {
            "inputTokens": 13,
            "outputTokens": 2,
            "totalTokens": 15,
            "reasoningTokens": 1,
            "cachedInputTokens": 4,
            "cacheWriteInputTokens": 8,
        }
    ]
