"""Past — the turns of a data directory, without asking a server: what its log and its journal hold, read and left as it is."""

import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import anyio
import click
import msgspec

from agentvm.cli.options import loop_options
from agentvm.cli.table import Item
from agentvm.errors import Conflict, NotFound
from agentvm.model.ids import ContainerId, SessionId, TenantId, TurnId
from agentvm.model.turn import Turn
from agentvm.observability.timeline import draw
from agentvm.protocol.dialect_v1 import encode_told
from agentvm.runtime.replay import Replay
from agentvm.runtime.tails import read_tails
from agentvm.runtime.turn_log import TurnLog
from agentvm.storage.engine import ReadStore, read_data_dir

T = TypeVar("T")

GONE = (
    "What was told of this turn is no longer kept: see limits.logDays and limits.logBytes. A backup from before may hold it; "
    "what the turn used and cost is shown by `avm turn show`"
)

data_option = click.option(
    "--data",
    "--data-dir",
    "data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Read this data directory instead of asking a server; it may be in use, and nothing is written to it.",
)


class Past:
    """A data directory. Whoever can read it sees every tenant; `tenant`, an id or a slug, narrows that."""

    def __init__(self, data_dir: Path, tenant: str | None) -> None:
        self._data_dir, self._tenant = data_dir.expanduser(), tenant

    def list(self, session: str, limit: int) -> list[Item]:
        """The turns of a session, newest first."""

        async def look(store: ReadStore) -> list[Item]:
            tenant_id = await self._owner(store, "session", await store.owners_of_session(session))
            container_id = await store.tenant(tenant_id).find_session(SessionId(session))
            if container_id is None:
                raise NotFound("There is no such session")
            turns = await store.tenant(tenant_id).container(ContainerId(container_id)).log(SessionId(session)).list_turns()
            return [_plain(turn) for turn in turns[::-1][:limit]]

        return self._run(look)

    def show(self, turn_id: str) -> Item:
        """What it spent its time and money on."""

        async def look(store: ReadStore) -> Item:
            tenant_id, row = await self._find(store, turn_id)
            events, complete = await (await _log_of(store, tenant_id, row)).read_all(words=False)
            ledger = await store.accounts(tenant_id).ledger.of_turn(row.turn_id)
            return _plain(draw(row, events, ledger, now=time.time_ns() // 1_000_000, complete=complete))

        return self._run(look)

    def events(self, turn_id: str) -> Iterator[Item]:
        """What was told of it, as it was told. `NotFound` when any of that is no longer there."""

        async def look(store: ReadStore) -> list[bytes]:
            tenant_id, row = await self._find(store, turn_id)
            events, complete = await (await _log_of(store, tenant_id, row)).read_all()
            if not complete:
                raise NotFound(GONE)
            return [encode_told(event).bare.encode() for event in events]

        return (msgspec.json.decode(frame) for frame in self._run(look))

    def _run(self, look: Callable[[ReadStore], Awaitable[T]]) -> T:
        return anyio.run(read_data_dir, self._data_dir, look, backend_options=loop_options())

    async def _find(self, store: ReadStore, turn_id: str) -> tuple[TenantId, Turn]:
        tenant_id = await self._owner(store, "turn", await store.owners_of_turn(turn_id))
        row = await store.tenant(tenant_id).find_turn(TurnId(turn_id))
        if row is None:
            raise NotFound("There is no such turn")
        return tenant_id, row

    async def _owner(self, store: ReadStore, what: str, found: tuple[TenantId, ...]) -> TenantId:
        if self._tenant is not None:
            named = await store.directory.find_tenant(self._tenant)
            wanted = self._tenant if named is None else named.tenant_id
            found = tuple(one for one in found if one == wanted)
        if not found:
            raise NotFound(f"There is no such {what}")
        if len(found) > 1:
            raise Conflict(f"Several tenants have a {what} of this id; name one with --tenant")
        return found[0]


async def _log_of(store: ReadStore, tenant_id: TenantId, row: Turn) -> TurnLog:
    """From the journal what no chunk of the log holds yet: of a turn that runs, or that died with its server."""
    tails = {(log.tenant_id, log.session_id): log for log in await read_tails(store)}
    return TurnLog(store, Replay(store, lambda *key: tails.get(key)), tenant_id, row)


def _plain(record: msgspec.Struct) -> dict[str, Any]:
    return msgspec.json.decode(msgspec.json.encode(record), type=dict[str, Any])
