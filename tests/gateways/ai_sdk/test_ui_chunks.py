"""Any order of a turn's parts gives a message that the official client accepts, also one that goes on after a wait."""

import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gateways.scene import turns
from tests.provision.clients import Clients
from tests.support.examples import examples

from agentvm.gateways.ai_sdk.ui_chunks import UiChunks
from agentvm.gateways.blocks import WHOLE, Stretch
from agentvm.gateways.turn_parts import CallEnded, CallMade, CallWaits, TextAdded, TurnEnded, TurnPart, TurnWaits
from agentvm.model.wait import Question, WaitId

PARSER = (Path(__file__).parent / "parser.mjs").read_text()
WAIT = WaitId("w")


def written(told: list[TurnPart], stretch: Stretch = WHOLE, tools: frozenset[str] = frozenset()) -> str:
    chunks = UiChunks("turn_1", stretch=stretch, client_tools=tools)
    return (chunks.begin() + b"".join(chunks.write(part, 1) for part in told)).decode()


def kinds(text: str) -> list[str]:
    return [json.loads(line[6:])["type"] for line in text.splitlines() if line.startswith("data: {")]


async def test_any_order_of_parts_gives_a_message_that_the_official_client_accepts(clients: Clients, tmp_path: Path) -> None:
    pairs: list[tuple[str, str | None]] = []

    @settings(max_examples=examples(30, 1_000), database=None)
    @given(st.lists(turns, min_size=4, max_size=8), st.booleans())
    def collect(several: list[list[TurnPart]], is_client: bool) -> None:
        tools = frozenset({"f"}) if is_client else frozenset[str]()
        for told in several:
            waits = any(isinstance(part, TurnWaits) for part in told)
            pairs.append((written(told, WHOLE, tools), written(told, Stretch(after=WAIT), tools) if waits else None))
            pairs.append((written(told, Stretch(answered=frozenset({WAIT})), tools), None))

    collect()
    file = tmp_path / "streams"
    file.write_text(json.dumps(pairs))
    seen = json.loads(await clients.run(PARSER, str(file)))
    assert seen == {"count": len(pairs), "refused": []}, [pairs[index] for index, *_ in seen["refused"][:1]]


def test_a_message_goes_on_after_its_wait_and_a_replay_passes_it() -> None:
    wait = CallWaits("c", "f", {}, "client", WAIT, "sha256:0")
    told: list[TurnPart] = [
        TextAdded("one"), CallMade("c", "f", {}), wait, TurnWaits((WAIT,)), CallEnded("c", "f", '{"x":1}', is_error=False),
        TextAdded("two"), TurnEnded("completed", "max_tokens"),
    ]  # fmt: skip
    tools = frozenset({"f"})
    said = ["text-start", "text-delta", "text-end"]
    assert kinds(written(told, WHOLE, tools)) == ["start", "start-step", *said, "tool-input-available", "finish-step", "finish"]
    after = written(told, Stretch(after=WAIT), tools)
    assert kinds(after) == ["start", "start-step", *said, "finish-step", "finish"]
    assert '"finishReason":"length"' in after
    replay = written(told, Stretch(answered=frozenset({WAIT})), tools)
    assert '"output":{"x":1}' in replay
    deep = "[" * 100_000
    assert f'"output":"{deep}"' in written([CallMade("c", "f", {}), CallEnded("c", "f", deep, is_error=False)], WHOLE, tools)
    assert kinds(replay).count("finish") == 1


def test_a_question_is_for_the_page_to_answer() -> None:
    question = Question(mode="form", message="Which?", schema={"type": "object"})
    wait = CallWaits("c", "f", {}, "question", WAIT, "sha256:0", "why", {"q": question})
    text = written([CallMade("c", "f", {}), wait, TurnWaits((WAIT,))])
    assert kinds(text)[2:-2] == ["tool-input-available", "data-question", "tool-input-available"]
    assert '"providerExecuted":false' in text
    assert '"message":"Which?"' in text
