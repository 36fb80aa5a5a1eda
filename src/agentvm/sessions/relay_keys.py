"""Relay keys — the keys under which clients have sent relayed requests, so that a repeated one is not paid twice.

Nothing of an answer is kept, so a repeated request cannot have it: it is refused. A call that cost nothing frees its key. The
newest keys of each tenant are kept in memory, so that no tenant pushes out those of another; a restart forgets them.
"""

import hashlib
from collections import OrderedDict

from agentvm.errors import Conflict, Unprocessable
from agentvm.model.ids import TenantId, UserId

KEYS_PER_TENANT_MAX = 1_000
"""Keys of one tenant that are remembered; each is about two hundred bytes."""
TENANTS_MAX = 1_000
"""Tenants whose keys are remembered: those that relayed a request last."""

_Name = tuple[UserId | None, str]


class RelayKeys:
    """The keys that were used."""

    def __init__(self, keys_max: int = KEYS_PER_TENANT_MAX, tenants_max: int = TENANTS_MAX) -> None:
        self._keys_max = keys_max
        self._tenants_max = tenants_max
        self._used: OrderedDict[TenantId, OrderedDict[_Name, bytes]] = OrderedDict()

    def take(self, tenant_id: TenantId, user_id: UserId | None, key: str, content: bytes) -> None:
        """Remembers a key. `Conflict` for a request that was sent before, `Unprocessable` for another one under its key."""
        name, digest = (user_id, key), hashlib.sha256(content).digest()
        used = self._used.setdefault(tenant_id, OrderedDict())
        self._used.move_to_end(tenant_id)
        if (earlier := used.get(name)) is not None:
            if earlier != digest:
                raise Unprocessable("This key was used for another request: another one has another key")
            raise Conflict(
                "This request was sent before under the same key, and its answer is not kept: send it with another key"
            )
        used[name] = digest
        if len(used) > self._keys_max:
            used.popitem(last=False)
        if len(self._used) > self._tenants_max:
            self._used.popitem(last=False)

    def free(self, tenant_id: TenantId, user_id: UserId | None, key: str) -> None:
        """Forgets the key of a call that cost nothing."""
        if (used := self._used.get(tenant_id)) is not None:
            used.pop((user_id, key), None)
