from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio
import pytest
from tests.conformance.erasing import fill
from tests.conformance.records import HOME, image, message, session
from tests.conformance.store import ACME, settle

from agentvm.errors import StoreFailed
from agentvm.model.ids import ContainerId, SessionId, TenantId
from agentvm.sessions import erasing
from agentvm.sessions.erasing import Eraser
from agentvm.storage.engine import open_store
from agentvm.storage.erasing import Advanced, Breathe, Erasure
from agentvm.storage.sql.erasing import Erasing
from agentvm.storage.sql.store import Store


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasing, "COMMIT_PAUSE_SECONDS", 0)
    monkeypatch.setattr(erasing, "FIRST_RETRY_SECONDS", 0.001)


@dataclass
class Memory:
    """What was done to what memory knows."""

    stopped: list[tuple[TenantId, frozenset[ContainerId] | None]] = field(default_factory=list)
    forgotten: list[SessionId] = field(default_factory=list)

    async def stop(self, tenant_id: TenantId, containers: frozenset[ContainerId] | None, /) -> None:
        self.stopped.append((tenant_id, containers))

    def forget(self, tenant_id: TenantId, session_id: SessionId, /) -> None:
        self.forgotten.append(session_id)

    def eraser(self, store: Store) -> Eraser:
        return Eraser(store, self.stop, self.forget)


async def finished(store: Store) -> None:
    with anyio.fail_after(60):
        while await store.erasing.pending():
            await anyio.lowlevel.checkpoint()


async def while_it_runs(eraser: Eraser, act: Callable[[], Awaitable[None]]) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(eraser.run)
        await act()
        tasks.cancel_scope.cancel()


async def test_what_runs_there_is_stopped_before_anything_is_erased_and_memory_forgets_it() -> None:
    async with open_store(None) as store:
        await fill(store)
        await store.erasing.delete_container(ACME, HOME, now=9)
        memory = Memory()
        assert await memory.eraser(store).erase()
        assert memory.stopped == [(ACME, frozenset((HOME,)))]
        assert memory.forgotten == [SessionId(f"img-{HOME}-default")]
        assert await store.erasing.pending() == ()


async def test_what_was_left_by_a_restart_is_erased_without_being_asked_and_what_comes_later_when_it_is_told() -> None:
    async with open_store(None) as store:
        await settle(store, image())
        await settle(store, container="later")
        await store.erasing.delete_container(ACME, HOME, now=9)
        eraser = Memory().eraser(store)

        async def act() -> None:
            await finished(store)
            await store.erasing.delete_container(ACME, ContainerId("later"), now=9)
            eraser.wake()
            await finished(store)

        await while_it_runs(eraser, act)


class Refusing(Erasing):
    refusals = 2

    async def advance(self, erasure: Erasure) -> Advanced:
        if self.refusals:
            self.refusals -= 1
            raise StoreFailed("the disk is full")
        return await super().advance(erasure)


class Busy(Erasing):
    refusals = 2

    async def clean(self, erasures: object, breathe: Breathe) -> bool:
        self.refusals -= 1
        return self.refusals < 0 and await super().clean(await self.pending(), breathe)


@pytest.mark.parametrize("kind", [Refusing, Busy])
async def test_what_fails_or_must_wait_is_tried_again(kind: type[Erasing]) -> None:
    async with open_store(None) as store:
        await settle(store, image())
        await store.erasing.delete_container(ACME, HOME, now=9)
        store.erasing = kind(store._database)

        async def act() -> None:
            await finished(store)

        await while_it_runs(Memory().eraser(store), act)


class Counting(Erasing):
    merged = 0

    async def merge(self, breathe: Breathe) -> None:
        self.merged += 1
        await super().merge(breathe)


async def test_a_large_erasure_drops_the_words_of_what_is_gone_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasing, "MERGE_MESSAGES", 200)
    async with open_store(None) as store:
        home = await settle(store, image())
        await home.add_session(session("long"), [message(f"m{number}") for number in range(600)])
        await store.erasing.delete_container(ACME, HOME, now=9)
        store.erasing = counting = Counting(store._database)
        assert await Memory().eraser(store).erase()
        assert counting.merged > 1


async def test_nothing_to_erase_is_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_store(None) as store:
        store.erasing = counting = Counting(store._database)
        assert await Memory().eraser(store).erase()
        assert counting.merged == 0
        assert isinstance(store, Store)
