"""The suite itself: stores with one planted fault each must not pass."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import count

import anyio
import pytest
from msgspec import structs

from agentvm.model.ids import ContainerId, TenantId, UserId
from agentvm.model.ledger import Credit, LedgerEntry, UsageRow, Wallet
from agentvm.model.turn import Turn
from agentvm.storage.base import Committed, SessionWrite
from agentvm.storage.engine import open_store
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sql.accounts import Accounts
from agentvm.storage.sql.accounts.ledger import LedgerStore
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.store import Store
from agentvm.testing.conformance import ledger as suite

pytestmark = pytest.mark.anyio

Check = Callable[[Store], Awaitable[None]]


def planted(of: type[LedgerStore]) -> type[Store]:
    class Faulty(Store):
        def accounts(self, tenant_id: TenantId) -> Accounts:
            accounts = super().accounts(tenant_id)
            accounts.ledger = of(self._database, tenant_id)
            return accounts

    return Faulty


class Blind(LedgerStore):
    def __init__(self, database: SqliteDatabase, tenant_id: TenantId) -> None:
        super().__init__(database, TenantId("everybody"))


class Trusting(LedgerStore):
    async def add(self, entries: Sequence[LedgerEntry], *, answered: Sequence[str] = ()) -> int:
        return sum([await LedgerStore(self._database, each.tenant_id).add([each]) for each in entries])


class Doubling(LedgerStore):
    numbers = count()

    async def add(self, entries: Sequence[LedgerEntry], *, answered: Sequence[str] = ()) -> int:
        return await super().add([structs.replace(each, key=f"{each.key} {next(self.numbers)}") for each in entries])


class Rounding(LedgerStore):
    async def wallet(self) -> Wallet:
        exact = await super().wallet()
        return structs.replace(exact, spent=int(float(exact.spent)))


class Guessing(LedgerStore):
    """Takes a tenant without money for one that never paid."""

    async def wallet(self) -> Wallet:
        exact = await super().wallet()
        return structs.replace(exact, prepaid=exact.credited != 0)


class Generous(LedgerStore):
    numbers = count()

    async def credit(self, credit: Credit) -> bool:
        return await super().credit(structs.replace(credit, reference=f"{credit.reference} {next(self.numbers)}"))


class Lavish(LedgerStore):
    """Gives back whatever is asked for."""

    async def credit(self, credit: Credit) -> bool:
        row = (self._tenant_id, credit.reference, credit.at, credit.amount, credit.note, credit.actor)

        def write(connection: Connection) -> bool:
            return connection.execute("INSERT OR IGNORE INTO credits VALUES (NULL, ?, ?, ?, ?, ?, ?)", row) == 1

        return await self._database.write(write)


class Careless(LedgerStore):
    """Ignores whose usage is asked for."""

    async def usage(
        self,
        *,
        by: Sequence[str],
        since: int = 0,
        until: int | None = None,
        user_id: UserId | None = None,
        containers: Sequence[ContainerId] | None = None,
    ) -> tuple[UsageRow, ...]:
        return await super().usage(by=by, since=since, until=until, user_id=user_id, containers=containers or None)


class Lenient(Store):
    """Forgives what a session that is gone has used."""

    async def commit(self, writes: Sequence[SessionWrite], *, entry: bytes | None = None, forget: int = 0) -> Committed:
        gone = (await super().commit([replace(write, ledger=(), chunk=None) for write in writes])).gone
        left = [write for write in writes if write.session_id not in gone]
        return replace(await super().commit(left, entry=entry, forget=forget), gone=gone)


class Hasty(Store):
    """Bills before it stores."""

    async def commit(self, writes: Sequence[SessionWrite], *, entry: bytes | None = None, forget: int = 0) -> Committed:
        for write in writes:
            await self.accounts(write.tenant_id).ledger.add(write.ledger)
        return await super().commit(writes, entry=entry, forget=forget)


class Forgetful(Store):
    """Forgets who sent a turn."""

    async def list_unfinished(self) -> tuple[tuple[TenantId, Turn], ...]:
        def forget(connection: Connection) -> None:
            connection.execute("UPDATE turns SET user_id = NULL")

        await self._database.write(forget)
        return await super().list_unfinished()


@pytest.mark.parametrize(
    ("faulty", "check"),
    [
        (planted(Blind), suite.check_ledgers_of_tenants_never_mix),
        (planted(Trusting), suite.check_ledgers_of_tenants_never_mix),
        (planted(Doubling), suite.check_an_entry_is_added_once),
        (planted(Doubling), suite.check_entries_added_side_by_side_are_all_counted),
        (planted(Rounding), suite.check_sums_of_money_are_exact),
        (planted(Guessing), suite.check_money_that_came_and_went_leaves_a_prepaid_wallet),
        (planted(Generous), suite.check_a_wallet_is_what_was_paid_less_what_was_used),
        (planted(Lavish), suite.check_no_more_is_taken_back_than_there_is),
        (planted(Careless), suite.check_usage_is_of_a_time_a_user_and_some_containers),
        (Lenient, suite.check_what_a_deleted_session_used_is_owed),
        (Hasty, suite.check_a_commit_that_fails_bills_nothing),
        (Forgetful, suite.check_a_turn_keeps_who_sent_it),
    ],
)
async def test_a_planted_fault_is_seen(faulty: type[Store], check: Check) -> None:
    with anyio.fail_after(10):
        async with open_store(None) as sound:
            with pytest.raises(AssertionError):
                await check(faulty(sound._database))


def test_every_check_is_in_the_list() -> None:
    assert [check.__name__ for check in suite.CHECKS] == [name for name in vars(suite) if name.startswith("check_")]
