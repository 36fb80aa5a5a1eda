"""Carrying — `/v1/export` and `/v1/import`: sessions from one server to another, and pages of them for people."""

import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager
from typing import Final, Literal

import anyio
import anyio.to_thread
import msgspec

from agentvm.errors import (
    AgentVMError,
    ContainerForbidden,
    ContainerNotFound,
    InvalidInput,
    NotFound,
    PermissionDenied,
    QuotaExceeded,
    SessionNotFound,
)
from agentvm.errors.archive import ArchiveInvalid, ArchiveTooLarge
from agentvm.errors.bounds import ServerBusy
from agentvm.log import get_logger
from agentvm.model.ids import ContainerId, SessionId, UserId, check_container_id
from agentvm.server.http.route import Answer, Ask, Given, Nothing, Routes
from agentvm.sessions.archive import MAX_ARCHIVE
from agentvm.sessions.export import EXPORT_BYTES, Source, Wanted, export_archive
from agentvm.sessions.import_reader import Kind, Orders, Reading
from agentvm.sessions.intake import ImportReport, arrivals, destinations, plan, report, stage, write
from agentvm.sessions.people import HTML, MARKDOWN, export_pages
from agentvm.sessions.staged import Staged
from agentvm.sharing.response_reservation import ResponseReservation
from agentvm.tenants.export_hold import ExportHold
from agentvm.tenants.scoped_store import ScopedStore

routes = Routes()

Format = Literal["archive", "markdown", "html"]
_FORMS: Final[dict[Format, tuple[str, str]]] = {
    "archive": ("application/zip", "sessions.zip"),
    "markdown": ("text/markdown; charset=utf-8", "sessions.md"),
    "html": ("text/html; charset=utf-8", "sessions.html"),
}
NOTE_SECONDS = 10.0
"""How long an export that ends waits until it is noted."""

logger = get_logger(__name__)


class ExportGiven(Given):
    """At most one of `session`, `container` and `user`; without any, everything that the asker reaches."""

    session: str | None = None
    container: str | None = None
    user: str | None = None
    format: Format = "archive"


class ImportGiven(Given):
    """`container` is where everything goes; an archive of ours knows it otherwise.

    `from` is who wrote the file: `auto` finds it out.
    """

    container: str | None = None
    from_: Kind = msgspec.field(default="auto", name="from")
    dry_run: bool = False


@routes.add(
    "GET", "/v1/export", needs=("sessions:export",), takes=ExportGiven, action="session.export", media_type="application/zip",
    raises=(NotFound, QuotaExceeded, ServerBusy),
)  # fmt: skip
async def export(ask: Ask[ExportGiven]) -> Answer[AsyncIterator[bytes]]:
    """Export sessions: one, a container's, a user's, or all of them.

    As an archive that can be imported elsewhere, or as a page for people. It is sent as it is made. The same sessions give the
    same bytes.
    """
    given = ask.given
    ask.target = given.session or given.container or given.user or "*"
    source = Source(
        ScopedStore(ask.tenancy.store.tenant(ask.tenant_id), ask.principal), ask.tenancy.store.carrier(ask.tenant_id)
    )
    wanted = await _wanted(ask, source)
    size = await source.measure(wanted)
    room = ResponseReservation(ask.vm.exporting, ask.tenant_id, EXPORT_BYTES)
    hold = await ask.tenancy.quotas.hold_export(ask.tenant_id, ask.principal.user_id, size)
    if given.format == "archive":
        content = export_archive(source, wanted)
    else:
        content = export_pages(source, wanted, HTML if given.format == "html" else MARKDOWN)
    media_type, name = _FORMS[given.format]
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "X-Content-Type-Options": "nosniff",
        # About how much will come: for those who show how far it is.
        "X-AgentVM-Estimated-Bytes": str(size),
        # Should a browser show it all the same, it is a page of nobody.
        "Content-Security-Policy": "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'",
    }
    return Answer(content=_counted(ask, content, hold, room), media_type=media_type, headers=headers)


async def _counted(
    ask: Ask[ExportGiven], content: AsyncIterator[bytes], hold: ExportHold, room: ResponseReservation
) -> AsyncIterator[bytes]:
    quotas, tenant_id, began = ask.tenancy.quotas, ask.tenant_id, ask.vm.clock()
    try:
        async for chunk in content:
            hold.spend(len(chunk))
            yield chunk
    finally:
        hold.release()
        room.release()
        # Also what somebody has who went away in the middle of it.
        with anyio.move_on_after(NOTE_SECONDS, shield=True):
            try:
                await quotas.note_exported(tenant_id, hold.sent, began)
            except AgentVMError as error:
                logger.error("export_not_counted", tenant_id=tenant_id, bytes=hold.sent, code=error.code)


