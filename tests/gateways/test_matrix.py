"""Which test shows that the official client of a gateway runs a turn of each kind against a real server.

A cell names a test and words of it. A row is about one client.
"""

import re
from pathlib import Path

import pytest

from agentvm.server.http.gateways import GATEWAYS

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("text", "tool", "interrupt", "error", "resume")
Cell = tuple[str, str]
"""A test and words of it."""

OPENAI, MCP, LANGGRAPH = "gateways/openai", "gateways/mcp", "gateways/langgraph"
CHAT, RESPONSES, ASKING = f"{OPENAI}/test_chat.py", f"{OPENAI}/test_responses.py", f"{MCP}/test_agent_tool.py"
RUNS, THREADS, SOCKET = (f"{LANGGRAPH}/test_{name}.py" for name in ("runs", "event_stream", "thread_socket"))
ANTHROPIC, TASKS = "gateways/anthropic/test_messages.py", "gateways/a2a/test_methods.py"
_OPENAI_JS = f"{OPENAI}/test_client.py::test_the_official_client_in_javascript_runs_a_turn_of_each_kind"
_OPENAI_AI_SDK = f"{OPENAI}/test_ai_sdk.py::test_the_provider_of_the_ai_sdk_has_conversations_of_each_kind"
_ANTHROPIC_JS = f"{ANTHROPIC}::test_the_official_client_in_javascript_runs_a_request_of_each_kind"
_MCP_JS = f"{MCP}/test_client.py::test_the_official_client_in_javascript_runs_a_turn_of_each_kind_in_both_eras"
_LANG_JS = f"{LANGGRAPH}/test_javascript.py::test_the_sdk_and_use_stream_talk_to_an_agent"
_CHAT_UI = f"{LANGGRAPH}/test_javascript.py::test_the_hook_of_agent_chat_ui_talks_to_an_agent"
_A2A_JS = f"{TASKS}::test_the_official_javascript_client_runs_a_turn_of_each_kind"
_AGUI = "gateways/agui/test_runs.py::test_the_official_client_runs_a_turn_of_each_kind"
_AI_SDK = "gateways/ai_sdk/test_chats.py::test_the_official_client_has_a_chat_of_each_kind"
_PLAYED = "compat/test_replay_2x.py::test_a_recorded_client_is_answered"
_OWN = "clients/typescript/test_client.py::test_turns_tools_files_errors_and_a_lost_connection"
_CONVERSATION = "channels/test_platforms.py::test_a_conversation_of_each_kind"
_PYTHON_TASKS = f"{TASKS}::test_text_tool_error_wait_interrupt_and_resume_by_the_official_client"
_LOST_TASK = f"{TASKS}::test_a_stream_that_was_lost_is_read_again_and_a_task_is_cancelled"


def _row(*cells: Cell) -> dict[str, Cell]:
    return dict(zip(KINDS, cells, strict=True))


def _program(test: str, *seen: str) -> dict[str, Cell]:
    """A row whose cells are all seen in one test, under these names."""
    return _row(*((test, name) for name in seen))


