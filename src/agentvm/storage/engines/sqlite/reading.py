"""Reading — opens a data directory read-only, with or without a running server.

Theory of operation. SQLite writes beside a database in WAL mode even for those who only read: an index of the write-ahead log
that all share. With `readonly_shm` it keeps its own in memory instead, if no server has one. If the write-ahead log is empty,
nothing has to be shared, and the file is read directly (`immutable`); if a server starts to write in the meantime, the read
may be inconsistent and is repeated.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import apsw
import msgspec

from agentvm.errors import Conflict, MigrationUnknown, NotFound, StoreFailed
from agentvm.model.ids import TenantId
from agentvm.storage.engines.sqlite.database import SqliteDatabase, open_readers
from agentvm.storage.engines.sqlite.datadir import DATABASE
from agentvm.storage.engines.sqlite.migrations import load_migrations
from agentvm.storage.engines.sqlite.slack import BUSY_TIMEOUT_MS
from agentvm.storage.settings import Change
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.settings import READ_CHANGES, REVISION_MAX, SERVER, decode_change
from agentvm.storage.sql.store import Store

T = TypeVar("T")

_HAS_SETTINGS = "SELECT 1 FROM sqlite_schema WHERE name = 'setting_changes'"
_OF_TURN = "SELECT DISTINCT tenant_id FROM turns JOIN sessions USING (session_key) WHERE turn_id = ?"
_OF_SESSION = "SELECT DISTINCT tenant_id FROM sessions WHERE session_id = ?"


class ReadStore(Store):
    """A store that is only read. Access to the directory is access to all tenants, so it can also find the owner of an
    item."""

    def __init__(self, database: SqliteDatabase) -> None:
        super().__init__(database)
        self._reading = database

    async def owners_of_turn(self, turn_id: str) -> tuple[TenantId, ...]:
        return await self._owners(_OF_TURN, turn_id)

    async def owners_of_session(self, session_id: str) -> tuple[TenantId, ...]:
        return await self._owners(_OF_SESSION, session_id)

    async def _owners(self, query: str, name: str) -> tuple[TenantId, ...]:
        def read(connection: Connection) -> tuple[TenantId, ...]:
            return tuple(TenantId(result) for (result,) in connection.fetch(query, (name,)))

        return await self._reading.read(read)


async def read_data_dir(data_dir: Path, look: Callable[[ReadStore], Awaitable[T]]) -> T:
    """Returns the result of `look`. Nothing is written, created or upgraded; `look` may be called twice.

    `NotFound` without a database, `Conflict` for one of another release, `StoreFailed` for one that cannot be read.
    """
    path = data_dir / DATABASE
    if not path.is_file():
        raise NotFound(f"There is no database in {data_dir}; name the data directory of a server")
    if not _has_log(path):
        try:
            async with _opened(path, "immutable=1") as store:
                result = await look(store)
        except StoreFailed:
            if not _has_log(path):
                raise
        else:
            if not _has_log(path):
                return result
    async with _opened(path, "readonly_shm=1") as store:
        return await look(store)


def read_file(path: Path) -> tuple[Change, ...]:
    """The server's own settings changes in a database that may be closed; none without a database. Leaves no trace."""
    if not path.is_file():
        return ()
    # Without a log beside it the file is whole, and nothing has to be created to read it.
    whole = not path.with_name(f"{path.name}-wal").exists()
    address = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if whole else ''}"
    try:
        connection = apsw.Connection(address, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    except apsw.Error as error:
        raise StoreFailed(f"{path} cannot be read: {error}") from None
    try:
        if not connection.execute(_HAS_SETTINGS).fetchall():
            return ()
        return tuple(map(decode_change, connection.execute(READ_CHANGES, (SERVER, REVISION_MAX))))
    except (apsw.Error, msgspec.DecodeError) as error:
        raise StoreFailed(f"{path} cannot be read: {error}") from None
    finally:
        connection.close()


def _companion(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _has_log(path: Path) -> bool:
    """Whether the write-ahead log has frames, or may have some: a running server has one."""
    log = _companion(path, "-wal")
    return log.is_file() and (log.stat().st_size > 0 or _companion(path, "-shm").is_file())


@asynccontextmanager
async def _opened(path: Path, how: str) -> AsyncGenerator[ReadStore]:
    async with open_readers(lambda: _connect(path, how)) as database:
        yield ReadStore(database)


def _connect(path: Path, how: str) -> apsw.Connection:
    if how != "immutable=1" and not _companion(path, "-shm").is_file():
        raise StoreFailed(
            f"{path} has a write-ahead log without its index ({path.name}-shm), as a copy of files has; "
            "start the server on it once, or look into a backup"
        )
    try:
        address = f"file:{quote(str(path.absolute()))}?{how}"
        connection = apsw.Connection(address, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        version = int(connection.pragma("user_version"))
    except apsw.Error as error:
        raise StoreFailed(f"Cannot read the database {path}: {error}") from error
    newest = len(load_migrations())
    if version == newest:
        return connection
    connection.close()
    if version > newest:
        raise MigrationUnknown(
            f"The database {path} has schema version {version}, but this AgentVM knows only versions up to {newest}. "
            "Use the newer AgentVM that wrote it."
        )
    raise Conflict(
        f"The database {path} has schema version {version}, and this AgentVM reads version {newest}. Reading upgrades nothing. "
        "Start this server on it once, or use the AgentVM that wrote it."
    )