async def _wanted(ask: Ask[ExportGiven], source: Source) -> list[Wanted]:
    given = ask.given
    if sum(one is not None for one in (given.session, given.container, given.user)) > 1:
        raise InvalidInput("Give one of session, container and user")
    if given.session is not None:
        found = await source.store.find_session(SessionId(given.session))
        if found is None:
            raise SessionNotFound(given.session)
        return [Wanted(found, SessionId(given.session))]
    if given.container is not None:
        container_id = check_container_id(given.container)
        if await source.store.container(container_id).get() is None:
            raise ContainerNotFound(container_id)
        return [Wanted(container_id)]
    there = await source.store.list_containers()
    if given.user is None:
        return [Wanted(container_id) for container_id in there]
    bound = await _bound(ask, given.user)
    return [Wanted(container_id) for container_id in there if container_id in bound]


async def _bound(ask: Ask[ExportGiven], named: str) -> frozenset[ContainerId]:
    """What belongs to a user: for themselves, and for those who manage users."""
    users = ask.accounts.users
    user = await users.get(UserId(named)) or await users.find(named)
    if user is None or user.user_id != ask.principal.user_id:
        if not (ask.principal.may("tenants:admin") or ask.principal.may("system:admin")):
            raise PermissionDenied("tenants:admin")
        if user is None:
            raise NotFound("There is no such user")
    return frozenset(await users.bound(user.user_id))


def _receiving(ask: Ask[Nothing]) -> AbstractContextManager[Callable[[int], None]]:
    return ask.vm.imports.receiving(ask.tenant_id)


@routes.add(
    "POST", "/v1/import", needs=("images:write",), takes=Nothing, query=ImportGiven, body="file", most_body=MAX_ARCHIVE,
    receiving=_receiving, action="session.import",
    raises=(ArchiveInvalid, ArchiveTooLarge, ContainerForbidden, QuotaExceeded, ServerBusy),
)  # fmt: skip
async def import_(ask: Ask[Nothing]) -> ImportReport:
    """Import sessions: an archive of ours, or what ChatGPT, Claude or Open WebUI exported.

    All of it, or nothing; what is here already is not imported again. Ids are kept if they are free; otherwise they are
    replaced, and the answer says so.
    """
    query: ImportGiven = ask.query
    container_id = None if query.container is None else check_container_id(query.container)
    ask.target = container_id or "*"
    if ask.file is None:
        raise InvalidInput("There is nothing to import")
    if container_id is not None:
        _check_reach(ask, container_id)
    limits = ask.vm.runtime.settings_of(ask.tenant_id).limits
    orders = Orders(
        kind=query.from_,
        container_id=container_id or _only(ask),
        most_bytes=limits.import_bytes,
        most_attached=limits.attachment_bytes,
    )
    async with ask.vm.imports.turn(ask.tenant_id):
        with tempfile.TemporaryFile() as spool:
            staged, reading = await stage(ask.file, spool, orders, ask.vm.imports.process.read)
            return await _take_in(ask, staged, reading, container_id)


def _only(ask: Ask[Nothing]) -> ContainerId | None:
    """The container of somebody who has one."""
    containers = tuple(ask.principal.containers or ())
    return ContainerId(containers[0]) if len(containers) == 1 else None


async def _take_in(ask: Ask[Nothing], staged: Staged, reading: Reading, container_id: ContainerId | None) -> ImportReport:
    query: ImportGiven = ask.query
    vm, carrier = ask.vm, ask.tenancy.store.carrier(ask.tenant_id)
    placement = await plan(staged, carrier, container_id=container_id, new_id=vm.new_id)
    told = await anyio.to_thread.run_sync(lambda: report(staged, placement, reading, dry_run=query.dry_run))
    await _admit(ask, destinations(staged, placement), told.bytes)
    added = False
    try:
        if not query.dry_run:
            vm.imports.refuse_deleted(ask.tenant_id, destinations(staged, placement))
            await write(staged, placement, carrier, vm.clock)
            added = True
    finally:
        if not added:
            # What was not added does not count.
            with anyio.CancelScope(shield=True):
                await ask.tenancy.quotas.count(ask.tenant_id, ask.principal.user_id, "storage_bytes", -told.bytes)
    if added:
        # It may have gone on with sessions that are here.
        vm.runtime.histories.forget_all()
        for scope, event in await arrivals(staged, placement):
            vm.runtime.tell(ask.tenant_id, scope, event)
    return told


def _check_reach(ask: Ask[Nothing], container_id: ContainerId) -> None:
    if not ask.principal.reaches(container_id):
        raise ContainerForbidden(container_id)


async def _admit(ask: Ask[Nothing], targets: Mapping[ContainerId, int], size: int) -> None:
    """Whether there is room for it, and whether all of it goes where the asker may write."""
    tenant, user, quotas = ask.tenancy.store.tenant(ask.tenant_id), ask.principal.user_id, ask.tenancy.quotas
    new = 0
    for target, adding in targets.items():
        _check_reach(ask, target)
        store = tenant.container(target)
        new += await store.get() is None

        async def count(images: int = len(await store.list_images())) -> int:
            return images

        await quotas.check(ask.tenant_id, user, "images_per_container", count, adding)
    if new:
        await quotas.check(ask.tenant_id, user, "containers", ask.accounts.quotas.count_containers, new)
    if size:
        await quotas.check(ask.tenant_id, user, "storage_bytes", ask.accounts.quotas.storage_bytes, size)
