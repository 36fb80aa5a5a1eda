from hashlib import sha256

import pytest

from agentvm.model.ids import TurnId
from agentvm.model.usage import Usage
from agentvm.observability.spans import TracedCall, TracedTool, chat, execution, span_of, tokens, trace_of, until


def test_ids_derive_from_the_turn_so_that_whoever_reads_a_log_finds_the_trace() -> None:
    assert f"{trace_of('turn_1'):032x}" == sha256(b"turn_1").hexdigest()[:32]
    assert f"{span_of('turn_1', 'msg_1'):016x}" == sha256(b"turn_1/msg_1").hexdigest()[:16]
    assert span_of("turn_1") != span_of("turn_1", "msg_1")


def test_tokens_of_caches_are_input_and_said_besides() -> None:
    used = Usage(input_tokens=1, output_tokens=2, cache_read_tokens=4, cache_write_tokens=8, thinking_tokens=1, estimated=True)
    assert tokens(used) == {
        "gen_ai.usage.input_tokens": 13,
        "gen_ai.usage.output_tokens": 2,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.cache_creation.input_tokens": 8,
        "gen_ai.usage.reasoning.output_tokens": 1,
        "agentvm.usage_estimated": True,
    }
    assert len(tokens(Usage(input_tokens=1, output_tokens=2))) == 2


def test_a_call_that_was_stopped_has_no_finish_reason_of_the_model() -> None:
    call = TracedCall(
        "m", "work", "gpt", "gpt-2026", 10, stop="end_turn", interrupted=True, ended_at=30, first_at=15, attempt=2
    )
    made = chat(TurnId("t"), "s", call, provider="openai", at=99)
    assert "gen_ai.response.finish_reasons" not in made.attributes
    assert made.attributes["agentvm.outcome"] == "interrupted"
    assert made.attributes["gen_ai.response.time_to_first_chunk"] == 0.005
    assert (made.name, made.start, made.end, made.attributes["agentvm.attempt"]) == ("chat gpt", 10, 30, 2)
    assert (until(20, made).start, made.end) == (10, 20)


@pytest.mark.parametrize(("given", "shown"), [("call_1.a:b-c", True), ("what was said", False), ("x" * 129, False)])
def test_the_id_of_a_tool_call_is_shown_if_it_is_one(given: str, shown: bool) -> None:
    made = execution(TurnId("t"), TracedTool(given, "ok", 1, 2, failed=True))
    assert ("gen_ai.tool.call.id" in made.attributes) is shown
    assert made.error == "tool_failed"
