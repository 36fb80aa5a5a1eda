"""Paths — tells the slashes that separate segments of a path from those within a segment.

Theory of operation. ASGI passes a decoded path, where `resource%3A%2F%2Fx` has become three segments, and the original bytes.
If these hold an encoded slash, each segment is decoded by itself, once, and its slashes are replaced by a character that
decoding never yields; after routing, `name` restores them. Nothing else is changed: `%252F` is the text `%2F`, and `..` is a
name like any other.
"""

from collections.abc import MutableMapping
from typing import Any, Final
from urllib.parse import unquote

_SLASH: Final = "\udc2f"
"""Half of a surrogate pair: bytes that are no UTF-8 are decoded to U+FFFD, so no path holds it."""


def parted(scope: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Returns the scope to route by: a copy, because the server must be able to encode its own path again."""
    raw = scope.get("raw_path") or b""
    if b"%2f" not in raw.lower():
        return scope
    segments = [unquote(segment) for segment in raw.decode("latin-1").split("/")]
    if "/".join(segments) != scope["path"]:
        # Middleware has changed one of the two; all others use the path.
        return scope
    return {**scope, "path": "/".join(segment.replace("/", _SLASH) for segment in segments)}


def name(segment: str) -> str:
    """Returns a segment of a routed path as its sender wrote it."""
    return segment.replace(_SLASH, "/")


def shown(path: str) -> str:
    """Returns a routed path for display."""
    return path.replace(_SLASH, "%2F")
