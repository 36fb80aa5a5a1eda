"""Attachments — uploads a file to a server, so that messages can refer to it."""

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import httpx2
import msgspec

from agentvm.errors import ChannelClosed, ConfigInvalid, from_code
from agentvm.model.address import is_loopback
from agentvm.model.secret import Secret
from agentvm.operations.modules import http_face
from agentvm.protocol.records import AttachmentRecord

BLOCK_BYTES = 1 << 18
TIMEOUT_SECONDS = 600.0


async def upload(
    url: str,
    file: Path | bytes,
    *,
    media_type: str,
    key: Secret | None = None,
    container_id: str | None = None,
    name: str | None = None,
) -> AttachmentRecord:
    """Uploads a file to the server at `url`. Uploading the same file again returns the same record.

    `record.attachment` is the `data` of a message part that refers to it.
    """
    address = _http(url)
    name = name or (file.name if isinstance(file, Path) else None)
    call = http_face("attachment.upload").call((), {"container_id": container_id, "name": name})
    headers = {"Content-Type": media_type}
    if key is not None:
        headers["Authorization"] = f"Bearer {key.reveal()}"
    content = file if isinstance(file, bytes) else _blocks(file)
    # Proxies from the environment are not for a server on this machine.
    trust_env = not is_loopback(urlsplit(address).hostname or "")
    try:
        async with httpx2.AsyncClient(timeout=TIMEOUT_SECONDS, trust_env=trust_env) as client:
            response = await client.post(f"{address}{call.path}", params=call.query, headers=headers, content=content)
    except (httpx2.TransportError, httpx2.TimeoutException) as error:
        raise ChannelClosed(f"Cannot upload to {address}: {error}") from None
    return _record(response)


def _record(response: httpx2.Response) -> AttachmentRecord:
    try:
        if response.is_success:
            return msgspec.json.decode(response.content, type=AttachmentRecord)
        error = msgspec.json.decode(response.content, type=dict[str, dict[str, object]])["error"]
        code, message = str(error["code"]), str(error["message"])
    except (msgspec.DecodeError, KeyError):
        raise ChannelClosed(f"The server responded with {response.status_code}, not like AgentVM; check the URL") from None
    raise from_code(code, message)


def _http(url: str) -> str:
    parts = urlsplit(url if "://" in url else f"http://{url}")
    scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
    if scheme not in ("http", "https") or not parts.hostname:
        raise ConfigInvalid("The server's URL must be like http://127.0.0.1:8080 or ws://127.0.0.1:8080/ws")
    return f"{scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/ws')}"


async def _blocks(file: Path) -> AsyncIterator[bytes]:
    async with await anyio.open_file(file, "rb") as source:
        while block := await source.read(BLOCK_BYTES):
            yield block
