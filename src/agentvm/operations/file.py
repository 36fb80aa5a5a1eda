"""Files of sessions — list, upload, download, delete. Their bytes go over HTTP; those of small files over a WebSocket, too."""

import io
import mimetypes
from collections.abc import AsyncIterator
from typing import BinaryIO

from agentvm.errors import InvalidInput, PreconditionFailed, QuotaExceeded, SessionNotFound
from agentvm.errors.cluster import SessionMoved
from agentvm.errors.file import FileMissing, FilePathInvalid
from agentvm.errors.tool import WorkspaceFull
from agentvm.model.base import Record, record_from
from agentvm.model.ids import MessageId, SessionId
from agentvm.model.session_file import SessionFile
from agentvm.operations.attachment import disposition
from agentvm.operations.forwarding import run_or_forward
from agentvm.operations.http_caching import CREDENTIAL, REVALIDATE, matches
from agentvm.operations.http_reply import HttpReply
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.pages import Limit, paged
from agentvm.protocol.bounds import Bound
from agentvm.protocol.requests import Reply, Request

operation = OperationGroup("files of sessions")

READ, WRITE = "sessions:read", "agent:use"
_ALL = "/v1/sessions/{session_id}/files"
_ONE = f"{_ALL}/{{path:path}}"
FILE_MAX_BYTES = 1024**3
"""Maximum of one upload, also with a larger `limits.sessionFilesBytes`."""
FRAME_MAX_BYTES = 4 * 1024 * 1024
"""Size of a file in a frame, which is in memory several times while it is read."""
_DEFAULT_TYPE = "application/octet-stream"
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    # Should a browser show it all the same, the page has no origin.
    "Content-Security-Policy": "sandbox; default-src 'none'",
}


class FileListReply(Reply):
    files: tuple[SessionFile, ...]
    next_cursor: str | None = None


class FileList(Request[FileListReply]):
    """`under` is a folder. `cursor` is the `nextCursor` of the previous page."""

    session_id: SessionId
    under: str = ""
    cursor: str | None = None
    limit: Limit = 100


@operation(
    "file.list",
    needs=READ,
    command=True,
    http=Http("GET", _ALL, id="files_list_all", items="files", names=(None, "SessionFilesPage")),
    raises=(SessionNotFound, FilePathInvalid),
)
async def list_of_session(context: Context, request: FileList) -> FileListReply:
    """List the files of a session in the order of their paths."""
    files = await context.session_files.list(request.session_id, request.under, request.cursor or "", request.limit + 1)
    page = paged(files, request.limit, lambda index: files[index].path)
    return FileListReply(files=tuple(page.items), next_cursor=page.next_cursor)


class FileGetReply(Reply):
    file: SessionFile


class FileGet(Request[FileGetReply]):
    session_id: SessionId
    path: str


@operation("file.get", needs=READ, command=True)
async def get(context: Context, request: FileGet) -> FileGetReply:
    """Show the record of a file. Fails with `file_not_found`."""
    return FileGetReply(file=await context.session_files.find(request.session_id, request.path))


class FileVersion(Record):
    """A state of a file. `digest` is absent where it was deleted, `messageId` for a change that came with no message."""

    digest: str | None = None
    size: int = 0
    executable: bool = False
    changed_at: int
    message_id: MessageId | None = None


class FileVersionsReply(Reply):
    path: str
    versions: tuple[FileVersion, ...]


class FileVersions(Request[FileVersionsReply]):
    session_id: SessionId
    path: str
    limit: Limit = 100


@operation(
    "file.versions",
    needs=READ,
    command=True,
    http=Http(
        "GET",
        "/v1/sessions/{session_id}/file-versions",
        id="files_versions",
        items="versions",
        names=(None, "FileVersionsView"),
    ),
    raises=(SessionNotFound, FilePathInvalid),
)
async def versions(context: Context, request: FileVersions) -> FileVersionsReply:
    """List the states that a file of a session had, the newest first.

    One for each message that changed the file; changes that were rewound are left out.
    """
    deltas = await context.session_files.versions(request.session_id, request.path, request.limit)
    states = [
        record_from(FileVersion, change, changed_at=delta.at, message_id=delta.message_id)
        for delta in deltas
        for change in delta.changes
    ]
    return FileVersionsReply(path=request.path, versions=tuple(states))


