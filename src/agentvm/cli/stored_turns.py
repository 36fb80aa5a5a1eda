"""Stored turns — turns read from a data directory without a server; nothing is written."""

import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import anyio
import click
import msgspec

from agentvm.cli.options import loop_options
from agentvm.cli.table import Item
from agentvm.errors import Conflict, NotFound, not_found, shorten
from agentvm.model.ids import ContainerId, SessionId, TenantId, TurnId
from agentvm.model.ledger import TurnCharge
from agentvm.model.turn import Turn
from agentvm.observability.timeline import draw
from agentvm.protocol.dialect_v1 import encode_stored_events
from agentvm.runtime.recovery.tails import read_tails
from agentvm.runtime.replay import Replay
from agentvm.runtime.turn_log import TurnLog
from agentvm.storage.engine import ReadStore, read_data_dir

T = TypeVar("T")

EVENTS_REMOVED = (
    "The events of this turn were removed: see limits.logDays and limits.logBytes. An older backup may contain them; "
    "`avm turn show` prints the usage and cost"
)

data_option = click.option(
    "--data",
    "--data-dir",
    "data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Read this data directory instead of a server; it may be in use.",
)


class StoredTurns:
    """The turns of a data directory, of all tenants or of `tenant` (an id or a slug)."""

    def __init__(self, data_dir: Path, tenant: str | None) -> None:
        self._data_dir, self._tenant = data_dir.expanduser(), tenant

    def list(self, session: str, limit: int) -> list[Item]:
        """The turns of a session, newest first."""

        async def read(store: ReadStore) -> list[Item]:
            tenant_id = await self._owner(store, "Session", session, await store.owners_of_session(session))
            container_id = await store.tenant(tenant_id).find_session(SessionId(session))
            if container_id is None:
                raise not_found("Session", session)
            turns = await store.tenant(tenant_id).container(ContainerId(container_id)).log(SessionId(session)).list_turns()
            return [_item(turn) for turn in turns[::-1][:limit]]

        return self._run(read)

    def show(self, turn_id: str) -> Item:
        """The timeline of a turn: steps, time and cost."""

        async def read(store: ReadStore) -> Item:
            tenant_id, turn = await self._find(store, turn_id)
            events, complete = await (await _log_of(store, tenant_id, turn)).read_all(words=False)
            ledger = await store.accounts(tenant_id).ledger.of_turn(turn.turn_id)
            charge = (await store.accounts(tenant_id).ledger.charges([turn.turn_id])).get(turn.turn_id, TurnCharge())
            return _item(draw(turn, events, ledger, now=time.time_ns() // 1_000_000, complete=complete, price=charge.price))

        return self._run(read)

    def events(self, turn_id: str) -> Iterator[Item]:
        """The events of a turn as clients received them. `NotFound` when some were removed."""

        async def read(store: ReadStore) -> list[bytes]:
            tenant_id, turn = await self._find(store, turn_id)
            events, complete = await (await _log_of(store, tenant_id, turn)).read_all()
            if not complete:
                raise NotFound(EVENTS_REMOVED)
            return [encode_stored_events(event).bare.encode() for event in events]

        return (msgspec.json.decode(frame) for frame in self._run(read))

    def _run(self, read: Callable[[ReadStore], Awaitable[T]]) -> T:
        return anyio.run(read_data_dir, self._data_dir, read, backend_options=loop_options())

    async def _find(self, store: ReadStore, turn_id: str) -> tuple[TenantId, Turn]:
        tenant_id = await self._owner(store, "Turn", turn_id, await store.owners_of_turn(turn_id))
        turn = await store.tenant(tenant_id).find_turn(TurnId(turn_id))
        if turn is None:
            raise not_found("Turn", turn_id)
        return tenant_id, turn

    async def _owner(self, store: ReadStore, noun: str, name: str, owners: tuple[TenantId, ...]) -> TenantId:
        if self._tenant is not None:
            tenant = await store.directory.find_tenant(self._tenant)
            tenant_id = self._tenant if tenant is None else tenant.tenant_id
            owners = tuple(owner for owner in owners if owner == tenant_id)
        if not owners:
            raise not_found(noun, name)
        if len(owners) > 1:
            raise Conflict(f"Several tenants have a {noun.lower()} {shorten(name)}; choose one with --tenant")
        return owners[0]


async def _log_of(store: ReadStore, tenant_id: TenantId, turn: Turn) -> TurnLog:
    """The log of a turn, completed from the journal for a turn that runs or ended with its server."""
    tails = {(log.tenant_id, log.session_id): log for log in await read_tails(store)}
    return TurnLog(store, Replay(store, lambda *key: tails.get(key)), tenant_id, turn)


def _item(record: msgspec.Struct) -> dict[str, Any]:
    return msgspec.json.decode(msgspec.json.encode(record), type=dict[str, Any])
