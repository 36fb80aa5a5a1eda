"""Import queue — bounds the resources of all imports of a server at a time: bytes on the disk, processes, and turns of a
tenant.

Theory of operation. While a file is being received its bytes are reserved, within a share per tenant. Then the import waits for
its turn: one import of a tenant runs at a time, and few of all tenants. Each tenant has at most one import in the common queue,
so no tenant waits behind several imports of another. An import that finds the queue too long, or waits too long, is refused.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

import anyio

from agentvm.errors import Conflict
from agentvm.errors.bounds import ServerBusy
from agentvm.events.base import Event
from agentvm.events.lifecycle import ContainerDeleted
from agentvm.model.ids import ContainerId, TenantId
from agentvm.sessions.import_process import ImportProcess
from agentvm.sharing.byte_budget import ByteBudget
from agentvm.sharing.keyed_lock import KeyedLock

RUNNING_MAX = 2
"""Imports that run at a time."""
QUEUED_MAX = 32
TENANT_QUEUED_MAX = 4
"""Imports that run or wait, of all tenants and of one."""
QUEUE_SECONDS = 60.0
"""Timeout of waiting in the queue."""
UPLOAD_BYTES = 2 * 1024 * 1024 * 1024
"""Bytes of all files that are received or wait to be read."""
UPLOAD_SHARE_BYTES = 1024 * 1024 * 1024
"""The same of one tenant."""

BUSY = "Too many imports are running or waiting; try again in a minute"


class ImportQueue:
    """The imports of one server, and an effector. Used from the event loop only."""

    kinds = (ContainerDeleted,)

    def __init__(
        self,
        process: ImportProcess | None = None,
        *,
        at_once: int = RUNNING_MAX,
        queue_seconds: float = QUEUE_SECONDS,
        uploads: ByteBudget | None = None,
    ) -> None:
        self.process = process or ImportProcess()
        self._uploads = uploads or ByteBudget(UPLOAD_BYTES, UPLOAD_SHARE_BYTES)
        self._slots = anyio.Semaphore(at_once)
        self._queue_seconds = queue_seconds
        self._queued: Counter[TenantId] = Counter()
        self._turns = KeyedLock[TenantId]()
        self._receiving: Counter[TenantId] = Counter()
        self._deleted: dict[TenantId, set[ContainerId]] = {}
        """Containers that were deleted while a file for their tenant was being received or waited."""

    def react(self, event: Event) -> None:
        if isinstance(event.data, ContainerDeleted) and self._receiving[event.tenant_id]:
            self._deleted.setdefault(event.tenant_id, set()).add(event.data.container_id)

    def refuse_deleted(self, tenant_id: TenantId, containers: Iterable[ContainerId]) -> None:
        """Raises `Conflict` for a container that was deleted since the upload began, so that it is not created again."""
        for container_id in self._deleted.get(tenant_id, set()).intersection(containers):
            raise Conflict(f"The container {container_id} was deleted in the meantime; nothing was imported")

    @contextmanager
    def receiving(self, tenant_id: TenantId) -> Iterator[Callable[[int], None]]:
        """Yields a function to call with the size of the file so far: `ServerBusy` when there is no room for it."""
        reserved = 0

        def grow(size: int) -> None:
            nonlocal reserved
            if size <= reserved:
                return
            if not self._uploads.reserve(tenant_id, size - reserved):
                raise ServerBusy("Too much is being uploaded for import at the moment; try again in a minute")
            reserved = size

        self._check(tenant_id)
        self._receiving[tenant_id] += 1
        try:
            yield grow
        finally:
            self._uploads.release(tenant_id, reserved)
            self._receiving[tenant_id] -= 1
            if not self._receiving[tenant_id]:
                del self._receiving[tenant_id]
                self._deleted.pop(tenant_id, None)

    @asynccontextmanager
    async def turn(self, tenant_id: TenantId) -> AsyncIterator[None]:
        """Waits for the tenant's turn; `ServerBusy` when the queue is full, or after the timeout."""
        self._check(tenant_id)
        self._queued[tenant_id] += 1
        try:
            async with AsyncExitStack() as stack:
                try:
                    with anyio.fail_after(self._queue_seconds):
                        await stack.enter_async_context(self._turns.hold(tenant_id))
                        await stack.enter_async_context(self._slots)
                except TimeoutError:
                    raise ServerBusy(BUSY) from None
                yield
        finally:
            self._queued[tenant_id] -= 1
            if not self._queued[tenant_id]:
                del self._queued[tenant_id]

    def _check(self, tenant_id: TenantId) -> None:
        if self._queued[tenant_id] >= TENANT_QUEUED_MAX or self._queued.total() >= QUEUED_MAX:
            raise ServerBusy(BUSY)