class FileDownload(Request[None]):
    """`digest` names an earlier state of the file."""

    session_id: SessionId
    path: str
    digest: str | None = None


@operation(
    "file.download",
    needs=READ,
    http=Http("GET", _ONE, head=True, media_type="*/*", statuses=(200, 304)),
    discloses=True,
    raises=(SessionNotFound, FileMissing, FilePathInvalid),
)
async def download(context: Context, request: FileDownload) -> HttpReply[AsyncIterator[bytes] | None]:
    """Download a file of a session."""
    file = await _find(context, request.session_id, request.path, request.digest)
    headers = {
        **_HEADERS,
        "ETag": f'"{file.digest}"',
        "Cache-Control": REVALIDATE,
        "Vary": CREDENTIAL,
        "Content-Disposition": disposition(file.path.rpartition("/")[2]),
    }
    if context.http.if_none_match is not None and matches(context.http.if_none_match, file.digest):
        return HttpReply(content=None, status=304, headers=headers)
    media_type = mimetypes.guess_type(file.path)[0] or _DEFAULT_TYPE
    headers |= {"Content-Length": str(file.size), "Content-Type": media_type}
    content = await context.session_files.read(request.session_id, file)
    return HttpReply(content=content, media_type=media_type, headers=headers)


class FileReadReply(Reply):
    """`data` is base64."""

    file: SessionFile
    data: bytes


class FileRead(Request[FileReadReply]):
    """`digest` names an earlier state of the file."""

    session_id: SessionId
    path: str
    digest: str | None = None


@operation("file.read", needs=READ, command=True, discloses=True)
async def read(context: Context, request: FileRead) -> FileReadReply:
    """Download a file of a session, of up to 4 MiB.

    A larger one is downloaded over HTTP. Fails with `file_not_found`, `invalid_input`.
    """
    file = await _find(context, request.session_id, request.path, request.digest)
    if file.size > FRAME_MAX_BYTES:
        raise InvalidInput(f"{request.path} has {file.size:,} bytes, more than a frame holds; download it over HTTP")
    data = b"".join([piece async for piece in await context.session_files.read(request.session_id, file)])
    return FileReadReply(file=file, data=data)


async def _find(context: Context, session_id: SessionId, path: str, digest: str | None) -> SessionFile:
    files = context.session_files
    return await (files.find(session_id, path) if digest is None else files.find_version(session_id, path, digest))


class FilePut(Request[SessionFile]):
    session_id: SessionId
    path: str
    executable: bool = False


def _check_size(context: Context, size: int) -> None:
    limit = context.vm.runtime.settings_of(context.tenant_id).limits.session_files_bytes
    if size > limit:
        raise WorkspaceFull(f"The files of a session have at most {limit:,} bytes here (limits.sessionFilesBytes)")


@operation(
    "file.put",
    needs=WRITE,
    http=Http(
        "PUT",
        _ONE,
        query=("executable",),
        body="file",
        max_body_bytes=FILE_MAX_BYTES,
        guard=_check_size,
        statuses=(200, 201),
    ),
    audit="file.write",
    raises=(SessionNotFound, FilePathInvalid, PreconditionFailed, WorkspaceFull, QuotaExceeded),
)
async def put(context: Context, request: FilePut) -> HttpReply[SessionFile]:
    """Write a file of a session: the body is its bytes.

    The file is created (201) or replaced (200). With `If-Match` only if it has the bytes of that ETag, with `If-None-Match: *`
    only if there is none. Rewinding the session to before its current last message reverts the change.
    """
    if context.http.file is None:
        raise InvalidInput("The request has no body")
    library = context.session_files
    try:
        async with library.writing(request.session_id):
            before = await library.get(request.session_id, request.path)
            _check_conditions(context, request.path, before)
            file = await library.put(request.session_id, request.path, context.http.file, executable=request.executable)
    except SessionMoved:
        file = await _put_elsewhere(context, request, context.http.file)
    context.target = f"{request.session_id}/{file.path}"
    headers = {"ETag": f'"{file.digest}"'}
    return HttpReply(content=file, status=201 if before is None else 200, headers=headers)


