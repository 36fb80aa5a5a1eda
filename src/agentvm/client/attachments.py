"""Attachments — uploads a file to a server, so that messages can refer to it."""

from collections.abc import AsyncIterator, Mapping, Sequence
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
    name = name or (file.name if isinstance(file, Path) else None)
    content = file if isinstance(file, bytes) else blocks_of(file)
    fields = {"container_id": container_id, "name": name}
    response = await exchange_file(url, "attachment.upload", (), fields, key=key, content=content, media_type=media_type)
    return msgspec.json.decode(response.content, type=AttachmentRecord)


async def exchange_file(
    url: str,
    operation: str,
    path: Sequence[str],
    fields: Mapping[str, object],
    *,
    key: Secret | None,
    content: bytes | AsyncIterator[bytes] | None = None,
    media_type: str = "application/octet-stream",
) -> httpx2.Response:
    """Makes a request whose body, or that of its response, is a file; raises the error that the server responds with."""
    address = http_address(url)
    call = http_face(operation).call(path, fields)
    headers = {} if content is None else {"Content-Type": media_type}
    if key is not None:
        headers["Authorization"] = f"Bearer {key.reveal()}"
    # Proxies from the environment are not for a server on this machine.
    trust_env = not is_loopback(urlsplit(address).hostname or "")
    try:
        async with httpx2.AsyncClient(timeout=TIMEOUT_SECONDS, trust_env=trust_env) as client:
            response = await client.request(
                call.method, f"{address}{call.path}", params=call.query, headers=headers, content=content
            )
    except (httpx2.TransportError, httpx2.TimeoutException) as error:
        raise ChannelClosed(f"Cannot upload to {address}: {error}" if content else f"Cannot reach {address}: {error}") from None
    if response.is_success:
        return response
    try:
        problem = msgspec.json.decode(response.content, type=dict[str, dict[str, object]])["error"]
        code, message = str(problem["code"]), str(problem["message"])
    except (msgspec.DecodeError, KeyError):
        raise ChannelClosed(f"The server responded with {response.status_code}, not like AgentVM; check the URL") from None
    raise from_code(code, message)


def http_address(url: str) -> str:
    parts = urlsplit(url if "://" in url else f"http://{url}")
    scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
    if scheme not in ("http", "https") or not parts.hostname:
        raise ConfigInvalid("The server's URL must be like http://127.0.0.1:8080 or ws://127.0.0.1:8080/ws")
    return f"{scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/ws')}"


async def blocks_of(file: Path) -> AsyncIterator[bytes]:
    async with await anyio.open_file(file, "rb") as source:
        while block := await source.read(BLOCK_BYTES):
            yield block
