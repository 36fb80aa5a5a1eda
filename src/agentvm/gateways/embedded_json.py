"""Embedded JSON — JSON that a client or a model has written into a text: the input of a call, the result of a tool. Pure."""

from typing import Final

import msgspec

from agentvm.errors.bounds import InputTooLarge
from agentvm.protocol.bounds import Bound, check
from agentvm.runtime.tool_input import DEPTH_MAX

VALUES_MAX: Final = 10_000
"""Values of one such text. The bound of a body does not count them: they are within a string."""
_BYTES_MAX: Final = 32 * 1024 * 1024
_BOUND: Final = Bound(max_bytes=_BYTES_MAX, max_values=VALUES_MAX, max_depth=DEPTH_MAX)


def read_arguments(text: str) -> dict[str, object]:
    """Returns the input of a call; empty for a text that is not a JSON object. `InputTooLarge` for one beyond the bound."""
    check(text.encode(), _BOUND, "The arguments of a call")
    value = _decode(text)
    return value if isinstance(value, dict) else {}


def read_value(text: str) -> object:
    """Returns the value that a text is; the text itself if it is not JSON, or beyond the bound."""
    try:
        check(text.encode(), _BOUND, "")
    except InputTooLarge:
        return text
    return _decode(text)


def _decode(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
