"""Which test shows that the official client of a gateway runs a turn of each kind against a real server.

A cell names a test and words of it, or of the program that it runs; without a test it says why there is none.
"""

import re
from pathlib import Path

import pytest

from agentvm.server.http.gateways import GATEWAYS

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("text", "tool", "interrupt", "error", "resume")
Cell = tuple[str, str] | str
"""A test and words of it; or a reason."""

AGUI, AI_SDK, A2A = "gateways/agui/test_runs.py", "gateways/ai_sdk/test_chats.py", "gateways/a2a/test_methods.py"
OPENAI, MCP, LANGGRAPH = "gateways/openai", "gateways/mcp", "gateways/langgraph"
ANTHROPIC = "gateways/anthropic/test_messages.py"
RECORDED, TYPESCRIPT = "compat/test_replay_2x.py", "clients/typescript/test_client.py"
_OFFICIAL = f"{AGUI}::test_the_official_client_runs_a_turn_of_each_kind"
_CHAT = f"{AI_SDK}::test_the_official_client_has_a_chat_of_each_kind"
_TASKS = f"{A2A}::test_the_official_javascript_client_runs_a_turn_of_each_kind"
_OPENAI_JS = f"{OPENAI}/test_client.py::test_the_official_client_in_javascript_runs_a_turn_of_each_kind"
_MCP_JS = f"{MCP}/test_client.py::test_the_official_client_in_javascript_runs_a_turn_of_each_kind_in_both_eras"
_LANG_JS = f"{LANGGRAPH}/test_javascript.py::test_the_sdk_and_use_stream_talk_to_an_agent"
_SOCKET = f"{LANGGRAPH}/test_thread_socket.py"
_PLAYED = f"{RECORDED}::test_a_recorded_client_is_answered"
_OWN = f"{TYPESCRIPT}::test_turns_tools_files_errors_and_a_lost_connection"
_TELEGRAM = "channels/test_delivery.py"