class FileWriteReply(Reply):
    file: SessionFile


class FileWrite(Request[FileWriteReply]):
    """`data` is base64."""

    bound = Bound(max_bytes=FRAME_MAX_BYTES * 3 // 2, max_values=50)
    session_id: SessionId
    path: str
    data: bytes
    executable: bool = False


@operation("file.write", needs=WRITE, command=True, audit="file.write")
async def write(context: Context, request: FileWrite) -> FileWriteReply:
    """Write a file of a session, of up to 4 MiB: it is created, or replaced.

    A larger one is uploaded over HTTP. Fails with `workspace_full`, `file_path_invalid`, `quota_exceeded`, `invalid_input`.
    """
    if len(request.data) > FRAME_MAX_BYTES:
        raise InvalidInput(f"data has more than {FRAME_MAX_BYTES:,} bytes; upload the file over HTTP")
    _check_size(context, len(request.data))
    library = context.session_files
    async with library.writing(request.session_id):
        file = await library.put(request.session_id, request.path, io.BytesIO(request.data), executable=request.executable)
    context.target = f"{request.session_id}/{file.path}"
    return FileWriteReply(file=file)


_WRITE = operation.rows[-1]


async def _put_elsewhere(context: Context, request: FilePut, body: BinaryIO) -> SessionFile:
    """Has the file written by the node that runs a turn of the session, if a frame holds it. `SessionMoved` otherwise."""
    if body.seek(0, io.SEEK_END) > FRAME_MAX_BYTES:
        raise SessionMoved(request.session_id, None)
    body.seek(0)
    whole = FileWrite(session_id=request.session_id, path=request.path, data=body.read(), executable=request.executable)
    written: FileWriteReply = await run_or_forward(_WRITE, context, whole)
    return written.file


class FileDeleteReply(Reply):
    path: str


class FileDelete(Request[FileDeleteReply]):
    session_id: SessionId
    path: str


@operation(
    "file.delete",
    needs=WRITE,
    command=True,
    http=Http("DELETE", _ONE),
    audit="file.delete",
    raises=(SessionNotFound, FileMissing, FilePathInvalid, PreconditionFailed),
)
async def delete(context: Context, request: FileDelete) -> FileDeleteReply:
    """Delete a file of a session. With `If-Match` only if it has the bytes of that ETag."""
    library = context.session_files
    async with library.writing(request.session_id):
        file = await library.find(request.session_id, request.path)
        _check_conditions(context, request.path, file)
        context.target = f"{request.session_id}/{file.path}"
        await library.delete(request.session_id, file.path)
    return FileDeleteReply(path=file.path)


class FileArchive(Request[None]):
    session_id: SessionId


@operation(
    "file.archive",
    needs=READ,
    http=Http("GET", "/v1/sessions/{session_id}/archive", media_type="application/zip"),
    audit="file.archive",
    raises=(SessionNotFound,),
)
async def archive(context: Context, request: FileArchive) -> HttpReply[AsyncIterator[bytes]]:
    """Download all files of a session as a ZIP. It is streamed."""
    context.target = request.session_id
    content = await context.session_files.archive(request.session_id)
    headers = {**_HEADERS, "Content-Disposition": disposition(f"{request.session_id}.zip")}
    return HttpReply(content=content, media_type="application/zip", headers=headers)


def _check_conditions(context: Context, path: str, file: SessionFile | None) -> None:
    digest = None if file is None else file.digest
    if_match, if_none_match = context.http.if_match, context.http.if_none_match
    is_changed = if_match is not None and (digest is None or not matches(if_match, digest))
    if is_changed or (if_none_match is not None and digest is not None and matches(if_none_match, digest)):
        state = "does not exist" if digest is None else f"has the ETag {digest}"
        raise PreconditionFailed(f"{path} {state}; read it again, then repeat the change")
