"""The suite itself: stores with one planted fault each must not pass. Those that shall pass run it in their own tests."""

import itertools
from collections.abc import Awaitable, Callable, Sequence

import anyio
import pytest

from agentvm.model.ids import ContainerId, ImageId, SessionId, TenantId
from agentvm.model.message import Message
from agentvm.model.turn import Turn
from agentvm.storage.engine import open_store
from agentvm.storage.sql.container import ContainerStore
from agentvm.storage.sql.log import LogStore
from agentvm.storage.sql.store import Store, TenantStore
from agentvm.testing.conformance import store as suite

pytestmark = pytest.mark.anyio

Check = Callable[[Store], Awaitable[None]]


class TenantBlind(Store):
    def tenant(self, tenant_id: TenantId) -> TenantStore:
        return super().tenant(TenantId("everybody"))


class ContainerBlind(Store):
    def tenant(self, tenant_id: TenantId) -> TenantStore:
        class Tenant(TenantStore):
            def container(self, container_id: ContainerId) -> ContainerStore:
                return super().container(ContainerId(container_id[:1].lower()))

        return Tenant(self._database, tenant_id)


class WithContainers(Store):
    """A store whose containers are of the given class."""

    containers: type[ContainerStore]

    def tenant(self, tenant_id: TenantId) -> TenantStore:
        database, containers = self._database, self.containers

        class Tenant(TenantStore):
            def container(self, container_id: ContainerId) -> ContainerStore:
                return containers(database, tenant_id, container_id)

        return Tenant(database, tenant_id)


class LosesTurns(ContainerStore):
    def log(self, session_id: SessionId) -> LogStore:
        class Log(LogStore):
            async def record(self, *, messages: Sequence[Message] = (), turns: Sequence[Turn] = (), now: int) -> None:
                await super().record(messages=messages, now=now)

        return Log(self._database, self._key, session_id)


class Unordered(ContainerStore):
    async def list_messages(self, session_id: SessionId) -> tuple[Message, ...]:
        return (await super().list_messages(session_id))[::-1]


class Undeletable(ContainerStore):
    async def delete_image(self, image_id: ImageId) -> bool:
        return await self.get_image(image_id) is not None


def with_containers(of: type[ContainerStore]) -> type[Store]:
    return type(of.__name__, (WithContainers,), {"containers": of})


@pytest.mark.parametrize(
    ("faulty", "check"),
    [
        (TenantBlind, suite.check_things_are_found_in_their_container),
        (ContainerBlind, suite.check_a_container_is_matched_exactly),
        (with_containers(LosesTurns), suite.check_a_turn_ends_once),
        (with_containers(Unordered), suite.check_every_kind_of_message_comes_back_in_order),
        (with_containers(Undeletable), suite.check_deleting_an_image_removes_everything_of_it),
    ],
)
async def test_a_planted_fault_is_seen(faulty: type[Store], check: Check) -> None:
    with anyio.fail_after(5):
        async with open_store(None) as sound:
            with pytest.raises(AssertionError):
                await check(faulty(sound._database))


async def test_an_append_that_grows_with_the_session_is_seen() -> None:
    spent = itertools.accumulate(number**2 for number in itertools.count(1))
    with anyio.fail_after(5):
        async with open_store(None) as store:
            with pytest.raises(AssertionError):
                await suite.check_append_cost(store, lambda: next(spent), length=500)


def test_every_check_is_in_the_list() -> None:
    defined = {value for name, value in vars(suite).items() if name.startswith("check_")}
    assert set(suite.CHECKS) == defined - {suite.check_append_cost}
