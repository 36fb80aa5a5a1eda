"""The suite itself: stores with one planted fault each must not pass."""

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping

import anyio
import pytest

from agentvm.model.ids import ContainerId, SessionId, TenantId
from agentvm.storage.carry import Attached, Carried, Continued, ExportedHistory, MessagePart, Present, Said, SessionHere
from agentvm.storage.engine import open_store
from agentvm.storage.sql.carry import Carrier
from agentvm.storage.sql.store import Store
from agentvm.testing.conformance import carry as suite

pytestmark = pytest.mark.anyio

Check = Callable[[Store], Awaitable[None]]


class Short(Carrier):
    async def read(self, container_id: ContainerId, session_id: SessionId, history: ExportedHistory, after: int) -> MessagePart:
        page = await super().read(container_id, session_id, history, after)
        return MessagePart(page.messages[:-1], page.next)


class Moving(Carrier):
    async def read(self, container_id: ContainerId, session_id: SessionId, history: ExportedHistory, after: int) -> MessagePart:
        return await super().read(container_id, session_id, await self.history(container_id, session_id), after)


class Hasty(Carrier):
    async def history(self, container_id: ContainerId, session_id: SessionId) -> ExportedHistory:
        found = await super().history(container_id, session_id)
        return ExportedHistory(found.turns, frozenset(), found.last)


class Forgetful(Carrier):
    async def images_here(self, image_ids: Collection[str]) -> Mapping[str, ContainerId]:
        return {}


class Absent(Carrier):
    async def sessions_here(self, wanted: Mapping[str, str | None]) -> Mapping[str, SessionHere]:
        return {}


class Deaf(Carrier):
    """Hears nothing of what is said behind something that is here."""

    async def add(self, load: Callable[[], Iterator[Carried]], now: int) -> None:
        def records() -> Iterator[Carried]:
            known = False
            for one in load():
                known = isinstance(one, Continued | Present) or (known and isinstance(one, Said | Attached))
                if not (known and isinstance(one, Said)):
                    yield one

        await super().add(records, now)


class Careless(Carrier):
    """Adds behind whatever is the last by now."""

    async def add(self, load: Callable[[], Iterator[Carried]], now: int) -> None:
        records = list(load())
        for at, one in enumerate(records):
            if isinstance(one, Continued):
                found = await self.sessions_here({one.session.session_id: None})
                records[at] = Continued(one.session, found[one.session.session_id].last)
        await super().add(lambda: iter(records), now)


class Piecemeal(Carrier):
    async def add(self, load: Callable[[], Iterator[Carried]], now: int) -> None:
        records = list(load())
        for at in (0, 2) if len(records) == 4 else (0,):
            part = records[at : at + 2] if len(records) == 4 else records
            await super().add(lambda part=part: iter(part), now)  # type: ignore[misc]


class Light(Carrier):
    """Leaves the files where they are."""

    async def add(self, load: Callable[[], Iterator[Carried]], now: int) -> None:
        await super().add(lambda: (one for one in load() if not isinstance(one, Attached)), now)


class Blind(Carrier):
    def __init__(self, database: object, tenant_id: TenantId) -> None:
        super().__init__(database, TenantId("acme"))  # type: ignore[arg-type]


def of(kind: type[Carrier]) -> type[Store]:
    class Faulty(Store):
        def carrier(self, tenant_id: TenantId) -> Carrier:
            return kind(self._database, tenant_id)

    return Faulty


FAULTS = [
    (Short, suite.check_moves),
    (Moving, suite.check_pages),
    (Hasty, suite.check_pages),
    (Forgetful, suite.check_moves),
    (Absent, suite.check_moves),
    (Deaf, suite.check_continues),
    (Careless, suite.check_continues),
    (Blind, suite.check_moves),
    (Light, suite.check_files_come_along),
    (Piecemeal, suite.check_all_or_nothing),
]


@pytest.mark.parametrize(("kind", "check"), FAULTS)
async def test_a_planted_fault_is_found(kind: type[Carrier], check: Check) -> None:
    with anyio.fail_after(30), pytest.raises(AssertionError):
        async with open_store(None) as store:
            await check(of(kind)(store._database))


def test_every_check_has_its_fault() -> None:
    assert {check for _, check in FAULTS} == set(suite.SUITE)
