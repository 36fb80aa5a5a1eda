"""Byte budget — bounds the bytes that all peers together, and each tenant, hold in memory or in temporary files.

Theory of operation. Bytes are reserved before they are read or built, and released when they are gone. A reservation never
waits: a caller that gets none refuses its peer, closes the connection or stops reading, so that no peer can make the process
grow. One tenant holds at most its share, and an eighth of the total is kept for tenants that hold little: two tenants with
all that their shares allow leave room for a third. Peers that have not authenticated share one share (`tenant_id` None).
"""

from collections import Counter

from agentvm.model.ids import TenantId

DEFAULT_TOTAL_BYTES = 256 * 1024 * 1024
DEFAULT_SHARE_BYTES = 128 * 1024 * 1024
SMALL_TENANTS_SHARE = 8
"""One part in this many is reserved for tenants that hold little."""
LITTLE_SHARE = 16
"""One part in this many is little. Half of the reserved part, so that one tenant cannot take all of it."""


class ByteBudget:
    """Bytes that are reserved now, in all and by tenant. Used from the event loop only."""

    def __init__(self, total_bytes: int = DEFAULT_TOTAL_BYTES, share_bytes: int = DEFAULT_SHARE_BYTES) -> None:
        self.total_bytes = total_bytes
        self._kept_bytes = total_bytes // SMALL_TENANTS_SHARE
        self._little_bytes = total_bytes // LITTLE_SHARE
        self.share_bytes = min(share_bytes, total_bytes - self._kept_bytes)
        self._reserved = 0
        self._by_tenant: Counter[TenantId | None] = Counter()

    @property
    def reserved(self) -> int:
        return self._reserved

    def reserved_by(self, tenant_id: TenantId | None) -> int:
        return self._by_tenant[tenant_id]

    def reserve(self, tenant_id: TenantId | None, size: int) -> bool:
        """Reserves the bytes, or returns False and reserves nothing."""
        own = self._by_tenant[tenant_id] + size
        room = self.total_bytes if own <= self._little_bytes else self.total_bytes - self._kept_bytes
        if own > self.share_bytes or self._reserved + size > room:
            return False
        self._reserved += size
        self._by_tenant[tenant_id] += size
        return True

    def release(self, tenant_id: TenantId | None, size: int) -> None:
        """Releases bytes that `reserve` allowed."""
        self._reserved -= size
        self._by_tenant[tenant_id] -= size
        if not self._by_tenant[tenant_id]:
            del self._by_tenant[tenant_id]