MATRIX: dict[str, dict[str, Cell]] = {
    "openai": {
        "text": (_OPENAI_JS, 'seen["text"]'),
        "tool": (_OPENAI_JS, 'seen["tool"]'),
        "interrupt": (f"{OPENAI}/test_chat.py::test_a_stateless_turn_is_stopped_when_its_client_leaves", "interrupted"),
        "error": (_OPENAI_JS, 'seen["failed"]'),
        "resume": (f"{OPENAI}/test_chat.py::test_a_turn_with_a_key_goes_on_for_whoever_repeats_the_request", "one two"),
    },
    "openai responses": {
        "text": (f"{OPENAI}/test_responses.py::test_a_text_turn_comes_in_one_piece_and_as_events_and_again", "output_text"),
        "tool": (_OPENAI_JS, 'seen["response"]'),
        "interrupt": (
            f"{OPENAI}/test_responses.py::test_a_response_is_cancelled_and_so_is_a_queued_one_without_the_one_ahead",
            "cancelled",
        ),
        "error": (f"{OPENAI}/test_responses.py::test_a_failure_of_the_turn_is_a_failed_response", "failed"),
        "resume": (_OPENAI_JS, 'seen["resumed"]'),
    },
    "anthropic": {
        "text": (f"{ANTHROPIC}::test_the_official_client_in_javascript_streams_and_fails", "streamed"),
        "tool": (f"{ANTHROPIC}::test_a_stream_comes_as_the_provider_sends_it", "tool_use"),
        "interrupt": (f"{ANTHROPIC}::test_a_stream_that_its_client_cuts_is_billed_once_for_what_was_said", "break"),
        "error": (f"{ANTHROPIC}::test_the_official_client_in_javascript_streams_and_fails", "BadRequestError"),
        "resume": "the provider's protocol has no way to go on with a stream, and nothing of an answer is kept",
    },
    "mcp": {
        "text": (_MCP_JS, 'seen["text"]'),
        "tool": (_MCP_JS, 'seen["tool"]'),
        "interrupt": (f"{MCP}/test_asking.py::test_a_turn_is_interrupted_when_its_client_leaves", "interrupted"),
        "error": (_MCP_JS, 'seen["failed"]'),
        "resume": (_MCP_JS, 'seen["repeated"]'),
    },
    "langgraph": {
        "text": (_LANG_JS, '"text"'),
        "tool": (_LANG_JS, '"tool"'),
        "interrupt": (f"{LANGGRAPH}/test_runs.py::test_a_run_is_cancelled_and_joined", "interrupted"),
        "error": (_LANG_JS, '"failed"'),
        "resume": (_LANG_JS, '"cut"'),
    },
    "langgraph in Python": {
        "text": (f"{LANGGRAPH}/test_runs.py::test_a_text_turn_is_streamed_in_every_mode_and_awaited", "stream"),
        "tool": (f"{LANGGRAPH}/test_runs.py::test_a_tool_turn_shows_the_call_and_its_result", "tool"),
        "interrupt": (f"{LANGGRAPH}/test_runs.py::test_a_run_is_cancelled_and_joined", "cancel"),
        "error": (f"{LANGGRAPH}/test_runs.py::test_a_failure_is_an_error_in_the_stream_and_in_what_is_awaited", "error"),
        "resume": (f"{LANGGRAPH}/test_run_stream.py::test_the_official_client_reconnects_by_itself", "one two"),
    },
    "langgraph threads": {
        "text": (_LANG_JS, 'hook["text"]'),
        "tool": (_LANG_JS, 'hook["tool"]'),
        "interrupt": (f"{LANGGRAPH}/test_event_stream.py::test_the_official_client_follows_a_thread", "interrupts"),
        "error": (_LANG_JS, 'hook["failed"]'),
        "resume": (f"{LANGGRAPH}/test_event_stream.py::test_the_official_client_reconnects_by_itself", "one two"),
    },
    "langgraph sockets": {
        "text": (_LANG_JS, 'socket["text"]'),
        "tool": (_LANG_JS, 'socket["tool"]'),
        "interrupt": (f"{_SOCKET}::test_the_official_client_follows_a_thread_over_a_socket", "interrupts"),
        "error": (_LANG_JS, 'socket["failed"]'),
        "resume": (f"{_SOCKET}::test_the_official_client_goes_on_after_a_lost_socket", "one two"),
    },
    "a2a": {
        "text": (_TASKS, 'seen["text"]'),
        "tool": (_TASKS, 'seen["tool"]'),
        "interrupt": (_TASKS, 'seen["cancelled"]'),
        "error": (_TASKS, 'seen["failed"]'),
        "resume": (f"{A2A}::test_a_stream_that_was_lost_is_read_again_and_a_task_is_cancelled", "subscribe"),
    },
    "agui": {
        "text": (_OFFICIAL, 'seen["text"]'),
        "tool": (_OFFICIAL, 'seen["tool"]'),
        "interrupt": (_OFFICIAL, 'seen["stopped"]'),
        "error": (_OFFICIAL, 'seen["failed"]'),
        "resume": (_OFFICIAL, 'seen["resumed"]'),
    },
    "ai_sdk": {
        "text": (_CHAT, 'seen["text"]'),
        "tool": (_CHAT, 'seen["tool"]'),
        "interrupt": (_CHAT, 'seen["stopped"]'),
        "error": (_CHAT, 'seen["failed"]'),
        "resume": (_CHAT, 'seen["resumed"]'),
    },
    "agentx 2.x, by its recorded client": {
        "text": (_PLAYED, "04-message-two-turns"),
        "tool": (_PLAYED, "06-tool-turn"),
        "interrupt": (_PLAYED, "09-interrupt"),
        "error": (_PLAYED, "10-llm-errors"),
        "resume": (_PLAYED, "15-reconnect"),
    },
    "typescript client": {
        "text": (_OWN, '"text"'),
        "tool": (_OWN, '"tool"'),
        "interrupt": (_OWN, '"interrupt"'),
        "error": (_OWN, '"errors"'),
        "resume": (_OWN, '"cut"'),
    },
    "chat channels": {
        "text": ("channels/test_wecom.py::test_a_text_a_tool_a_failure_and_a_group_are_answered_in_place", "hello"),
        "tool": (f"{_TELEGRAM}::test_an_approval_is_asked_in_the_chat_and_answered_by_a_letter", "tool"),
        "interrupt": (f"{_TELEGRAM}::test_commands_begin_stop_and_explain", "/stop"),
        "error": (f"{_TELEGRAM}::test_errors_long_answers_and_files_reach_the_chat_and_the_agent", "fail"),
        "resume": ("faults/test_channels.py::test_the_answer_of_a_killed_server_is_in_the_chat_once", "SIGKILL"),
    },
}
FUZZED: dict[str, tuple[str, ...]] = {
    "openai": (f"{OPENAI}/test_chat_chunks.py", f"{OPENAI}/test_response_events.py"),
    "mcp": (f"{MCP}/test_asking.py",),
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
    assert {gateway.name for gateway in GATEWAYS} <= MATRIX.keys()
    assert {name: tuple(row) for name, row in MATRIX.items()} == dict.fromkeys(MATRIX, KINDS)


@pytest.mark.parametrize(("name", "kind", "cell"), CELLS, ids=[f"{name}: {kind}" for name, kind, _ in CELLS])
def test_what_a_cell_names_is_there(name: str, kind: str, cell: Cell) -> None:
    if isinstance(cell, str):
        assert len(cell.split()) > 5
        return
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
