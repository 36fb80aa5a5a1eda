"""Turns that a process before has left in a store."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import anyio.lowlevel
from msgspec import structs
from tests.runtime.fixtures import World, left, open_world

from agentvm.blueprint.image import new_session
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.model.ids import DEFAULT_TENANT, MessageId, SessionId, TurnId
from agentvm.model.message import UserMessage
from agentvm.model.turn import Turn
from agentvm.storage.sql.store import Store


async def add_left(world: World, names: Sequence[str], *, attempts: int = 0, alongside: int | None = None) -> None:
    """Sessions with a turn each that another process has begun."""
    container = world.store.tenant(DEFAULT_TENANT).container(world.image.container_id)
    for name in names:
        session_id, turn_id, message_id = SessionId(name), TurnId(f"turn_{name}"), MessageId(f"m_{name}")
        await container.add_session(new_session(world.image, session_id, None, 1))
        said = UserMessage(id=message_id, timestamp=1, turn_id=turn_id, role="user", content=name)
        row = structs.replace(
            left(world, attempts=attempts), turn_id=turn_id, session_id=session_id, message_id=message_id, alongside=alongside
        )
        await container.log(session_id).record(messages=[said], turns=[row], now=2)


async def finished(store: Store) -> None:
    with anyio.fail_after(60):
        while await store.list_unfinished():
            await anyio.lowlevel.checkpoint()


async def rows(store: Store) -> dict[str, Turn]:
    return {turn.session_id: turn for _, turn in await store.list_unfinished()}


class Prepared:
    """A database with turns that a process has left."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def leave(self, names: Sequence[str], *, attempts: int = 0, alongside: int | None = None) -> None:
        async with open_world(ScriptedDriver(), path=self.path) as world:
            await add_left(world, names, attempts=attempts, alongside=alongside)
