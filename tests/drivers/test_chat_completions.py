import msgspec
import pytest
from tests.drivers.fixtures import FAILURES
from tests.support import answers

from agentvm.drivers.base import ModelOutput, TextChunk, ThinkingChunk, ThinkingStopped, ToolCallStarted
from agentvm.drivers.chat_completions import ChatDecoder
from agentvm.errors import ProviderError, ProviderOverloaded, ProviderProtocolError, ProviderRateLimited
from agentvm.model.usage import Usage
from agentvm.testing.conformance.driver import calls_of, check_output_grammar, stop_reason_of, text_of, thinking_of, usage_of


def feed(*chunks: bytes, ended: bool = False) -> list[ModelOutput]:
    decoder = ChatDecoder(FAILURES, model="m", prompt_tokens=7)
    outputs: list[ModelOutput] = []
    for chunk in chunks:
        outputs += decoder.feed(chunk.removeprefix(b"data: ").strip().decode())
    if ended:
        outputs += decoder.end()
    else:
        assert decoder.finished
    check_output_grammar(outputs)
    return outputs


def test_text_comes_delta_by_delta() -> None:
    outputs = feed(answers.delta({"content": "a"}), answers.delta({"content": "b"}), *answers.openai_end())
    assert [output.text for output in outputs if isinstance(output, TextChunk)] == ["a", "b"]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_thinking_and_remembers_its_member(field: str) -> None:
    outputs = feed(
        answers.delta({field: "hm", "content": None}),
        answers.delta({field: "m"}),
        answers.delta({"content": "so"}),
        *answers.openai_end(),
    )
    assert thinking_of(outputs) == "hmm"
    assert text_of(outputs) == "so"
    assert [output.signature for output in outputs if isinstance(output, ThinkingStopped)] == [f"field:{field}"]


def test_interleaved_calls_become_blocks_that_do_not_overlap() -> None:
    outputs = feed(
        answers.call_delta(0, call_id="a", name="x", arguments='{"p":'),
        answers.call_delta(1, call_id="b", name="y", arguments='{"q":'),
        answers.call_delta(0, arguments="1}"),
        answers.call_delta(1, arguments="2}"),
        *answers.openai_end("tool_calls"),
    )
    assert calls_of(outputs) == [("a", "x", {"p": 1}), ("b", "y", {"q": 2})]
    assert stop_reason_of(outputs) == "tool_use"


def test_text_and_reasoning_after_a_call_are_not_lost() -> None:
    outputs = feed(
        answers.call_delta(0, call_id="a", name="x", arguments="{}"),
        answers.delta({"content": "so"}),
        answers.delta({"content": "!"}),
        answers.delta({"reasoning": "hm"}),
        *answers.openai_end("tool_calls"),
    )
    assert calls_of(outputs) == [("a", "x", {})]
    assert text_of(outputs) == "so!"
    assert thinking_of(outputs) == "hm"


def test_missing_and_repeated_ids_are_made_unique() -> None:
    outputs = feed(
        answers.call_delta(0, name="x", arguments="{}"),
        answers.call_delta(1, call_id="", name="y", arguments="{}"),
        answers.call_delta(2, call_id="z", name="z", arguments="{}"),
        answers.call_delta(3, call_id="z", name="w", arguments="{}"),
        *answers.openai_end("tool_calls"),
    )
    assert [name for _, name, _ in calls_of(outputs)] == ["x", "y", "z", "w"]


def test_servers_that_do_not_count_calls_are_understood() -> None:
    unnumbered = feed(
        answers.call_delta(None, call_id="a", name="x", arguments='{"p":'),
        answers.call_delta(None, arguments="1}"),
        answers.call_delta(None, call_id="b", name="y", arguments="{}"),
        *answers.openai_end("tool_calls"),
    )
    always_zero = feed(
        answers.call_delta(0, call_id="a", name="x", arguments='{"p":1}'),
        answers.call_delta(0, call_id="b", name="y", arguments="{}"),
        *answers.openai_end("tool_calls"),
    )
    assert calls_of(unnumbered) == calls_of(always_zero) == [("a", "x", {"p": 1}), ("b", "y", {})]


def test_an_id_that_is_repeated_with_every_piece_is_one_call() -> None:
    outputs = feed(
        answers.call_delta(0, call_id="a", name="x", arguments='{"p":'),
        answers.call_delta(0, call_id="a", name="x", arguments="1}"),
        *answers.openai_end("tool_calls"),
    )
    assert calls_of(outputs) == [("a", "x", {"p": 1})]


def test_a_call_without_arguments_has_an_empty_object() -> None:
    first = answers.call_delta(0, call_id="a", name="x")
    second = answers.call_delta(1, call_id="b", name="y")
    assert calls_of(feed(first, second, *answers.openai_end("tool_calls"))) == [("a", "x", {}), ("b", "y", {})]


