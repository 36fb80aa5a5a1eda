"""Store item — a JSON object that a client keeps in a container, under a key in a namespace."""

import re
from typing import Any

from agentvm.errors import Unprocessable
from agentvm.model.base import Record

STORE_ITEMS_MAX = 10_000
"""Items of one container."""
VALUE_MAX_BYTES = 64 * 1024
NAMESPACE_MAX_BYTES = 1_000
KEY_MAX_BYTES = 500

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

Namespace = tuple[str, ...]
"""Labels, the outermost first."""


class StoreItem(Record):
    namespace: Namespace
    key: str
    value: dict[str, Any]
    created_at: int
    updated_at: int


def check_namespace(labels: Namespace, *, is_prefix: bool = False) -> Namespace:
    """Returns the labels; `Unprocessable` for those that no item can have. Only a prefix may be empty."""
    if not labels and not is_prefix:
        raise Unprocessable("namespace must have a label")
    if any(not label or "." in label or _CONTROL.search(label) for label in labels):
        raise Unprocessable("A label of a namespace must not be empty, nor contain full stops or control characters")
    if len(".".join(labels).encode()) > NAMESPACE_MAX_BYTES:
        raise Unprocessable(f"A namespace has at most {NAMESPACE_MAX_BYTES:,} bytes")
    return labels


def check_key(key: str) -> str:
    """Returns the key; `Unprocessable` for one that no item can have."""
    if not 0 < len(key.encode()) <= KEY_MAX_BYTES or _CONTROL.search(key):
        raise Unprocessable(f"key must have 1 to {KEY_MAX_BYTES} bytes, and no control characters")
    return key
