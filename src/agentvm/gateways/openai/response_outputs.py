"""Response outputs — the items of a response while they are written: text, thinking and calls, each with its events. Pure."""

from typing import Any

import msgspec

from agentvm.gateways.embedded_json import read_value
from agentvm.gateways.turn_parts import CallEnded

SERVER_LABEL = "agentvm"
"""The server that has run the agent's own tools."""
ItemEvent = tuple[str, dict[str, Any]]

_encode = msgspec.json.Encoder().encode


def call_error(text: str) -> dict[str, Any]:
    """Returns the failure of an own tool."""
    return {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": text}]}


class TextItem:
    """A message or a thought that is being written. Its place in the list of items is its index."""

    def __init__(self, kind: str, items: list[dict[str, Any]], key: str) -> None:
        self.kind, self._items, self.index = kind, items, len(items)
        self.is_message = kind == "message"
        self.item_id = f"{'msg' if self.is_message else 'rs'}_{key}_{self.index}"
        self.pieces: list[str] = []
        self._place = {"item_id": self.item_id, "output_index": self.index}
        self._place["content_index" if self.is_message else "summary_index"] = 0
        items.append(self._item("in_progress", []))

    def open(self) -> list[ItemEvent]:
        part = "content_part" if self.is_message else "reasoning_summary_part"
        added = {"output_index": self.index, "item": self._items[self.index]}
        return [
            ("response.output_item.added", added),
            (f"response.{part}.added", {**self._place, "part": self._part("")}),
        ]

    def add(self, text: str) -> list[ItemEvent]:
        self.pieces.append(text)
        return [(f"response.{self._word}.delta", {**self._place, **self._extra, "delta": text})]

    def close(self, *, is_complete: bool) -> list[ItemEvent]:
        text = "".join(self.pieces)
        part = "content_part" if self.is_message else "reasoning_summary_part"
        self._items[self.index] = self._item("completed" if is_complete else "incomplete", [self._part(text)])
        return [
            (f"response.{self._word}.done", {**self._place, **self._extra, "text": text}),
            (f"response.{part}.done", {**self._place, "part": self._part(text)}),
            ("response.output_item.done", {"output_index": self.index, "item": self._items[self.index]}),
        ]

    @property
    def _word(self) -> str:
        return "output_text" if self.is_message else "reasoning_summary_text"

    @property
    def _extra(self) -> dict[str, Any]:
        return {"logprobs": []} if self.is_message else {}

    def _part(self, text: str) -> dict[str, Any]:
        if self.is_message:
            return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        return {"type": "summary_text", "text": text}

    def _item(self, status: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
        if self.is_message:
            return {"id": self.item_id, "type": "message", "role": "assistant", "status": status, "content": parts}
        return {"id": self.item_id, "type": "reasoning", "status": status, "summary": parts}


class CallItem:
    """A call that is being written or made: one of the caller's tools, or one of the agent's own."""

    def __init__(self, items: list[dict[str, Any]], key: str, call_id: str, name: str, *, of_client: bool) -> None:
        self._items, self.index, self.of_client = items, len(items), of_client
        self._pieces: list[str] = []
        self._is_made, self.is_open = False, True
        self._word = "function_call_arguments" if of_client else "mcp_call_arguments"
        item_id = f"{'fc' if of_client else 'mcp'}_{key}_{self.index}"
        self._place = {"item_id": item_id, "output_index": self.index}
        about = {"id": item_id, "name": name, "arguments": "", "status": "in_progress"}
        items.append(
            {**about, "type": "function_call", "call_id": call_id}
            if of_client
            else {**about, "type": "mcp_call", "server_label": SERVER_LABEL, "output": None, "error": None}
        )

    def open(self) -> list[ItemEvent]:
        added = ("response.output_item.added", {"output_index": self.index, "item": self._items[self.index]})
        return [added] if self.of_client else [added, ("response.mcp_call.in_progress", self._place)]

    def add(self, piece: str) -> list[ItemEvent]:
        if self._is_made or not self.is_open:
            return []
        self._pieces.append(piece)
        return [(f"response.{self._word}.delta", {**self._place, "delta": piece})]

    def make(self, fields: dict[str, Any]) -> list[ItemEvent]:
        """The input is whole. A call of the caller's tool is thereby complete."""
        if self._is_made or not self.is_open:
            return []
        written = "".join(self._pieces)
        arguments = written if read_value(written) == fields else _encode(fields).decode()
        events = [] if written else self.add(arguments)
        self._is_made = True
        self._change(arguments=arguments)
        name = {"name": self._items[self.index]["name"]} if self.of_client else {}
        events.append((f"response.{self._word}.done", {**self._place, **name, "arguments": arguments}))
        return events + self._done("completed") if self.of_client else events

    def end(self, result: CallEnded | None) -> list[ItemEvent]:
        """The result is there; without one, the call is left as it is."""
        if not self.is_open:
            return []
        if result is None:
            return self._done("incomplete")
        call = self.make({})
        if result.is_error:
            self._change(error=call_error(result.text))
            return [*call, ("response.mcp_call.failed", self._place), *self._done("failed")]
        self._change(output=result.text)
        return [*call, ("response.mcp_call.completed", self._place), *self._done("completed")]

    def _done(self, status: str) -> list[ItemEvent]:
        self.is_open = False
        self._change(status=status)
        return [("response.output_item.done", {"output_index": self.index, "item": self._items[self.index]})]

    def _change(self, **members: Any) -> None:
        self._items[self.index] = {**self._items[self.index], **members}
