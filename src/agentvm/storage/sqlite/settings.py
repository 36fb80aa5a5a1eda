"""SqliteSettingsStore — the changes of one scope. The database itself refuses to alter or drop one."""

from pathlib import Path
from typing import Any

import apsw
import msgspec

from agentvm.errors import Conflict, StoreFailed
from agentvm.model.ids import TenantId
from agentvm.storage.settings import Change
from agentvm.storage.sqlite.accounts.living import refuse_deleted
from agentvm.storage.sqlite.database import Database
from agentvm.storage.sqlite.rows import fetch

_COLUMNS = "SELECT revision, at, actor, request_id, note, changes FROM setting_changes WHERE scope = ?"
_ADD = """
INSERT INTO setting_changes (scope, revision, at, actor, request_id, note, changes) VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_LAST = "SELECT coalesce(max(revision), 0) FROM setting_changes WHERE scope = ?"
_READ = f"{_COLUMNS} AND revision <= ? ORDER BY revision"
_LIST = f"{_COLUMNS} AND revision < ? ORDER BY revision DESC LIMIT ?"
_ALL = """
SELECT scope, revision, at, actor, request_id, note, changes
FROM setting_changes
WHERE NOT EXISTS (SELECT 1 FROM tenants WHERE tenant_id = scope AND deleted_at IS NOT NULL)
ORDER BY scope, revision
"""
_THERE = "SELECT 1 FROM sqlite_schema WHERE name = 'setting_changes'"
_NEWEST = 2**63 - 1

SERVER = ""
"""The scope of the server itself: no tenant has an empty id."""


class SqliteSettingsStore:
    """See `agentvm.storage.settings.SettingsStore`."""

    def __init__(self, database: Database, tenant_id: TenantId | None) -> None:
        self._database = database.of(tenant_id)
        self._tenant_id = tenant_id
        self._scope = SERVER if tenant_id is None else tenant_id

    async def append(self, change: Change) -> None:
        """`Conflict` unless its revision is the next one; `NotFound` when the tenant was deleted."""
        body = msgspec.json.encode(change.changes)
        row = (self._scope, change.revision, change.at, change.actor, change.request_id, change.note, body)

        def write(connection: apsw.Connection) -> None:
            if self._tenant_id is not None:
                refuse_deleted(connection, self._tenant_id)
            last = int(fetch(connection, _LAST, (self._scope,))[0][0])
            if change.revision != last + 1:
                raise Conflict(f"The settings were changed meanwhile: they are at revision {last}; look at them and try again")
            connection.execute(_ADD, row)

        await self._database.write(write)

    async def read(self, *, until: int | None = None) -> tuple[Change, ...]:
        """From the first on, up to and with that revision."""
        wanted = (self._scope, _NEWEST if until is None else until)
        return await self._database.read(lambda connection: tuple(map(_decode, fetch(connection, _READ, wanted))))

    async def list(self, *, before: int | None = None, limit: int = 100) -> tuple[Change, ...]:
        """Newest first; those with a revision below `before`."""
        wanted = (self._scope, _NEWEST if before is None else before, limit)
        return await self._database.read(lambda connection: tuple(map(_decode, fetch(connection, _LIST, wanted))))


def read_all(connection: apsw.Connection) -> tuple[tuple[TenantId | None, Change], ...]:
    """The changes of all scopes but deleted tenants', each scope's in order."""
    return tuple((TenantId(row[0]) if row[0] else None, _decode(row[1:])) for row in fetch(connection, _ALL, ()))


def read_file(path: Path) -> tuple[Change, ...]:
    """The server's own changes in a database that nobody need have open; none where there is none. Leaves no trace."""
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
        if not fetch(connection, _THERE, ()):
            return ()
        return tuple(map(_decode, fetch(connection, _READ, (SERVER, _NEWEST))))
    except (apsw.Error, msgspec.DecodeError) as error:
        raise StoreFailed(f"{path} cannot be read: {error}") from None
    finally:
        connection.close()


def _decode(row: tuple[Any, ...]) -> Change:
    revision, at, actor, request_id, note, body = row
    changes = msgspec.json.decode(body, type=dict[str, object])
    return Change(revision=revision, at=at, actor=actor, request_id=request_id, note=note, changes=changes)
