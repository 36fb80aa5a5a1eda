"""HTTP caching — the headers of responses that a client may keep, and the conditions of requests."""

from typing import Final

CREDENTIAL: Final = "Authorization"
"""For `Vary`: the same URL means another thing for another key, so no cache may answer one with the response to another."""
REVALIDATE: Final = "private, no-cache"
IMMUTABLE: Final = "private, max-age=31536000, immutable"


def matches(header: str, tag: str) -> bool:
    """Whether an `If-Match` or `If-None-Match` names the tag."""
    tags = {name.strip().removeprefix("W/").strip('"') for name in header.split(",")}
    return "*" in tags or tag in tags
