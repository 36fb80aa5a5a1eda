"""RPC files — the files of a session as AgentX 2.x reads them: one folder at a time, and texts only."""

import io
from collections.abc import AsyncIterator
from typing import cast

from agentvm.errors import InvalidInput
from agentvm.model.ids import SessionId
from agentvm.operations.context import Context
from agentvm.operations.file import FileDownload, FileList, FilePut
from agentvm.operations.gate import execute
from agentvm.operations.http_reply import HttpReply
from agentvm.operations.table import BY_NAME

LISTED_MAX = 1_000
"""Files of one folder, with those below it."""
READ_MAX_BYTES = 1024 * 1024
"""A file is in memory several times while it becomes one frame."""
_LIST, _DOWNLOAD, _PUT = BY_NAME["file.list"], BY_NAME["file.download"], BY_NAME["file.put"]


async def list_files(context: Context, session_id: SessionId, path: str) -> list[dict[str, str]]:
    """Returns the files and folders of a folder; nothing if there is no such folder."""
    under = _inside(path)
    request = FileList(session_id=session_id, under=under, limit=LISTED_MAX)
    reply = await execute(_LIST, context, request)
    entries: dict[str, str] = {}
    for file in reply.files:
        name, _, rest = file.path.removeprefix(f"{under}/" if under else "").partition("/")
        entries.setdefault(name, "directory" if rest else "file")
    start = f"{under}/" if under else ""
    return [{"name": name, "path": start + name, "type": kind} for name, kind in sorted(entries.items())]


async def read_file(context: Context, session_id: SessionId, path: str) -> str:
    download = await execute(_DOWNLOAD, context, FileDownload(session_id=session_id, path=_inside(path)))
    reply = cast(HttpReply[AsyncIterator[bytes] | None], download)
    if int(reply.headers["Content-Length"]) > READ_MAX_BYTES:
        raise InvalidInput(f"{path} has more than {READ_MAX_BYTES:,} bytes; download it over HTTP")
    data = b"".join([piece async for piece in reply.content]) if reply.content is not None else b""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not a text; download it over HTTP") from None


async def write_file(context: Context, session_id: SessionId, path: str, content: str) -> None:
    context.http.file = io.BytesIO(content.encode())
    await execute(_PUT, context, FilePut(session_id=session_id, path=_inside(path)))


def _inside(path: str) -> str:
    return path.removeprefix("./").strip("/") if path != "." else ""
