"""Anthropic blocks — the content of an answer in which the provider has run tools, kept as it came.

The provider takes its own blocks back unchanged only: results are encrypted, and citations point into them. So an answer with
such blocks is kept whole, in order, beside the text that people read. A result that people see has no encrypted parts.
"""

from collections.abc import Mapping

import msgspec

from agentvm.drivers.base import ProviderTool
from agentvm.model.message import ProviderContent
from agentvm.model.provider_tool import uses_of

Json = dict[str, object]

_CALL = "server_tool_use"


def tool_json(tool: ProviderTool) -> Json:
    """Returns the entry of a tool in a request. The provider knows it by the name in its type."""
    return {"type": tool.type, "name": tool.type.rpartition("_")[0], **tool.options, "max_uses": uses_of(tool.options)}


class BlockKeeper:
    """The blocks of one answer, as they are streamed. Keeps nothing unless the provider has run a tool."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._blocks: list[Json] = []
        self._input = ""
        self.container: str | None = None
        """The sandbox at the provider that filtered results, which the next request of the turn names."""

    def open(self, block: Json) -> None:
        self._blocks.append(block)
        self._input = ""

    def grow(self, delta: Json) -> None:
        """Applies a delta to the last block; one of an unknown type changes nothing."""
        block = self._blocks[-1]
        match delta:
            case {"type": "text_delta", "text": str(text)}:
                block["text"] = f"{block.get('text') or ''}{text}"
            case {"type": "thinking_delta", "thinking": str(text)}:
                block["thinking"] = f"{block.get('thinking') or ''}{text}"
            case {"type": "signature_delta", "signature": str(text)}:
                block["signature"] = f"{block.get('signature') or ''}{text}"
            case {"type": "citations_delta", "citation": citation}:
                citations = block.get("citations")
                block["citations"] = [*(citations if isinstance(citations, list) else ()), citation]
            case {"type": "input_json_delta", "partial_json": str(piece)}:
                self._input += piece
            case _:
                pass

    def close(self) -> None:
        if self._input and self._blocks:
            try:
                self._blocks[-1]["input"] = msgspec.json.decode(self._input)
            except (msgspec.DecodeError, RecursionError):
                # The call itself is refused with the same input; the block goes back with what it began with.
                pass
            self._input = ""

    def content(self) -> ProviderContent | None:
        """Returns the whole answer; None for one without tools of the provider, which is told like any other.

        Calls of our own tools are left out: they go back with their results, under the ids that the turn gave them.
        """
        if not any(block.get("type") == _CALL or is_result(block) for block in self._blocks):
            return None
        stored_blocks = [block for block in self._blocks if block.get("type") != "tool_use" and not _is_blank(block)]
        return ProviderContent(
            provider=self._provider, blocks=msgspec.json.encode(stored_blocks).decode(), container=self.container
        )


def is_result(block: Mapping[str, object]) -> bool:
    """Returns whether a block is the result of a tool that the provider has run."""
    return str(block.get("type", "")).endswith("_tool_result") and isinstance(block.get("tool_use_id"), str)


def shown_result(block: Mapping[str, object]) -> tuple[object, bool]:
    """Returns a result as people are shown it, and whether it is a failure."""
    content = block.get("content")
    if isinstance(content, dict) and str(content.get("type", "")).endswith("_error"):
        return str(content.get("error_code") or "failed"), True
    return _readable(content), False


def _readable(value: object) -> object:
    match value:
        case dict():
            return {key: _readable(field) for key, field in value.items() if not str(key).startswith("encrypted")}
        case list():
            return [_readable(item) for item in value]
        case _:
            return value


def _is_blank(block: Mapping[str, object]) -> bool:
    """Returns whether a block is a text of white space alone, which is refused when it is sent back."""
    return block.get("type") == "text" and not str(block.get("text") or "").strip()