MATRIX: dict[str, dict[str, Cell]] = {
    "openai: openai of PyPI, chat": _row(
        (f"{CHAT}::test_a_text_turn_comes_in_one_piece_or_in_chunks", "create"),
        (f"{CHAT}::test_the_callers_tool_is_called_by_the_caller_and_the_turn_goes_on", "tool_calls"),
        (f"{CHAT}::test_a_stateless_turn_is_stopped_when_its_client_leaves", "interrupted"),
        (f"{CHAT}::test_a_failure_after_the_first_byte_is_an_error_in_the_stream", "APIError"),
        (f"{CHAT}::test_a_turn_with_a_key_goes_on_for_whoever_repeats_the_request", "one two"),
    ),
    "openai: openai of PyPI, responses": _row(
        (f"{RESPONSES}::test_a_text_turn_comes_in_one_piece_and_as_events_and_again", "output_text"),
        (f"{RESPONSES}::test_own_tools_are_calls_that_the_server_has_run", "mcp_call"),
        (f"{RESPONSES}::test_a_response_is_cancelled_and_so_is_a_queued_one_without_the_one_ahead", "cancelled"),
        (f"{RESPONSES}::test_a_failure_of_the_turn_is_a_failed_response", "failed"),
        (f"{RESPONSES}::test_a_background_response_is_polled_and_followed_after_a_lost_connection", "starting_after"),
    ),
    "openai: openai of npm, chat": _program(
        _OPENAI_JS, 'seen["text"]', 'seen["tool"]', 'seen["left"]', 'seen["failed"]', 'seen["repeated"]'
    ),
    "openai: openai of npm, responses": _program(
        _OPENAI_JS, 'seen["next"]', 'seen["response"]', 'seen["cancelled"]', 'seen["failedResponse"]', 'seen["resumed"]'
    ),
    "openai: @ai-sdk/openai, responses and chat": _program(
        _OPENAI_AI_SDK, 'seen["text"]', 'seen["tool"]', 'seen["left"]', 'seen["failed"]', 'seen["again"]'
    ),
    "anthropic: anthropic of PyPI": _row(
        (f"{ANTHROPIC}::test_an_answer_in_one_piece_is_the_providers_and_billed", "Hi."),
        (f"{ANTHROPIC}::test_a_stream_comes_as_the_provider_sends_it", "tool_use"),
        (f"{ANTHROPIC}::test_a_stream_that_its_client_cuts_is_billed_once_for_what_was_said", "break"),
        (f"{ANTHROPIC}::test_a_refusal_is_the_providers_own_and_costs_nothing", "BadRequestError"),
        # The provider's protocol cannot go on with a stream: the client asks again.
        (f"{ANTHROPIC}::test_a_stream_that_its_client_cuts_is_billed_once_for_what_was_said", "asks again"),
    ),
    "anthropic: @anthropic-ai/sdk": _program(_ANTHROPIC_JS, '"streamed"', '"called"', '"left"', '"failed"', '"again"'),
    "mcp: mcp of PyPI, in both eras": _row(
        (f"{ASKING}::test_a_text_turn_is_the_result_of_a_tool_and_goes_on_in_its_session", "hello"),
        (f"{ASKING}::test_a_tool_turn_tells_its_progress", "It is done."),
        (f"{ASKING}::test_a_turn_is_interrupted_when_its_client_leaves", "interrupted"),
        (f"{ASKING}::test_a_failed_turn_is_a_result_that_is_an_error", "failed"),
        (f"{ASKING}::test_a_turn_with_a_key_goes_on_for_whoever_asks_again", "one two"),
    ),
    "mcp: @modelcontextprotocol/client in both eras, @modelcontextprotocol/sdk": _program(
        _MCP_JS, 'seen["text"]', 'seen["tool"]', 'seen["outcome"]', 'seen["failed"]', 'seen["resumed"]'
    ),
    "langgraph: langgraph-sdk of PyPI, runs": _row(
        (f"{RUNS}::test_a_text_turn_is_streamed_in_every_mode_and_awaited", "stream"),
        (f"{RUNS}::test_a_tool_turn_shows_the_call_and_its_result", "tool"),
        (f"{RUNS}::test_a_run_is_cancelled_and_joined", "interrupted"),
        (f"{RUNS}::test_a_failure_is_an_error_in_the_stream_and_in_what_is_awaited", "error"),
        (f"{LANGGRAPH}/test_run_stream.py::test_the_official_client_reconnects_by_itself", "one two"),
    ),
    "langgraph: langgraph-sdk of PyPI, threads": _row(
        (f"{THREADS}::test_the_official_client_reconnects_by_itself", "text"),
        (f"{THREADS}::test_the_official_client_follows_a_thread", "tool_calls"),
        (f"{THREADS}::test_a_run_is_stopped_while_the_official_client_follows_its_thread", "interrupted"),
        (f"{THREADS}::test_the_official_client_follows_a_thread", "busy"),
        (f"{THREADS}::test_the_official_client_reconnects_by_itself", "one two"),
    ),
    "langgraph: langgraph-sdk of PyPI, sockets": _row(
        (f"{SOCKET}::test_the_official_client_goes_on_after_a_lost_socket", "text"),
        (f"{SOCKET}::test_the_official_client_follows_a_thread_over_a_socket", "tool"),
        (f"{THREADS}::test_a_run_is_stopped_while_the_official_client_follows_its_thread", "transport"),
        (f"{SOCKET}::test_the_official_client_follows_a_thread_over_a_socket", "busy"),
        (f"{SOCKET}::test_the_official_client_goes_on_after_a_lost_socket", "one two"),
    ),
    "langgraph: @langchain/langgraph-sdk 2.0 and 1.12": _program(
        _LANG_JS, '"text"', '"tool"', '"stopped"', '"failed"', '"cut"'
    ),
    "langgraph: useStream of @langchain/langgraph-sdk, as Agent Chat UI has it": _program(
        _CHAT_UI, '"text"', '"tool"', '"stopped"', '"failed"', '"cut"'
    ),
    "langgraph: useStream of @langchain/react": _program(
        _LANG_JS, 'hook["text"]', 'hook["tool"]', 'hook["stopped"]', 'hook["failed"]', 'hook["cut"]'
    ),
    "langgraph: useStream of @langchain/react, sockets": _program(
        _LANG_JS, 'socket["text"]', 'socket["tool"]', 'socket["stopped"]', 'socket["failed"]', 'socket["cut"]'
    ),
    "a2a: a2a-sdk of PyPI": _row(
        (_PYTHON_TASKS, "hello there"),
        (_PYTHON_TASKS, "calculator"),
        (_LOST_TASK, "TASK_STATE_CANCELED"),
        (_PYTHON_TASKS, "TASK_STATE_FAILED"),
        (_LOST_TASK, "subscribe"),
    ),
    "a2a: @a2a-js/sdk": _program(
        _A2A_JS, 'seen["text"]', 'seen["tool"]', 'seen["cancelled"]', 'seen["failed"]', 'seen["resumed"]'
    ),
    "agui: @ag-ui/client": _program(
        _AGUI, 'seen["text"]', 'seen["tool"]', 'seen["stopped"]', 'seen["failed"]', 'seen["resumed"]'
    ),
    "ai_sdk: ai": _program(_AI_SDK, 'seen["text"]', 'seen["tool"]', 'seen["stopped"]', 'seen["failed"]', 'seen["resumed"]'),
    "agentx: agentxjs 2.9, recorded": _row(
        (_PLAYED, "04-message-two-turns"),
        (_PLAYED, "06-tool-turn"),
        (_PLAYED, "09-interrupt"),
        (_PLAYED, "10-llm-errors"),
        (_PLAYED, "15-reconnect"),
    ),
    "agentx: agentvm-client": _program(_OWN, '"text"', '"tool"', '"interrupt"', '"errors"', '"cut"'),
    "channels: WeCom, DingTalk, Feishu, Telegram": _program(
        _CONVERSATION, "hello there", "calculator", "/stop", "crash", "chat.cut"
    ),
}
"""By the name of a gateway and that of a client. The client of AgentX 2.9 is in no registry."""
FUZZED: dict[str, tuple[str, ...]] = {
    "openai": (f"{OPENAI}/test_chat_chunks.py", f"{OPENAI}/test_response_events.py"),
    "mcp": (f"{MCP}/test_agent_tool.py",),
    "langgraph": (f"{LANGGRAPH}/test_run_events.py", f"{LANGGRAPH}/test_thread_events.py"),
    "a2a": ("gateways/a2a/test_task_events.py",),
    "agui": ("gateways/agui/test_run_events.py",),
    "ai_sdk": ("gateways/ai_sdk/test_ui_chunks.py",),
    "agentx 2.x": ("protocol/test_rpc_peer.py",),
}
"""The tests that put the parts of a turn into any order. What goes to a model itself is not encoded here."""
CELLS = [(name, kind, cell) for name, row in MATRIX.items() for kind, cell in row.items()]

