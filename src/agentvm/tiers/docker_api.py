"""Docker API — the few requests to a container engine that a tier needs, over its unix socket: Docker's, or Podman's.

Everything that the engine sends is bounded. Its errors are `TierBroken`, with its own words.
"""

import io
import struct
import tarfile
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager

import anyio.to_thread
import httpcore2
import httpx2
import msgspec

from agentvm.errors import shorten
from agentvm.errors.tool import TierBroken
from agentvm.model.base import Record
from agentvm.tiers.engine_socket import EngineNetwork

VERSION = "v1.41"
"""The API of Docker 20.10 on; Podman speaks it from 4.0 on."""
REPLY_MAX_BYTES = 4 * 1024 * 1024
CONNECT_SECONDS = 5.0
CONNECTIONS_MAX = 64
_NOBODY = "65534"
USER = f"{_NOBODY}:{_NOBODY}"
"""Uid and gid of programs and their files."""
FRAME_MAX_BYTES = 1024 * 1024
_STREAM_HEADER = struct.Struct("!BxxxL")


class OutputFrame(Record):
    """A piece of a program's output, on stream 1 or 2."""

    stream: int
    data: bytes


class DockerApi:
    """A connection to one engine."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, object]:
        return msgspec.json.decode(await self._ask("GET", path, query), type=dict[str, object])

    async def exists(self, path: str) -> bool:
        """Whether there is such an object."""
        return bool(await self._ask("GET", path, absent=b""))

    async def list_containers(self, label: str) -> list[dict[str, object]]:
        """All containers with a label, whether they run or not."""
        query = {"all": "true", "filters": msgspec.json.encode({"label": [label]}).decode()}
        return msgspec.json.decode(await self._ask("GET", "/containers/json", query), type=list[dict[str, object]])

    async def post(self, path: str, body: object = None, query: Mapping[str, str] | None = None) -> dict[str, object]:
        reply = await self._ask("POST", path, query, body={} if body is None else body)
        return msgspec.json.decode(reply, type=dict[str, object]) if reply.strip() else {}

    async def remove(self, container_id: str) -> None:
        """Kills a container and deletes it with its volumes; one that is gone already is no error."""
        await self._ask("DELETE", f"/containers/{container_id}", {"force": "true", "v": "true"}, absent=b"")

    async def put_archive(self, container_id: str, archive: bytes) -> None:
        """Unpacks an archive in the root of a container."""
        await self._ask("PUT", f"/containers/{container_id}/archive", {"path": "/"}, content=archive)

    async def read_files(self, container_id: str, path: str, max_bytes: int) -> tuple[dict[str, bytes], frozenset[str], int]:
        """The files below a folder, the executable ones, and how many entries were left out: links, or beyond the bound."""
        content = bytearray()
        async with self._stream("GET", f"/containers/{container_id}/archive", {"path": path}) as response:
            async for piece in response.aiter_raw():
                content += piece
                if len(content) > max_bytes:
                    break
        # Megabytes of files take longer than others can wait.
        return await anyio.to_thread.run_sync(read_archive, bytes(content))

    @asynccontextmanager
    async def output(self, exec_id: str) -> AsyncIterator[AsyncIterator[OutputFrame]]:
        """Starts a program and yields its output, until it has ended."""
        body = {"Detach": False, "Tty": False}
        async with self._stream("POST", f"/exec/{exec_id}/start", body=body) as response:
            yield read_frames(response.aiter_raw())

    async def run(
        self, container_id: str, argv: Sequence[str], env: Sequence[str] = (), output_max: int = FRAME_MAX_BYTES
    ) -> tuple[int, dict[int, bytes], bool]:
        """Runs a program in a container: its status, its output by stream, and whether it was left for having too much."""
        body = {"AttachStdout": True, "AttachStderr": True, "Cmd": list(argv), "Env": list(env), "User": USER}
        exec_id = str((await self.post(f"/containers/{container_id}/exec", body))["Id"])
        outputs, room = {1: bytearray(), 2: bytearray()}, output_max
        async with self.output(exec_id) as frames:
            async for frame in frames:
                outputs[frame.stream if frame.stream in outputs else 2] += frame.data[: max(0, room)]
                room -= len(frame.data)
                if room < 0:
                    return 0, {number: bytes(data) for number, data in outputs.items()}, True
        status = (await self.get(f"/exec/{exec_id}/json")).get("ExitCode")
        return status if isinstance(status, int) else 1, {number: bytes(data) for number, data in outputs.items()}, False

    async def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        body: object = None,
        content: bytes | None = None,
        absent: bytes | None = None,
    ) -> bytes:
        """The reply; `absent`, if given, where there is no such object."""
        reply = bytearray()
        async with self._stream(method, path, query, body=body, content=content, absent=absent) as response:
            if response.status_code == 404 and absent is not None:
                return absent
            async for piece in response.aiter_raw():
                reply += piece
                if len(reply) > REPLY_MAX_BYTES:
                    raise TierBroken(f"The container engine answered {method} {path} with more than {REPLY_MAX_BYTES} bytes")
        return bytes(reply)

    @asynccontextmanager
    async def _stream(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        body: object = None,
        content: bytes | None = None,
        absent: bytes | None = None,
    ) -> AsyncIterator[httpx2.Response]:
        headers = {} if body is None else {"Content-Type": "application/json"}
        if content is not None:
            headers = {"Content-Type": "application/x-tar"}
        data = msgspec.json.encode(body) if body is not None else content
        try:
            async with self._client.stream(
                method, f"http://engine/{VERSION}{path}", params=query, content=data, headers=headers
            ) as response:
                if response.status_code >= 400 and not (response.status_code == 404 and absent is not None):
                    raise _failure(response.status_code, (await response.aread())[:REPLY_MAX_BYTES])
                yield response
        except httpx2.HTTPError as error:
            raise TierBroken(f"The container engine does not answer: {str(error) or type(error).__name__}") from None


def _failure(status: int, reply: bytes) -> TierBroken:
    try:
        text = str(msgspec.json.decode(reply, type=dict[str, object]).get("message", ""))
    except msgspec.MsgspecError:
        text = reply.decode(errors="replace")
    return TierBroken(f"The container engine answered {status}: {shorten(text)}")


async def read_frames(pieces: AsyncIterator[bytes]) -> AsyncIterator[OutputFrame]:
    """Takes the frames of a multiplexed stream apart: a byte for the stream, three empty ones, a length, the data."""
    buffer = bytearray()
    async for piece in pieces:
        buffer += piece
        while len(buffer) >= _STREAM_HEADER.size:
            stream, length = _STREAM_HEADER.unpack(buffer[: _STREAM_HEADER.size])
            end = _STREAM_HEADER.size + length
            if len(buffer) < end and length <= FRAME_MAX_BYTES:
                break
            if length > FRAME_MAX_BYTES:
                raise TierBroken(f"The container engine sent a frame of {length} bytes")
            yield OutputFrame(stream=stream, data=bytes(buffer[_STREAM_HEADER.size : end]))
            del buffer[:end]


def make_archive(
    files: Mapping[str, bytes],
    executable: Collection[str] = (),
    folders: Collection[str] = (),
    read_only: Collection[str] = (),
) -> bytes:
    """A tar archive of folders, and of files with the folders above them; all are the program's own."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        above = {"/".join(path.split("/")[:depth]) for path in files for depth in range(1, path.count("/") + 1)}
        for folder in sorted(above | set(folders)):
            archive.addfile(_entry(folder, tarfile.DIRTYPE, 0o755))
        for path, data in files.items():
            mode = 0o755 if path in executable else 0o444 if path in read_only else 0o644
            entry = _entry(path, tarfile.REGTYPE, mode)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return target.getvalue()


