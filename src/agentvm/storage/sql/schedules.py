"""Schedules — messages that agents receive on a schedule or on request, and their runs.

A run is a row of the commit that accepts its turn, and the same commit moves the schedule on: it begins once, also if the
server fails.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from agentvm.errors import Conflict
from agentvm.model.ids import ContainerId, TenantId
from agentvm.model.schedule import DueSchedule, RunRecord, Schedule, SourceRun, Trigger, TriggerId, TurnSource, day_of
from agentvm.storage.sql.connection import Connection, Database
from agentvm.storage.sql.dialect import items_of
from agentvm.storage.sql.records import Columns, Scope, TenantScope
from agentvm.storage.sql.rows import is_living, is_present, refuse_deleted

SOURCES_MAX = 1_000
"""Schedules of one container, and as many triggers."""
RUNS_MAX = 50
"""Runs of each that can be read."""

T = TypeVar("T", bound=TurnSource)

_SCHEDULE, _TRIGGER = Columns(Schedule), Columns(Trigger)
_RUN, _PAST_RUN = Columns(SourceRun, without=("next_at", "wake_at")), Columns(RunRecord)
_LIVES = is_living("s")
_DUE = f"""
SELECT s.tenant_id, {_SCHEDULE.select("s.")} FROM schedules AS s WHERE s.wake_at <= ? AND {_LIVES} ORDER BY s.wake_at LIMIT ?
"""
_NEXT_DUE = f"SELECT s.wake_at FROM schedules AS s WHERE s.wake_at IS NOT NULL AND {_LIVES} ORDER BY s.wake_at LIMIT 1"
_POSTPONE = "UPDATE schedules SET wake_at = ? WHERE tenant_id = ? AND schedule_id = ? AND next_at = ?"
# Only from the time that was due: who has changed the schedule meanwhile has decided otherwise.
_MOVE_ON = "UPDATE schedules SET next_at = ?, wake_at = ? WHERE tenant_id = ? AND schedule_id = ? AND next_at = ?"
_DISABLE = """
UPDATE {table} SET disabled_at = ?1, disabled_reason = ?2 {more} WHERE tenant_id = ?3 AND {key} = ?4 AND disabled_at IS NULL
"""
_RAN = """
UPDATE {table} SET last_at = ?1, last_turn_id = ?2, day_runs = CASE WHEN day = ?3 THEN day_runs + 1 ELSE 1 END, day = ?3
WHERE tenant_id = ?4 AND {key} = ?5
"""
_ADD_RUN = f"""
INSERT INTO runs (tenant_id, container_id, {_RUN.text}) VALUES (?, ?, {_RUN.marks})
ON CONFLICT (source_id, client_key) DO NOTHING
"""
_RUN_BY_KEY = f"SELECT {_RUN.text} FROM runs WHERE tenant_id = ? AND source_id = ? AND client_key = ?"
_DROP_RUNS = f"""
DELETE FROM runs WHERE source_id = ?1 AND position <= (
    SELECT position FROM runs WHERE source_id = ?1 ORDER BY position DESC LIMIT 1 OFFSET {RUNS_MAX}
)
"""
_OUTCOME = "(SELECT t.outcome FROM turns AS t WHERE t.turn_id = r.turn_id)"
_RUNS = f"""
SELECT {_PAST_RUN.select("r.", number="r.position", outcome=_OUTCOME)}
FROM runs AS r WHERE r.tenant_id = ? AND r.source_id = ? ORDER BY r.position DESC LIMIT ?
"""
_DROP_ALL_RUNS = "DELETE FROM runs WHERE tenant_id = ? AND source_id = ?"
_TRIGGER_ANYWHERE = f"SELECT s.tenant_id, {_TRIGGER.select('s.')} FROM triggers AS s WHERE s.trigger_id = ? AND {_LIVES}"


class SourceStore(TenantScope, Generic[T]):
    """The schedules or triggers in some containers of one tenant; None for all of them."""

    __slots__ = ("_columns", "_containers", "_key", "_table")

    def __init__(
        self,
        database: Database,
        tenant_id: TenantId,
        containers: Sequence[ContainerId] | None,
        table: tuple[str, str],
        columns: Columns[T],
    ) -> None:
        super().__init__(database, tenant_id)
        self._containers, self._columns = containers, columns
        self._table, self._key = table

    async def add(self, source: T) -> None:
        """Adds one; `Conflict` when the container has too many."""

        def write(connection: Connection) -> None:
            refuse_deleted(connection, self._tenant_id)
            _add(connection, self._tenant_id, (self._table, self._columns), source, None)

        await self._database.write(write)

    async def get(self, source_id: str) -> T | None:
        """Returns one of them, as it is."""
        where, values = self._within()
        query = f"SELECT {self._columns.text} FROM {self._table} WHERE {where} AND {self._key} = ?"
        return await self._first(self._columns.decode, query, (*values, source_id))

    async def list(self, *, after: int, limit: int) -> tuple[tuple[int, T], ...]:
        """Returns them oldest first, each with its place; those behind `after`."""
        where, values = self._within()
        query = (
            f"SELECT position, {self._columns.text} FROM {self._table} WHERE {where} AND position > ? ORDER BY position LIMIT ?"
        )
        return await self._all(lambda row: (row[0], self._columns.decode(row[1:])), query, (*values, after, limit))

    async def change(self, source_id: str, modify: Callable[[T], T]) -> T | None:
        """Changes one as it is at that moment, and returns it; None when it is gone."""
        where, values = self._within()
        columns = self._columns
        query = f"SELECT {columns.text} FROM {self._table} WHERE {where} AND {self._key} = ?"
        sets = ", ".join(f"{name} = ?" for name in columns.names)
        update = f"UPDATE {self._table} SET {sets} WHERE tenant_id = ? AND {self._key} = ?"

        def write(connection: Connection) -> T | None:
            for row in connection.fetch(query, (*values, source_id)):
                changed = modify(columns.decode(row))
                connection.execute(update, (*columns.encode(changed), self._tenant_id, source_id))
                return changed
            return None

        return await self._database.write(write)

    async def remove(self, source_id: str) -> bool:
        """Removes one with its runs."""
        where, values = self._within()

        def write(connection: Connection) -> bool:
            removed = connection.execute(f"DELETE FROM {self._table} WHERE {where} AND {self._key} = ?", (*values, source_id))
            if removed:
                connection.execute(_DROP_ALL_RUNS, (self._tenant_id, source_id))
            return bool(removed)

        return await self._database.write(write)

    async def runs(self, source_id: str, limit: int = RUNS_MAX) -> tuple[RunRecord, ...]:
        """Returns the newest runs of one that was found."""
        return await self._all(_PAST_RUN.decode, _RUNS, (self._tenant_id, source_id, limit))

    async def find_run(self, source_id: str, client_key: str) -> SourceRun | None:
        """Returns the run of that key, if it is among those that are kept."""
        return await self._first(_RUN.decode, _RUN_BY_KEY, (self._tenant_id, source_id, client_key))

    async def disable(self, source_id: str, reason: str, now: int) -> None:
        """Disables a schedule or trigger until it is enabled."""
        more = ", wake_at = NULL" if self._table == "schedules" else ""
        statement = _DISABLE.format(table=self._table, key=self._key, more=more)
        await self._execute(statement, (now, reason, self._tenant_id, source_id))

    def _within(self) -> tuple[str, tuple[object, ...]]:
        own = f"tenant_id = ? AND {is_present(self._table)}"
        if self._containers is None:
            return own, (self._tenant_id,)
        named = msgspec.json.encode(self._containers).decode()
        return f"{own} AND container_id IN ({items_of('?')})", (self._tenant_id, named)


def schedule_store(database: Database, tenant_id: TenantId, containers: Sequence[ContainerId] | None) -> SourceStore[Schedule]:
    return SourceStore(database, tenant_id, containers, ("schedules", "schedule_id"), _SCHEDULE)


def trigger_store(database: Database, tenant_id: TenantId, containers: Sequence[ContainerId] | None) -> SourceStore[Trigger]:
    return SourceStore(database, tenant_id, containers, ("triggers", "trigger_id"), _TRIGGER)


def add_arriving_source(connection: Connection, tenant_id: TenantId, source: Schedule | Trigger, arrival_key: int) -> None:
    """Adds a schedule or trigger of an import, hidden until that is published."""
    if isinstance(source, Schedule):
        _add(connection, tenant_id, ("schedules", _SCHEDULE), source, arrival_key)
    else:
        _add(connection, tenant_id, ("triggers", _TRIGGER), source, arrival_key)


def _add(
    connection: Connection, tenant_id: TenantId, table: tuple[str, Columns[T]], source: T, arrival_key: int | None
) -> None:
    name, columns = table
    count = f"SELECT count(*) FROM {name} WHERE tenant_id = ? AND container_id = ?"
    if connection.fetch(count, (tenant_id, source.container_id))[0][0] >= SOURCES_MAX:
        raise Conflict(f"A container has at most {SOURCES_MAX} {name}: delete some first")
    add = f"INSERT INTO {name} (tenant_id, arrival_key, {columns.text}) VALUES (?, ?, {columns.marks})"
    connection.execute(add, (tenant_id, arrival_key, *columns.encode(source)))


class DueSchedules(Scope):
    """The schedules of all tenants by the time when they are looked at, for the server's own clock."""

    async def list_due(self, now: int, limit: int) -> tuple[DueSchedule, ...]:
        """Due schedules, the oldest first."""
        return await self._all(_due, _DUE, (now, limit))

    async def next_due(self) -> int | None:
        """The time when the next one is looked at."""
        return await self._first(lambda row: int(row[0]), _NEXT_DUE)

    async def pass_over(self, passed: Sequence[tuple[TenantId, ContainerId, SourceRun]]) -> None:
        """Stores, in one commit, times at which there was no run."""

        def write(connection: Connection) -> None:
            for tenant_id, container_id, run in passed:
                write_run(connection, (tenant_id, container_id), run)

        await self._database.write(write)

    async def postpone(self, postponed: Sequence[tuple[DueSchedule, int]]) -> None:
        """Lets schedules be looked at later, for the same time."""
        rows = [(at, due.tenant_id, due.schedule.schedule_id, due.schedule.next_at) for due, at in postponed]
        await self._database.write(lambda connection: connection.many(_POSTPONE, rows))

    async def find_trigger(self, trigger_id: TriggerId) -> tuple[TenantId, Trigger] | None:
        """Returns a trigger of any tenant: who knows its secret may use it."""
        decode = _TRIGGER.decode
        return await self._first(lambda row: (TenantId(row[0]), decode(row[1:])), _TRIGGER_ANYWHERE, (trigger_id,))


def write_run(connection: Connection, scope: tuple[TenantId, ContainerId], run: SourceRun) -> None:
    """Adds a run, and moves its schedule on; drops the oldest runs."""
    tenant_id = scope[0]
    connection.execute(_ADD_RUN, (*scope, *_RUN.encode(run)))
    connection.execute(_DROP_RUNS, (run.source_id,))
    connection.execute(_MOVE_ON, (run.next_at, run.wake_at, tenant_id, run.source_id, run.due_at))
    if run.state == "started":
        ran = (run.at, run.turn_id, day_of(run.at), tenant_id, run.source_id)
        if not connection.execute(_RAN.format(table="schedules", key="schedule_id"), ran):
            connection.execute(_RAN.format(table="triggers", key="trigger_id"), ran)


def _due(row: Sequence[Any]) -> DueSchedule:
    return DueSchedule(tenant_id=TenantId(row[0]), schedule=_SCHEDULE.decode(row[1:]))
