"""Relay keys — the keys under which clients have sent relayed requests, so that a repeated one is not paid twice.

Nothing of an answer is kept, so a repeated request cannot have it: it is refused. A call that cost nothing frees its key. The
keys are in memory, the newest of them, and a restart forgets them.
"""

import hashlib
from collections import OrderedDict

from agentvm.errors import Conflict, InvalidInput, Unprocessable
from agentvm.model.ids import TenantId, UserId

KEYS_MAX = 10_000
"""Keys of all tenants that are remembered; each is about two hundred bytes."""
KEY_MAX = 200

_Name = tuple[TenantId, UserId | None, str]


class RelayKeys:
    """The keys that were used."""

    def __init__(self, most: int = KEYS_MAX) -> None:
        self._most = most
        self._used: OrderedDict[_Name, bytes] = OrderedDict()

    def take(self, tenant_id: TenantId, user_id: UserId | None, key: str, content: bytes) -> None:
        """Remembers a key. `Conflict` for a request that was sent before, `Unprocessable` for another one under its key."""
        if not 0 < len(key) <= KEY_MAX:
            raise InvalidInput(f"Idempotency-Key has 1 to {KEY_MAX} characters")
        name, digest = (tenant_id, user_id, key), hashlib.sha256(content).digest()
        if (earlier := self._used.get(name)) is not None:
            if earlier != digest:
                raise Unprocessable("This key was used for another request: another one has another key")
            raise Conflict(
                "This request was sent before under the same key, and its answer is not kept: send it with another key"
            )
        self._used[name] = digest
        if len(self._used) > self._most:
            self._used.popitem(last=False)

    def free(self, tenant_id: TenantId, user_id: UserId | None, key: str) -> None:
        """Forgets the key of a call that cost nothing."""
        self._used.pop((tenant_id, user_id, key), None)
