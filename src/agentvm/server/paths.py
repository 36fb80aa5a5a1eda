"""Paths — which slashes of a request's path part it, and which are part of a name.

Theory of operation. ASGI hands over a path that is decoded, where `resource%3A%2F%2Fx` has become three segments. The bytes
that came are there too. If they hold an encoded slash, each segment is decoded by itself, once, and its slashes are replaced
by a character that decoding never yields; after routing, `name` puts them back. Nothing else is touched: `%252F` is the text
`%2F`, and `..` is a name like any other.
"""

from collections.abc import MutableMapping
from typing import Any, Final
from urllib.parse import unquote

_SLASH: Final = "\udc2f"
"""Half of a surrogate pair: bytes that are no UTF-8 are decoded to U+FFFD, so no path holds it."""


def parted(scope: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The scope to route by. Another one than the server's, which must be able to encode its path again."""
    raw = scope.get("raw_path") or b""
    if b"%2f" not in raw.lower():
        return scope
    segments = [unquote(segment) for segment in raw.decode("latin-1").split("/")]
    if "/".join(segments) != scope["path"]:
        # Somebody on the way has changed one of the two; the path is what everybody else goes by.
        return scope
    return {**scope, "path": "/".join(segment.replace("/", _SLASH) for segment in segments)}


def name(segment: str) -> str:
    """A segment of a path that was routed, as its sender meant it."""
    return segment.replace(_SLASH, "/")


def shown(path: str) -> str:
    """A path that was routed, for people to read."""
    return path.replace(_SLASH, "%2F")
