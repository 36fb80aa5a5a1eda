"""SessionFileStore — the files of one session: rows that name bytes, which are stored once however many files have them.

Theory of operation. A change of a file is a row that names the message it came with. Of the changes of a path whose messages
exist, the latest applies (`session_files` in the schema). So a rewind restores the files without touching them, and a fork
copies the rows of the messages that it copies. Bytes are stored before the result of the call that wrote them, in commits of
their own, and claimed for the session; the commit of the result only names them (`file_changes.py`).
"""

import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO

import anyio
import anyio.to_thread
import msgspec

from agentvm.errors import ConstraintFailed, SessionNotFound
from agentvm.model.ids import MessageId, SessionId
from agentvm.model.session_file import FileChange, FileDelta, FileUsage, SessionFile
from agentvm.storage.attachments import CHUNK_BYTES
from agentvm.storage.sql.attachments import (
    PIECE_CHUNKS_MAX,
    add_chunks,
    begin_blob,
    complete_blob,
    drop_released,
    is_crowded,
    measure_file,
    release_blob,
)
from agentvm.storage.sql.connection import Connection, Database
from agentvm.storage.sql.dialect import ORDERED_JOIN, items_of, total
from agentvm.storage.sql.file_changes import trim_versions, with_many_versions
from agentvm.storage.sql.records import Scope
from agentvm.storage.sql.rows import Key

PIECE_FILES_MAX = 100
"""Files whose bytes one transaction stores."""
READ_BYTES_MAX = 8 * 1024 * 1024
"""Bytes that one query reads, unless one file has more."""
_PIECE_BYTES = PIECE_CHUNKS_MAX * CHUNK_BYTES
_HASHED_INLINE_BYTES = 64 * 1024
_PATH_END = "\U0010ffff"

_OWN_SESSION = """
SELECT session_key FROM sessions WHERE tenant_id = :tenant AND container_id = :container AND session_id = :session
"""
_OF = """
FROM sessions AS s JOIN session_files AS f USING (session_key)
WHERE s.tenant_id = ? AND s.container_id = ? AND s.session_id = ?
"""
_COLUMNS = "f.path, f.digest, f.size, f.is_executable, f.is_tainted, f.changed_at"
_GET = f"SELECT {_COLUMNS} {_OF} AND f.path = ?"
_LIST = f"SELECT {_COLUMNS} {_OF} AND f.path > ? AND f.path >= ? AND f.path < ? ORDER BY f.path LIMIT ?"
_USAGE = f"SELECT count(*), {total('f.size')} {_OF}"
# Also bytes of earlier states, and those that a call has stored and not committed yet.
_IS_OWN = f"""
(
    EXISTS (SELECT 1 FROM file_changes AS f WHERE f.blob_key = b.blob_key AND f.session_key = ({_OWN_SESSION}))
    OR EXISTS (SELECT 1 FROM file_claims AS f WHERE f.blob_key = b.blob_key AND f.session_key = ({_OWN_SESSION}))
)
"""
_CHUNK = f"""
SELECT c.body FROM blobs AS b JOIN blob_chunks AS c USING (blob_key)
WHERE c.number = :number AND b.digest = :digest AND {_IS_OWN}
"""
_SIZE = f"SELECT b.size FROM blobs AS b WHERE b.digest = :digest AND {_IS_OWN}"
_CHUNKS = f"""
SELECT b.digest, c.body
FROM ({items_of(":digests")}) AS wanted {ORDERED_JOIN} blobs AS b ON b.digest = wanted.value
LEFT JOIN blob_chunks AS c USING (blob_key)
WHERE {_IS_OWN}
ORDER BY b.blob_key, c.number
"""
_SESSION = "SELECT session_key FROM sessions WHERE tenant_id = ? AND container_id = ? AND session_id = ?"
_FIND_BLOB = "SELECT blob_key FROM blobs WHERE digest = ?"
_OWNED = """
SELECT 1 FROM blobs AS b WHERE b.digest = ?1 AND (
    EXISTS (SELECT 1 FROM attachments AS a WHERE a.blob_key = b.blob_key AND a.tenant_id = ?2)
    OR EXISTS (
        SELECT 1 FROM file_changes AS f JOIN sessions AS s USING (session_key)
        WHERE f.blob_key = b.blob_key AND s.tenant_id = ?2
    )
)
"""
_CLAIM = """
INSERT INTO file_claims (session_key, blob_key, claimed_at) VALUES (?, ?, ?)
ON CONFLICT (session_key, blob_key) DO UPDATE SET claimed_at = excluded.claimed_at
"""
_HISTORY = """
SELECT f.path, b.digest, b.size, f.is_executable, f.is_tainted, f.changed_at, m.message_id
FROM sessions AS s
JOIN file_changes AS f USING (session_key)
LEFT JOIN blobs AS b USING (blob_key)
LEFT JOIN placed_messages AS m ON m.position = f.position
WHERE s.tenant_id = ? AND s.container_id = ? AND s.session_id = ? AND (f.position = 0 OR m.position IS NOT NULL)
  AND f.position <= ? AND (m.rewind_key IS NULL OR m.rewind_key > ?)
ORDER BY f.position, f.path
"""

