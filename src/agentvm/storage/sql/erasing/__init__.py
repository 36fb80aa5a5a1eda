"""Erasing — erasures in progress.

Theory of operation. First the rows go (`rows.py`), in small commits. Then the words of messages leave the indexes of the
search: SQLite only notes that they are deleted, and drops them when it merges the pieces of an index, so all pieces are merged,
a few pages at a time. Then the file is cleaned (`slack.py`) and the write-ahead log emptied. One such pass serves all erasures
that were emptied before it began. The journal is not touched: its entries belong to several sessions, and go when the turns of
then have ended; until then an erasure stays pending.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from agentvm.model.ids import ContainerId, TenantId, UserId
from agentvm.protocol.records import OwnedRecord
from agentvm.storage.erasing import Advanced, Breathe, Erasure
from agentvm.storage.sql.connection import Connection, Database
from agentvm.storage.sql.erasing.begin import begin_container, mark_sessions, unbind_others
from agentvm.storage.sql.erasing.rows import advance
from agentvm.storage.sql.erasing.weigh import weigh_container, weigh_tenant, weigh_user
from agentvm.storage.sql.records import Scope
from agentvm.storage.sql.rows import Key
from agentvm.storage.sql.search_index import IndexName

MERGED_PAGES = 16
"""Pages of an index that one commit writes."""
TRIES_MAX = 20
"""How often in a row readers of an older state may be in the way; then it is put off."""

_PENDING = """
SELECT erasure_key, tenant_id, container_id, user_id, target, asked_at, journal_entry IS NOT NULL
FROM erasures ORDER BY erasure_key
"""
_IS_IN_JOURNAL = "SELECT 1 FROM erasures WHERE erasure_key = ? AND journal_entry > 0"


@dataclass(slots=True)
class _Cleaning:
    """A pass through the files: of which erasures the words have left the indexes, and the page to continue with."""

    of: frozenset[int] = frozenset()
    page: int | None = 1


class Erasing(Scope):
    """The erasures of a whole server."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._cleaning = _Cleaning()

    async def weigh(
        self, tenant_id: TenantId, *, container_id: ContainerId | None = None, user_id: UserId | None = None
    ) -> OwnedRecord | None:
        """All that would go with the container, the user, or else the tenant; None when there is none."""

        def read(connection: Connection) -> OwnedRecord | None:
            if container_id is not None:
                return weigh_container(connection, tenant_id, container_id)
            return weigh_tenant(connection, tenant_id) if user_id is None else weigh_user(connection, tenant_id, user_id)

        return await self._database.read(read)

    async def delete_container(self, tenant_id: TenantId, container_id: ContainerId, now: int) -> tuple[UserId, ...] | None:
        """Returns the users who lost access; None without such a container. Users whose first container it is stay bound.

        Its name can be used again as soon as its rows are gone; until then `create` raises `ContainerErasing`.
        """
        key: Key = (tenant_id, container_id)

        if not await self._database.write(lambda connection: begin_container(connection, key, now)):
            return None
        unbound: list[UserId] = []
        while users := await self._database.write(lambda connection: unbind_others(connection, key)):
            unbound += users
        while await self._database.write(lambda connection: mark_sessions(connection, key)):
            pass
        return tuple(unbound)

    async def pending(self) -> tuple[Erasure, ...]:
        """The oldest first. Deleting a tenant or a user notes erasures as well."""
        return await self._all(_decode, _PENDING, ())

    async def advance(self, erasure: Erasure) -> Advanced:
        """Erases some of the rows, in one small commit."""
        return await self._database.write(lambda connection: advance(connection, erasure.erasure_id))

    async def clean(self, erasures: Sequence[Erasure], breathe: Breathe) -> bool:
        """Removes the traces of emptied erasures from the files, and then the erasures. False if it must be tried again later.

        It must be while a reader, such as a backup, still sees an earlier state, or an earlier turn still runs.
        """
        emptied = frozenset(erasure.erasure_id for erasure in erasures if erasure.emptied)
        if any([await self._is_told_of(erasure_id) for erasure_id in emptied]):
            return False
        if not emptied <= self._cleaning.of:
            await self.merge(breathe)
            self._cleaning = _Cleaning(emptied)
        tries = TRIES_MAX
        while self._cleaning.page is not None:
            page = self._cleaning.page
            cleaned = await self._database.scrub(page)
            if cleaned is None:
                tries -= 1
                if not tries:
                    return False
            else:
                self._cleaning.page, tries = cleaned.next, TRIES_MAX
            await breathe()
        await self._forget(emptied)
        self._cleaning = _Cleaning()
        return True

    async def merge(self, breathe: Breathe) -> None:
        """Drops the words of messages that are gone from the index of the search.

        Now and then during a large erasure: how long one commit of it takes depends on how many went since the last time.
        """
        indexes: tuple[IndexName, ...] = ("messages", "resources", "knowledge")
        for index in indexes:
            # The first merge takes in every piece there is; the others continue with it.
            pages = -MERGED_PAGES
            while await self._database.write(partial(_merge, index, pages)):
                pages = MERGED_PAGES
                await breathe()

    async def _is_told_of(self, erasure_id: int) -> bool:
        return await self._first(bool, _IS_IN_JOURNAL, (erasure_id,)) is not None

    async def _forget(self, erasure_ids: Iterable[int]) -> None:
        keys = [(erasure_id,) for erasure_id in erasure_ids]
        await self._database.write(lambda connection: connection.many("DELETE FROM erasures WHERE erasure_key = ?", keys))


def _decode(row: Sequence[Any]) -> Erasure:
    erasure_key, tenant_id, container_id, user_id, target, asked_at, emptied = row
    return Erasure(
        erasure_id=erasure_key,
        tenant_id=tenant_id,
        container_id=container_id,
        user_id=user_id,
        target=target,
        asked_at=asked_at,
        emptied=bool(emptied),
    )


def _merge(index: IndexName, pages: int, connection: Connection) -> bool:
    return connection.search.merge(index, pages)
