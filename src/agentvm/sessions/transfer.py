"""Transfer — sessions of one principal's workspace out to a file, and in from one."""

import secrets as randomness
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import BinaryIO

import anyio
import anyio.to_thread

from agentvm.errors import (
    AgentVMError,
    ContainerForbidden,
    ContainerNotFound,
    InvalidInput,
    PermissionDenied,
    SessionNotFound,
    not_found,
)
from agentvm.log import get_logger
from agentvm.model.ids import ContainerId, SessionId, UserId, check_container_id
from agentvm.model.schedule import TriggerId, trigger_secret_name
from agentvm.model.signature import SECRET_BYTES, secret_of
from agentvm.sessions.archive import ExportFormat
from agentvm.sessions.container_lines import Importer
from agentvm.sessions.export import EXPORT_BYTES, ExportSource, Selection, export_archive
from agentvm.sessions.import_queue import ImportQueue
from agentvm.sessions.import_reader import Kind, Orders, Reading
from agentvm.sessions.intake import ImportReport, arrivals, destinations, plan, plan_items, report, stage, write
from agentvm.sessions.people import HTML, MARKDOWN, export_pages
from agentvm.sessions.staged import Staged
from agentvm.sessions.workspace import Workspace
from agentvm.sharing.byte_budget import ByteBudget
from agentvm.sharing.reservation import ResponseReservation

COUNT_SECONDS = 10.0
"""An export that ends waits this long until its bytes are counted."""

logger = get_logger(__name__)


class SessionExport:
    """One export: the selected sessions, and their size."""

    def __init__(self, workspace: Workspace, memory: ByteBudget) -> None:
        self._workspace, self._memory = workspace, memory
        self.source = ExportSource(workspace.store, workspace.tenancy.store.carrier(workspace.tenant_id))

    async def select(self, *, session: str | None, container: str | None, user: str | None) -> list[Selection]:
        """Returns a session, those of a container or of a user, or all that the principal may use."""
        store = self._workspace.store
        if sum(name is not None for name in (session, container, user)) > 1:
            raise InvalidInput("Provide only one of session, container and user")
        if session is not None:
            home = await store.find_session(SessionId(session))
            if home is None:
                raise SessionNotFound(session)
            return [Selection(home, SessionId(session))]
        if container is not None:
            container_id = check_container_id(container)
            if await store.container(container_id).get() is None:
                raise ContainerNotFound(container_id)
            return [Selection(container_id)]
        containers = await store.list_containers()
        if user is None:
            return [Selection(container_id) for container_id in containers]
        bound = await self._containers_of(user)
        return [Selection(container_id) for container_id in containers if container_id in bound]

    async def _containers_of(self, name: str) -> frozenset[ContainerId]:
        """Users may export their own containers; those of others need the permission to manage users."""
        principal, users = self._workspace.principal, self._workspace.accounts.users
        user = await users.get(UserId(name)) or await users.find(name)
        if user is None or user.user_id != principal.user_id:
            if not (principal.may("tenants:admin") or principal.may("system:admin")):
                raise PermissionDenied("tenants:admin")
            if user is None:
                raise not_found("User", name)
        return frozenset(await users.bound(user.user_id))

    def content(self, selected: list[Selection], form: ExportFormat) -> AsyncIterator[bytes]:
        """Returns the sessions as an archive, or as a page for reading."""
        if form == "archive":
            return export_archive(self.source, selected)
        return export_pages(self.source, selected, HTML if form == "html" else MARKDOWN)

    async def metered(self, content: AsyncIterator[bytes], size: int) -> AsyncGenerator[bytes, None]:
        """Returns the content, which counts towards the quota as it is sent. `QuotaExceeded` and `ServerBusy` come before."""
        workspace = self._workspace
        memory = ResponseReservation(self._memory, workspace.tenant_id, EXPORT_BYTES)
        hold = await workspace.tenancy.quotas.hold_export(workspace.tenant_id, workspace.user_id, size)
        began = workspace.clock()

        async def sent() -> AsyncGenerator[bytes, None]:
            try:
                async for chunk in content:
                    hold.spend(len(chunk))
                    yield chunk
            finally:
                hold.release()
                memory.release()
                # Also the bytes that a client got which left before the end.
                await self._count(hold.sent, began)

        return sent()

    async def _count(self, size: int, began: int) -> None:
        tenant_id = self._workspace.tenant_id
        with anyio.move_on_after(COUNT_SECONDS, shield=True):
            try:
                await self._workspace.tenancy.quotas.note_exported(tenant_id, size, began)
            except AgentVMError as error:
                logger.error("export_not_counted", tenant_id=tenant_id, bytes=size, code=error.code)


