"""Session files — reads and writes the bytes of a session's files over HTTP."""

from pathlib import Path

import httpx2
import msgspec

from agentvm.client.attachments import blocks_of, exchange_file
from agentvm.model.secret import Secret
from agentvm.model.session_file import SessionFile


async def read(url: str, session_id: str, path: str, *, key: Secret | None = None) -> bytes:
    """Returns the bytes of a file; raises `FileMissing` if the session does not have it."""
    response = await exchange_file(url, "file.download", (session_id, path), {}, key=key)
    return response.content


async def write(
    url: str, session_id: str, path: str, content: Path | bytes, *, key: Secret | None = None, executable: bool = False
) -> SessionFile:
    """Creates a file of a session, or replaces it."""
    body = content if isinstance(content, bytes) else blocks_of(content)
    fields = {"executable": executable or None}
    response: httpx2.Response = await exchange_file(url, "file.put", (session_id, path), fields, key=key, content=body)
    return msgspec.json.decode(response.content, type=SessionFile)
