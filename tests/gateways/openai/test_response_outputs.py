from typing import Any

from agentvm.gateways.openai.response_outputs import CallItem, TextItem, call_error
from agentvm.gateways.turn_parts import CallEnded


def kinds(events: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [kind.removeprefix("response.") for kind, _ in events]


def test_a_message_is_opened_added_to_and_closed() -> None:
    items: list[dict[str, Any]] = [{}]
    said = TextItem("message", items, "k")
    assert (said.item_id, items[1]["status"]) == ("msg_k_1", "in_progress")
    assert kinds(said.open()) == ["output_item.added", "content_part.added"]
    said.add("a")
    said.add("b")
    assert kinds(said.close(is_complete=False)) == ["output_text.done", "content_part.done", "output_item.done"]
    assert (items[1]["status"], items[1]["content"][0]["text"]) == ("incomplete", "ab")


def test_a_call_of_the_caller_is_complete_when_it_is_made() -> None:
    items: list[dict[str, Any]] = []
    call = CallItem(items, "k", "c1", "f", of_client=True)
    assert kinds(call.open()) == ["output_item.added"]
    made = ["function_call_arguments.delta", "function_call_arguments.done", "output_item.done"]
    assert kinds(call.make({"x": 1})) == made
    assert (call.make({}), call.add("x"), call.end(None), call.is_open) == ([], [], [], False)
    assert items == [
        {"id": "fc_k_0", "name": "f", "arguments": '{"x":1}', "status": "completed", "type": "function_call", "call_id": "c1"}
    ]


def test_an_own_call_ends_with_its_result_or_is_left() -> None:
    items: list[dict[str, Any]] = []
    failed, left = (CallItem(items, "k", name, "f", of_client=False) for name in "ab")
    failed.add('{"x": ')
    failed.add("1}")
    failed.make({"x": 1})
    assert kinds(failed.end(CallEnded("a", "f", "no", is_error=True))) == ["mcp_call.failed", "output_item.done"]
    left.add("{")
    assert kinds(left.end(None)) == ["output_item.done"]
    assert [(item["arguments"], item["error"], item["status"]) for item in items] == [
        ('{"x": 1}', call_error("no"), "failed"),
        ("", None, "incomplete"),
    ]
