"""Any order of a turn's parts gives a stream that the official client accepts."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk
from tests.support.examples import examples

from agentvm.gateways.openai.chat_chunks import DONE, ChatChunks, completion
from agentvm.gateways.turn_parts import (
    CallBegun,
    CallEnded,
    CallInput,
    CallMade,
    CallWaits,
    TextAdded,
    ThinkingAdded,
    TurnEnded,
    TurnPart,
    TurnWaits,
)
from agentvm.model.ids import ContainerId, SessionId, TurnId
from agentvm.model.usage import Usage
from agentvm.model.wait import WaitId
from agentvm.operations.tool import WaitView

ANSWERED = WaitView(
    wait_id=WaitId("w"),
    container_id=ContainerId("user-alice"),
    session_id=SessionId("sess_1"),
    turn_id=TurnId("turn_1"),
    call_id="a",
    round=0,
    kind="client",
    tool="f",
    version="",
    fingerprint="",
    decisions=(),
    why="",
    audience="sender",
    not_sender=False,
    may_remember=False,
    asked_at=1,
    expires_at=2,
)
texts = st.text(max_size=5)
ids = st.sampled_from(["a", "b", "c"])
KINDS = st.sampled_from(["client", "approval", "question"])
parts: st.SearchStrategy[TurnPart] = st.one_of(
    st.builds(TextAdded, texts),
    st.builds(ThinkingAdded, texts),
    st.builds(CallBegun, ids, st.just("f")),
    st.builds(CallInput, ids, texts),
    st.builds(CallMade, ids, st.just("f"), st.just({"x": 1})),
    st.builds(CallEnded, ids, st.just("f"), texts, st.booleans()),
    st.builds(
        CallWaits,
        ids,
        st.just("f"),
        st.just({}),
        KINDS,
        st.just(WaitId("w")),
        texts,
    ),
    st.just(TurnWaits((WaitId("w"),))),
    st.builds(
        TurnEnded,
        st.sampled_from(["completed", "interrupted", "failed"]),
        st.sampled_from(["end_turn", "max_tokens", "refusal", "interrupted", "error"]),
        st.just(Usage(input_tokens=1, output_tokens=2)),
    ),
)


def read(raw: bytes) -> list[Any]:
    pieces = [piece.removeprefix("data: ") for piece in raw.decode().split("\n\n") if piece]
    return [json.loads(piece) for piece in pieces if piece != "[DONE]"]


@settings(max_examples=examples(60, 20_000))
@given(st.lists(parts, max_size=12), st.booleans(), st.booleans(), st.booleans())
def test_any_order_of_parts_gives_a_stream_that_the_official_client_reads(
    told: list[TurnPart], with_usage: bool, shows_tools: bool, continues: bool
) -> None:
    after = (ANSWERED,) if continues else ()
    chunks = ChatChunks("chatcmpl-1", "m", 1, with_usage=with_usage, shows_tools=shows_tools, after=after)
    raw = chunks.begin() + b"".join(chunks.write(part, 1) for part in told)
    state = ChatCompletionStreamState()
    failed = False
    for data in read(raw):
        if "error" in data:
            failed = True
            assert data["error"]["message"]
            continue
        assert not failed, "nothing follows an error"
        state.handle_chunk(ChatCompletionChunk.model_validate(data, strict=True))
    assert raw.endswith(DONE) == (chunks.is_done and not failed)
    if chunks.is_done and not failed:
        # Not the final completion: for some reasons to finish the client raises by design.
        answer = state.current_completion_snapshot
        assert (answer.choices[0].message.content or "") == chunks.text
        assert answer.choices[0].finish_reason == chunks.finish


def test_an_answer_in_one_piece_has_what_the_chunks_had() -> None:
    chunks = ChatChunks("chatcmpl-1", "m", 1)
    used = Usage(input_tokens=1, output_tokens=2, cache_read_tokens=4, thinking_tokens=3)
    for part in (ThinkingAdded("hm"), TextAdded("a"), TextAdded("b"), TurnEnded("completed", "max_tokens", used)):
        chunks.write(part, 1)
    answer = completion(chunks, "chatcmpl-1", "m", 1)
    assert answer["choices"][0]["message"]["reasoning_content"] == "hm"
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["prompt_tokens"] == 5
    assert answer["usage"]["completion_tokens_details"] == {"reasoning_tokens": 3}