class SessionImport:
    """One import. `container_id` is the container that everything goes to; None for those that the file names."""

    def __init__(self, workspace: Workspace, queue: ImportQueue, container_id: ContainerId | None) -> None:
        self._workspace, self._queue = workspace, queue
        self._container_id = container_id
        if container_id is not None:
            self._check_reach(container_id)

    async def run(self, file: BinaryIO, kind: Kind, *, dry_run: bool) -> ImportReport:
        """Imports all of the file, or nothing."""
        workspace = self._workspace
        limits = workspace.runtime.settings_of(workspace.tenant_id).limits
        orders = Orders(
            kind=kind,
            container_id=self._container_id or self._only_container(),
            most_bytes=limits.import_bytes,
            most_attached=limits.attachment_bytes,
        )
        async with self._queue.turn(workspace.tenant_id):
            with tempfile.TemporaryFile() as spool:
                staged, reading = await stage(file, spool, orders, self._queue.process.read)
                return await self._place(staged, reading, dry_run=dry_run)

    async def _place(self, staged: Staged, reading: Reading, *, dry_run: bool) -> ImportReport:
        workspace, tenant_id = self._workspace, self._workspace.tenant_id
        carrier = workspace.tenancy.store.carrier(tenant_id)
        placement = await plan(staged, carrier, container_id=self._container_id, new_id=workspace.new_id)
        items = await plan_items(staged, carrier, placement, self._importer())
        summary = await anyio.to_thread.run_sync(lambda: report(staged, placement, reading, items, dry_run=dry_run))
        targets = destinations(staged, placement)
        await self._admit(targets, summary.bytes)
        added = False
        try:
            if not dry_run:
                self._queue.refuse_deleted(tenant_id, targets)
                await write(staged, placement, carrier, workspace.clock, items)
                added = True
        finally:
            if not added:
                with anyio.CancelScope(shield=True):
                    await workspace.free_storage(summary.bytes)
        if added:
            # Sessions that were here already may have got messages.
            workspace.runtime.histories.forget_all()
            for scope, event in await arrivals(staged, placement):
                workspace.runtime.broadcast(tenant_id, scope, event)
        return summary

    def _importer(self) -> Importer:
        workspace, tenant_id = self._workspace, self._workspace.tenant_id

        def seal(trigger_id: TriggerId) -> bytes:
            secret = secret_of(randomness.token_bytes(SECRET_BYTES))
            return workspace.tenancy.vault.seal(tenant_id, trigger_secret_name(trigger_id), secret)

        return Importer(tenant_id, workspace.principal, workspace.clock(), seal)

    async def _admit(self, targets: Mapping[ContainerId, int], size: int) -> None:
        """Checks the quotas, and that all containers are within the principal's reach."""
        workspace = self._workspace
        tenant, quotas = workspace.tenancy.store.tenant(workspace.tenant_id), workspace.accounts.quotas
        new_containers = 0
        for container_id, adding in targets.items():
            self._check_reach(container_id)
            store = tenant.container(container_id)
            new_containers += await store.get() is None

            async def count(images: int = len(await store.list_images())) -> int:
                return images

            await workspace.check_quota("images_per_container", count, adding)
        if new_containers:
            await workspace.check_quota("containers", quotas.count_containers, new_containers)
        if size:
            await workspace.check_storage(size)

    def _check_reach(self, container_id: ContainerId) -> None:
        if not self._workspace.principal.reaches(container_id):
            raise ContainerForbidden(container_id)

    def _only_container(self) -> ContainerId | None:
        """Returns the container of a principal that has just one."""
        containers = tuple(self._workspace.principal.containers or ())
        return ContainerId(containers[0]) if len(containers) == 1 else None