def test_the_first_call_streams_live() -> None:
    decoder = ChatDecoder(FAILURES, model="m", prompt_tokens=7)
    chunk = answers.call_delta(0, call_id="a", name="x", arguments="{").removeprefix(b"data: ").decode()
    assert ToolCallStarted("a", "x") in list(decoder.feed(chunk))


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("stop", "end_turn"),
        ("length", "max_tokens"),
        ("content_filter", "refusal"),
        ("tool_calls", "end_turn"),
        ("new", "end_turn"),
    ],
)
def test_finish_reasons_are_mapped(finish: str, reason: str) -> None:
    assert stop_reason_of(feed(answers.delta({"content": "a"}), *answers.openai_end(finish))) == reason


def test_a_stop_after_tool_calls_means_the_calls() -> None:
    call = answers.call_delta(0, call_id="a", name="x", arguments="{}")
    assert stop_reason_of(feed(call, *answers.openai_end("stop"))) == "tool_use"
    assert stop_reason_of(feed(call, *answers.openai_end("length"))) == "max_tokens"


def test_a_refusal_is_text_and_says_so() -> None:
    outputs = feed(answers.delta({"refusal": "I won't."}), *answers.openai_end())
    assert text_of(outputs) == "I won't."
    assert stop_reason_of(outputs) == "refusal"


def test_cached_tokens_are_counted_once() -> None:
    usage: dict[str, object] = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens_details": {"reasoning_tokens": 15},
    }
    outputs = feed(answers.delta({"content": "a"}), *answers.openai_end(usage=usage))
    assert usage_of(outputs) == Usage(input_tokens=40, output_tokens=20, cache_read_tokens=60, thinking_tokens=15)


def test_a_usage_below_zero_counts_as_none() -> None:
    usage: dict[str, object] = {
        "prompt_tokens": -9,
        "completion_tokens": -1,
        "prompt_tokens_details": {"cached_tokens": -5, "cache_write_tokens": -5},
        "completion_tokens_details": {"reasoning_tokens": -3},
    }
    outputs = feed(answers.delta({"content": "a"}), *answers.openai_end(usage=usage))
    assert usage_of(outputs) == Usage(input_tokens=0, output_tokens=0)


def test_missing_usage_is_estimated_and_says_so() -> None:
    outputs = feed(answers.delta({"content": "a" * 10 + "中" * 10}), answers.delta({}, finish="stop"), answers.DONE)
    assert usage_of(outputs) == Usage(input_tokens=7, output_tokens=10, estimated=True)


def test_a_stream_without_done_is_whole_once_it_said_why_it_stopped() -> None:
    assert text_of(feed(answers.delta({"content": "a"}), answers.delta({}, finish="stop"), ended=True)) == "a"


def test_a_message_without_an_id_gets_one() -> None:
    feed(answers.delta({"content": "a"}, message_id=""), *answers.openai_end())


def test_other_choices_are_not_mixed_in() -> None:
    other = answers.chunk({"choices": [{"index": 1, "delta": {"content": "b"}}]})
    assert text_of(feed(answers.delta({"content": "a"}), other, *answers.openai_end())) == "a"


def test_thinking_goes_on_after_text_as_a_block_of_its_own() -> None:
    steps = [answers.delta({"reasoning": "a"}), answers.delta({"content": "b"}), answers.delta({"reasoning": "c"})]
    outputs = feed(*steps, *answers.openai_end())
    assert [output.text for output in outputs if isinstance(output, ThinkingChunk)] == ["a", "c"]


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([answers.delta({"content": "a"})], ProviderProtocolError),
        ([answers.call_delta(0, call_id="a", arguments="{}")], ProviderProtocolError),
        ([answers.DONE], ProviderProtocolError),
        ([answers.chunk({"error": {"message": "slow", "type": "rate_limit_error"}})], ProviderRateLimited),
        ([answers.chunk({"error": "broken"})], ProviderError),
        ([answers.chunk({"error": {"code": 429}})], ProviderRateLimited),
        ([answers.delta({"content": "a"}, finish="insufficient_system_resource")], ProviderOverloaded),
    ],
)
def test_what_breaks_the_rules_is_an_error(chunks: list[bytes], expected: type[ProviderError]) -> None:
    with pytest.raises(ProviderError) as caught:
        feed(*chunks, ended=True)
    assert caught.type is expected


def test_a_chunk_of_the_wrong_shape_cannot_be_decoded() -> None:
    with pytest.raises(msgspec.DecodeError):
        feed(b'data: {"choices": 3}')