_VERSIONS = """
SELECT f.path, b.digest, b.size, f.is_executable, f.is_tainted, f.changed_at, m.message_id
FROM sessions AS s
JOIN file_changes AS f USING (session_key)
LEFT JOIN blobs AS b USING (blob_key)
LEFT JOIN placed_messages AS m ON m.position = f.position
WHERE s.tenant_id = ? AND s.container_id = ? AND s.session_id = ? AND f.path = ?
  AND (f.position = 0 OR (m.position IS NOT NULL AND m.rewind_key IS NULL))
ORDER BY f.position DESC LIMIT ?
"""


class SessionFileStore(Scope):
    """The files of one session. A session that does not exist has none."""

    __slots__ = ("_key", "_session_id")

    def __init__(self, database: Database, key: Key, session_id: SessionId) -> None:
        super().__init__(database)
        self._key = key
        self._session_id = session_id

    @property
    def _place(self) -> tuple[str, str, str]:
        return (*self._key, self._session_id)

    @property
    def _scope(self) -> dict[str, str]:
        return {"tenant": self._key[0], "container": self._key[1], "session": self._session_id}

    async def get(self, path: str) -> SessionFile | None:
        return await self._first(_decode, _GET, (*self._place, path))

    async def list(self, under: str = "", *, after: str = "", limit: int = 2**31) -> tuple[SessionFile, ...]:
        """Returns files below a folder in the order of their paths, those behind `after`."""
        first, end = (f"{under}/", f"{under}0") if under else ("", _PATH_END)
        return await self._all(_decode, _LIST, (*self._place, after, first, end, limit))

    async def usage(self) -> FileUsage:
        rows = await self._all(tuple[int, int], _USAGE, self._place)
        return FileUsage(files=rows[0][0], size=rows[0][1])

    async def read(self, digest: str, number: int) -> bytes | None:
        """Returns the chunk of that number of a file's bytes, from 0; empty beyond the last.

        None when no file of the session has or had these bytes. Each chunk but the last has `CHUNK_BYTES` bytes.
        """
        scope = {**self._scope, "digest": digest}

        def read(connection: Connection) -> bytes | None:
            for (body,) in connection.fetch(_CHUNK, {**scope, "number": number}):
                return bytes(body)
            return b"" if connection.fetch(_SIZE, scope) else None

        return await self._database.read(read)

    async def read_all(self, digest: str) -> bytes | None:
        """Returns all bytes; None when they are gone."""
        chunks: list[bytes] = []
        while chunk := await self.read(digest, len(chunks)):
            chunks.append(chunk)
            if len(chunk) < CHUNK_BYTES:
                break
        return None if chunk is None else b"".join(chunks)

    async def read_bodies(self, sizes: Mapping[str, int]) -> dict[str, bytes]:
        """Returns all bytes of several digests, whose sizes are known; those that are gone are left out."""
        bodies: dict[str, bytes] = {}
        for piece in _pieces(sizes, READ_BYTES_MAX):
            scope = {**self._scope, "digests": msgspec.json.encode(list(piece)).decode()}
            chunks: dict[str, list[bytes]] = {}
            for digest, body in await self._all(tuple[Any, ...], _CHUNKS, scope):
                chunks.setdefault(digest, []).extend([] if body is None else [bytes(body)])
            bodies.update((digest, b"".join(parts)) for digest, parts in chunks.items())
        return bodies

    async def put(self, file: BinaryIO, now: int) -> tuple[str, int]:
        """Stores bytes and claims them for the session; returns their digest and size."""
        digest, size = await anyio.to_thread.run_sync(measure_file, file)
        if size <= _PIECE_BYTES:
            file.seek(0)
            await self._put_piece({digest: file.read()}, now)
        else:
            await self._put_large(file, digest, size, now)
        return digest, size

    async def put_all(self, bodies: Sequence[bytes], now: int) -> tuple[str, ...]:
        """Stores the bytes of several files and claims them; returns the digest of each."""
        size = sum(map(len, bodies))
        digests = _digests(bodies) if size <= _HASHED_INLINE_BYTES else await anyio.to_thread.run_sync(_digests, bodies)
        by_digest = dict(zip(digests, bodies, strict=True))
        for piece in _pieces({digest: len(body) for digest, body in by_digest.items()}, _PIECE_BYTES):
            body = by_digest[piece[0]]
            if len(body) > _PIECE_BYTES:
                await self._put_large(io.BytesIO(body), piece[0], len(body), now)
            else:
                await self._put_piece({digest: by_digest[digest] for digest in piece}, now)
        return digests

    async def history(self, last: int, rewound: int) -> tuple[FileDelta, ...]:
        """Returns the changes that stood at a moment of an export, in order."""
        return await self._all(_decode_change, _HISTORY, (*self._place, last, rewound))

    async def versions(self, path: str, limit: int) -> tuple[FileDelta, ...]:
        """Returns the changes of a file that stand, the newest first."""
        return await self._all(_decode_change, _VERSIONS, (*self._place, path, limit))

    async def trim(self, paths: Sequence[str], keep: int) -> None:
        """Drops the oldest states of these files beyond so many, in transactions of a bounded size."""

        def find(connection: Connection) -> list[str]:
            return with_many_versions(connection, self._session_key(connection), paths, keep)

        def work(connection: Connection) -> None:
            trim_versions(connection, self._session_key(connection), paths[:PIECE_FILES_MAX], keep)

        while paths := await self._database.read(find):
            await self._database.write(work)

    async def _put_piece(self, piece: Mapping[str, bytes], now: int) -> None:
        def work(connection: Connection) -> bool:
            session_key = self._session_key(connection)
            for digest, body in piece.items():
                # Bytes that only others have are written all the same: the time it takes must not tell of them.
                if not connection.fetch(_OWNED, (digest, self._key[0])):
                    blob_key = begin_blob(connection, len(body), now)
                    add_chunks(connection, blob_key, 0, _cut(body))
                    complete_blob(connection, blob_key, digest)
                _claim(connection, session_key, digest, now)
            return is_crowded(connection)

        if await self._database.write(work):
            await drop_released(self._database)

    async def _put_large(self, file: BinaryIO, digest: str, size: int, now: int) -> None:
        """Writes in several transactions, so that others' commits come in between."""
        blob_key = await self._database.write(lambda connection: begin_blob(connection, size, now))
        try:
            file.seek(0)
            for first in range(0, -(-size // CHUNK_BYTES), PIECE_CHUNKS_MAX):
                chunks = _cut(file.read(_PIECE_BYTES))
                await self._database.write(partial(add_chunks, blob_key=blob_key, first=first, chunks=chunks))

            def work(connection: Connection) -> None:
                complete_blob(connection, blob_key, digest)
                _claim(connection, self._session_key(connection), digest, now)

            await self._database.write(work)
        finally:
            with anyio.CancelScope(shield=True):
                await self._database.write(lambda connection: release_blob(connection, blob_key))
                if await self._database.read(is_crowded):
                    await drop_released(self._database)

    def _session_key(self, connection: Connection) -> int:
        for (session_key,) in connection.fetch(_SESSION, self._place):
            return int(session_key)
        raise SessionNotFound(self._session_id)


def _claim(connection: Connection, session_key: int, digest: str, now: int) -> None:
    rows = connection.fetch(_FIND_BLOB, (digest,))
    if not rows:
        raise ConstraintFailed(f"The bytes {digest} took too long to arrive; try again")
    connection.execute(_CLAIM, (session_key, rows[0][0], now))


def _decode(row: Sequence[Any]) -> SessionFile:
    path, digest, size, executable, tainted, modified_at = row
    return SessionFile(
        path=path, digest=digest, size=size, executable=bool(executable), tainted=bool(tainted), modified_at=modified_at
    )


def _decode_change(row: Sequence[Any]) -> FileDelta:
    path, digest, size, executable, tainted, at, message_id = row
    flags = {"executable": bool(executable), "tainted": bool(tainted)}
    return FileDelta(
        message_id=None if message_id is None else MessageId(message_id),
        changes=(FileChange(path=path, digest=digest, size=size or 0, **flags),),
        at=at,
    )


def _digests(bodies: Sequence[bytes]) -> tuple[str, ...]:
    return tuple(f"sha256:{hashlib.sha256(body).hexdigest()}" for body in bodies)


def _cut(body: bytes) -> list[bytes]:
    return [body[at : at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES)]


def _pieces(sizes: Mapping[str, int], max_bytes: int) -> Iterator[list[str]]:
    """The digests in pieces of one transaction each; a file larger than a piece is a piece of its own."""
    piece: list[str] = []
    total_bytes = 0
    for digest, size in sizes.items():
        if piece and (total_bytes + size > max_bytes or len(piece) >= PIECE_FILES_MAX):
            yield piece
            piece, total_bytes = [], 0
        piece.append(digest)
        total_bytes += size
    if piece:
        yield piece
