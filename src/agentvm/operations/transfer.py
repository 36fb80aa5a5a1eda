"""Import and export — sessions from one server to another, and as pages for reading."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from typing import Final

import msgspec

from agentvm.errors import ContainerForbidden, InvalidInput, NotFound, QuotaExceeded
from agentvm.errors.archive import ArchiveInvalid, ArchiveTooLarge
from agentvm.errors.bounds import ServerBusy
from agentvm.model.ids import SessionId, check_container_id
from agentvm.operations.http_reply import HttpReply
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.protocol.requests import Request
from agentvm.sessions.archive import ARCHIVE_MAX_BYTES, ExportFormat
from agentvm.sessions.import_reader import Kind
from agentvm.sessions.intake import ImportReport

operation = OperationGroup("import and export")

_FORMS: Final[dict[ExportFormat, tuple[str, str]]] = {
    "archive": ("application/zip", "sessions.zip"),
    "markdown": ("text/markdown; charset=utf-8", "sessions.md"),
    "html": ("text/html; charset=utf-8", "sessions.html"),
}
"""The media type and the file name of each format."""


class TransferExport(Request[None]):
    """At most one of `session`, `container` and `user`; without any, everything that you may use."""

    session_id: SessionId | None = None
    container_id: str | None = None
    user: str | None = None
    format: ExportFormat = "archive"


@operation(
    "transfer.export",
    needs="sessions:export",
    http=Http("GET", "/v1/export", id="carrying_export", media_type="application/zip"),
    audit="session.export",
    raises=(NotFound, QuotaExceeded, ServerBusy),
)
async def export(context: Context, request: TransferExport) -> HttpReply[AsyncIterator[bytes]]:
    """Export sessions: one, those of a container or of a user, or all.

    As an archive that can be imported elsewhere, or as a page for reading. It is streamed. The same sessions give the same
    bytes.
    """
    context.target = request.session_id or request.container_id or request.user or "*"
    outgoing = context.session_export()
    selected = await outgoing.select(session=request.session_id, container=request.container_id, user=request.user)
    size = await outgoing.source.measure(selected)
    content = await outgoing.metered(outgoing.content(selected, request.format), size)
    media_type, name = _FORMS[request.format]
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "X-Content-Type-Options": "nosniff",
        # For a progress bar.
        "X-AgentVM-Estimated-Bytes": str(size),
        # A browser that shows it all the same gives it no rights.
        "Content-Security-Policy": "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'",
    }
    return HttpReply(content=content, media_type=media_type, headers=headers)


class TransferImport(Request[ImportReport]):
    """`container` is the container that everything goes to; an archive of AgentVM names its own.

    `from` is the program that wrote the file, by default `auto`.
    """

    container_id: str | None = None
    from_: Kind = msgspec.field(default="auto", name="from")
    dry_run: bool = False


def _receiving(context: Context) -> AbstractContextManager[Callable[[int], None]]:
    return context.vm.imports.receiving(context.tenant_id)


@operation(
    "transfer.import",
    needs="images:write",
    http=Http(
        "POST",
        "/v1/import",
        id="carrying_import_",
        query=("container_id", "from_", "dry_run"),
        body="file",
        max_body_bytes=ARCHIVE_MAX_BYTES,
        receiving=_receiving,
    ),
    audit="session.import",
    raises=(ArchiveInvalid, ArchiveTooLarge, ContainerForbidden, QuotaExceeded, ServerBusy),
)
async def import_(context: Context, request: TransferImport) -> ImportReport:
    """Import sessions: an archive of AgentVM, or an export of ChatGPT, Claude or Open WebUI.

    All of it, or nothing; existing sessions are not imported again. Ids are kept if they are free; otherwise they are replaced,
    and the response lists them.
    """
    container_id = None if request.container_id is None else check_container_id(request.container_id)
    context.target = container_id or "*"
    if context.http.file is None:
        raise InvalidInput("The request has no file to import")
    return await context.session_import(container_id).run(context.http.file, request.from_, dry_run=request.dry_run)
