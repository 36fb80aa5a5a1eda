"""The suite itself: stores with one planted fault each must not pass."""

from collections.abc import Sequence

import pytest
from tests.testing.conformance.test_accounts import planted as planted_account
from tests.testing.conformance.test_readers import Check, is_found

from agentvm.model.account import User
from agentvm.model.ids import ContainerId, TenantId, UserId
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.erasing import Advanced, Breathe, Erasure, Owned
from agentvm.storage.sql.accounts.users import UserStore
from agentvm.storage.sql.erasing import Erasing
from agentvm.storage.sql.store import Store
from agentvm.testing.conformance import erasing as suite

pytestmark = pytest.mark.anyio


class Hiding(Erasing):
    """Deletes the container from sight, and erases nothing."""

    async def advance(self, erasure: Erasure) -> Advanced:
        return Advanced(more=False)


class Silent(Erasing):
    async def advance(self, erasure: Erasure) -> Advanced:
        return Advanced(more=(await super().advance(erasure)).more)


class Immortal(Erasing):
    async def delete_container(self, tenant_id: TenantId, container_id: ContainerId, now: int) -> tuple[UserId, ...] | None:
        return () if await self.weigh(tenant_id, container_id=container_id) is not None else None


class Hasty(Erasing):
    async def clean(self, erasures: Sequence[Erasure], breathe: Breathe) -> bool:
        await self._forget([erasure.erasure_id for erasure in erasures])
        return True


class Weightless(Erasing):
    async def weigh(
        self, tenant_id: TenantId, *, container_id: ContainerId | None = None, user_id: UserId | None = None
    ) -> Owned | None:
        return Owned()


class Inheriting(UserStore):
    async def add(self, user: User, homes: Sequence[ContainerId] = ()) -> None:
        await super().add(user)
        if homes:
            await self.bind(user.user_id, homes[0])


def of(kind: type[Erasing]) -> type[Store]:
    class Faulty(Store):
        def __init__(self, database: SqliteDatabase) -> None:
            super().__init__(database)
            self.erasing = kind(database)

    return Faulty


@pytest.mark.parametrize(
    ("faulty", "check"),
    [
        (of(Hiding), suite.check_a_container_of_the_same_name_begins_with_nothing),
        (of(Hiding), suite.check_a_tenant_takes_everything),
        (of(Hiding), suite.check_the_ledger_stays_without_the_name_of_the_container),
        (of(Silent), suite.check_an_erasure_says_which_sessions_are_gone),
        (of(Immortal), suite.check_a_deleted_container_is_gone_at_once),
        (of(Immortal), suite.check_nothing_is_added_to_a_container_that_is_being_erased),
        (of(Immortal), suite.check_those_bound_to_a_deleted_container_lose_it_but_whose_first_it_is),
        (of(Hasty), suite.check_what_a_journal_still_tells_of_is_not_forgotten),
        (of(Weightless), suite.check_a_user_takes_what_is_theirs_alone),
        (planted_account("users", Inheriting), suite.check_a_home_is_given_once),
    ],
)
async def test_a_planted_fault_is_found(faulty: type[Store], check: Check) -> None:
    await is_found(faulty, check)


def test_every_check_is_in_the_list() -> None:
    assert [check.__name__ for check in suite.CHECKS] == [name for name in vars(suite) if name.startswith("check_")]
