"""Scoped store — a tenant's store limited to the containers of one principal.

A thing in another container looks exactly like one that does not exist. Naming another container is refused, whether it exists
or not.
"""

from collections.abc import Awaitable, Mapping, Sequence

from agentvm.errors import ContainerForbidden
from agentvm.model.ids import ContainerId, ImageId, SessionId, TurnId
from agentvm.model.principal import Principal
from agentvm.model.schedule import Schedule, Trigger
from agentvm.model.turn import Turn
from agentvm.storage.base import ReaderPlace
from agentvm.storage.sql.container import ContainerStore
from agentvm.storage.sql.container_names import PlacedContainer, read_container_place
from agentvm.storage.sql.places import write_place
from agentvm.storage.sql.schedules import SourceStore
from agentvm.storage.sql.sessions import SessionStore
from agentvm.storage.sql.sessions.drafts import DraftStore
from agentvm.storage.sql.sessions.retention import RetentionStore
from agentvm.storage.sql.store import TenantStore
from agentvm.storage.sql.waits import WaitStore


class ScopedStore(TenantStore):
    """A `TenantStore` limited to the containers that the principal may use.

    It has no database of its own: a method that is not limited here reaches nothing.
    """

    def __init__(self, store: TenantStore, principal: Principal) -> None:
        self._store = store
        self._principal = principal

    def container(self, container_id: ContainerId) -> ContainerStore:
        if not self._principal.reaches(container_id):
            raise ContainerForbidden(container_id)
        return self._store.container(container_id)

    async def list_containers(self) -> tuple[ContainerId, ...]:
        if self._principal.containers is None:
            return await self._store.list_containers()
        return tuple(name for name, _ in await self._within_reach())

    async def _within_reach(self) -> list[PlacedContainer]:
        """Reads the containers that its names and patterns may match, and not the whole tenant."""
        containers = await self._store.find_containers(self._principal.ranges)
        return [placed for placed in containers if self._principal.reaches(placed[0])]

    @property
    def _is_named(self) -> bool:
        """Whether it may use certain names only. A pattern may stand for a whole tenant, which is read page by page."""
        return self._principal.containers is not None and all(least == most for least, most in self._principal.ranges)

    async def next_containers(self, after: str, limit: int) -> tuple[ContainerId, ...]:
        """Reads on until one is within reach, so that only the end is empty."""
        if self._is_named:
            return tuple(sorted(name for name, _ in await self._within_reach() if name > after)[:limit])
        while names := await self._store.next_containers(after, limit):
            if reached := tuple(name for name in names if self._principal.reaches(name)):
                return reached
            after = names[-1]
        return ()

    async def page_containers(self, cursor: str | None, limit: int) -> tuple[tuple[ContainerId, ...], str | None]:
        """Reads pages of the store until one holds a container within reach, so that no page but the last is empty."""
        if self._is_named:
            place = read_container_place(cursor)
            left = [placed for placed in await self._within_reach() if placed[1] > place]
            return tuple(name for name, _ in left[:limit]), write_place(*left[limit - 1][1]) if len(left) > limit else None
        while True:
            page, cursor = await self._store.page_containers(cursor, limit)
            reached = tuple(name for name in page if self._principal.reaches(name))
            if reached or cursor is None:
                return reached, cursor

    async def find_image(self, image_id: ImageId) -> ContainerId | None:
        return await self._within(self._store.find_image(image_id))

    async def find_session(self, session_id: SessionId) -> ContainerId | None:
        return await self._within(self._store.find_session(session_id))

    async def find_turn(self, turn_id: TurnId) -> Turn | None:
        turn = await self._store.find_turn(turn_id)
        return turn if turn is not None and self._principal.reaches(turn.container_id) else None

    async def find_turns(self, turn_ids: Sequence[TurnId]) -> tuple[Turn, ...]:
        turns = await self._store.find_turns(turn_ids)
        return tuple(turn for turn in turns if self._principal.reaches(turn.container_id))

    def sessions(self, containers: Sequence[ContainerId] | None) -> SessionStore:
        """A principal that does not reach every container must name the ones it asks about."""
        self._check(containers)
        return self._store.sessions(containers)

    def waits(self, containers: Sequence[ContainerId] | None) -> WaitStore:
        self._check(containers)
        return self._store.waits(containers)

    def schedules(self, containers: Sequence[ContainerId] | None) -> SourceStore[Schedule]:
        self._check(containers)
        return self._store.schedules(containers)

    def triggers(self, containers: Sequence[ContainerId] | None) -> SourceStore[Trigger]:
        self._check(containers)
        return self._store.triggers(containers)

    def drafts(self, author: str, containers: Sequence[ContainerId] | None) -> DraftStore:
        """Returns the principal's own drafts; `ValueError` for another author's."""
        if author != (self._principal.user_id or ""):
            raise ValueError("the drafts of other users are not within reach")
        self._check(containers)
        return self._store.drafts(author, containers)

    def retention(self) -> RetentionStore:
        if self._principal.containers is not None:
            raise ValueError("retention concerns all containers, which are not within reach")
        return self._store.retention()

    async def save_reader(self, client_id: str, places: Mapping[SessionId, ReaderPlace]) -> None:
        await self._store.save_reader(self._own(client_id), places)

    async def take_reader(self, client_id: str) -> dict[SessionId, ReaderPlace]:
        return await self._store.take_reader(self._own(client_id))

    def _check(self, containers: Sequence[ContainerId] | None) -> None:
        if containers is None and self._principal.containers is not None:
            raise ValueError("the sessions of all containers are not within reach")
        for container_id in containers or ():
            if not self._principal.reaches(container_id):
                raise ContainerForbidden(container_id)

    def _own(self, client_id: str) -> str:
        """Clients choose their ids, so the user's id keeps those of two users apart."""
        user_id = self._principal.user_id
        return client_id if user_id is None else f"{user_id}:{client_id}"

    async def _within(self, finding: Awaitable[ContainerId | None]) -> ContainerId | None:
        container_id = await finding
        return container_id if container_id is not None and self._principal.reaches(container_id) else None