def _entry(path: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path)
    entry.type, entry.mode, entry.uid, entry.gid = kind, mode, int(_NOBODY), int(_NOBODY)
    return entry


def read_archive(content: bytes) -> tuple[dict[str, bytes], frozenset[str], int]:
    """The files of an archive without its first folder. A truncated archive yields its complete files, and counts one more as
    left out."""
    files: dict[str, bytes] = {}
    executable: set[str] = set()
    left_out = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            for entry in archive:
                path = entry.name.strip("/").partition("/")[2] or entry.name
                parts = path.split("/")
                source = archive.extractfile(entry) if entry.isfile() else None
                if source is None or not {"", ".", ".."}.isdisjoint(parts) or not path.isprintable():
                    left_out += not entry.isdir()
                    continue
                files[path] = source.read()
                executable |= {path} if entry.mode & 0o100 else set()
    except tarfile.TarError:
        left_out += 1
    return files, frozenset(executable), left_out


class _EngineTransport(httpx2.AsyncHTTPTransport):
    """Requests over the unix socket of an engine, which has no TLS: no certificates are read."""

    def __init__(self, path: str) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            uds=path,
            network_backend=EngineNetwork(),
            max_connections=CONNECTIONS_MAX,
            max_keepalive_connections=CONNECTIONS_MAX,
        )


@asynccontextmanager
async def open_docker_api(socket: str) -> AsyncIterator[DockerApi]:
    """A connection to the engine that listens on a unix socket."""
    # Only connecting has a bound here: a job's own deadline ends it.
    timeout = httpx2.Timeout(None, connect=CONNECT_SECONDS)
    async with httpx2.AsyncClient(transport=_EngineTransport(socket), timeout=timeout, trust_env=False) as client:
        yield DockerApi(client)