_ANY_ORDER = r"(?:^@.*\n)*^(?:async )?def test_any_order_of_(?:.*\n(?!^(?:async def|def|@)))*"
"""The test, with its decorators, up to the next one."""


def test_every_gateway_has_a_row_with_every_kind() -> None:
    assert {gateway.name for gateway in GATEWAYS} <= {name.partition(":")[0] for name in MATRIX}
    assert {name: tuple(row) for name, row in MATRIX.items()} == dict.fromkeys(MATRIX, KINDS)


@pytest.mark.parametrize(("name", "kind", "cell"), CELLS, ids=[f"{name}: {kind}" for name, kind, _ in CELLS])
def test_what_a_cell_names_is_there(name: str, kind: str, cell: Cell) -> None:
    (place, words), tests = cell, ROOT / "tests"
    path, _, test = place.partition("::")
    source = (tests / path).read_text(encoding="utf-8")
    found = re.search(rf"^(async )?def {test}\(.*?(?=^(async def|def|class|@|[A-Z])|\Z)", source, re.MULTILINE | re.DOTALL)
    assert found is not None, place
    recorded = {path.stem for path in (tests / "compat" / "transcripts_2x").glob("*.jsonl")}
    assert words in found[0] or words in recorded, f"{place} shows nothing of {words}"


def test_every_encoder_is_given_the_parts_of_a_turn_in_any_order() -> None:
    assert {gateway.name for gateway in GATEWAYS} - {"anthropic"} <= FUZZED.keys()
    for path in (path for paths in FUZZED.values() for path in paths):
        source = (ROOT / "tests" / path).read_text(encoding="utf-8")
        # The property is the test itself, or a function in it that collects streams for a client in JavaScript.
        around = re.search(_ANY_ORDER, source, re.MULTILINE)
        assert around is not None, path
        assert "@given(" in around[0], path
