"""Large — room for large messages in the commit that all sessions share.

Small messages would otherwise wait for large ones of others: a commit of megabytes takes equally long for all.
"""

from contextlib import AbstractAsyncContextManager, nullcontext

from agentvm.model.ids import TenantId
from agentvm.model.message import UserContent, content_size
from agentvm.sharing.fair_slots import FairSlots

LARGE_BYTES = 16 * 1024
TOTAL_BYTES = 1024 * 1024
"""Size of the large messages that are being committed, half of it for one tenant."""

_SMALL = nullcontext()


class LargeMessages:
    """Shared by all agents of a process."""

    def __init__(self) -> None:
        self._bytes = FairSlots(TOTAL_BYTES, share=TOTAL_BYTES // 2)

    def room(self, tenant_id: TenantId, content: UserContent) -> AbstractAsyncContextManager[object]:
        """For a message until it is committed. Large ones wait for it, tenant by tenant; others do not."""
        size = content_size(content)
        return _SMALL if size < LARGE_BYTES else self._bytes.hold(tenant_id, size)
