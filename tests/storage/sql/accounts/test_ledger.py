from collections.abc import AsyncGenerator
from pathlib import Path

import apsw
import pytest
from msgspec import structs
from tests.conformance.ledger import credit, entry
from tests.conformance.store import ACME

from agentvm.errors import StoreFailed
from agentvm.model.ids import ContainerId, TurnId, UserId
from agentvm.model.ledger import TIER_DRIVER, TurnCharge, UsageRow, Wallet
from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase, open_database
from agentvm.storage.sql.accounts.ledger import DIMENSIONS, enter
from agentvm.storage.sql.store import Store


@pytest.mark.parametrize("table", ["ledger", "credits"])
@pytest.mark.parametrize("statement", ["UPDATE {} SET at = 0", "DELETE FROM {}"])
async def test_the_database_refuses_to_change_the_books(
    table: str, statement: str, database: SqliteDatabase, store: Store
) -> None:
    ledger = store.accounts(ACME).ledger
    await ledger.add([entry(price=4)])
    await ledger.credit(credit(amount=10))

    def tamper(connection: SqliteConnection) -> None:
        connection.execute(statement.format(table))

    with pytest.raises(StoreFailed, match="append-only"):
        await database.write(tamper)
    assert await ledger.wallet() == Wallet(credited=10, spent=4, prepaid=True)
    assert (len(await ledger.list()), len(await ledger.credits())) == (1, 1)


async def test_entering_says_how_many_were_new_and_may_run_twice(database: SqliteDatabase) -> None:
    work = enter(ACME, [entry("a"), entry("b"), entry("a")], 0)
    assert [await database.write(work) for _ in range(2)] == [2, 0]


async def test_a_wallet_that_would_overflow_takes_nothing(store: Store) -> None:
    ledger = store.accounts(ACME).ledger
    await ledger.add([entry("a", price=2**62)])
    with pytest.raises(StoreFailed):
        await ledger.add([entry("b", price=1), entry("c", price=2**62)])
    assert (await ledger.wallet()).spent == 2**62
    assert [each.key for _, each in await ledger.list()] == ["a"]


def test_every_dimension_is_a_member_of_a_usage_row() -> None:
    assert {member for member, _ in DIMENSIONS.values()} <= set(UsageRow.__struct_fields__)


async def test_a_group_with_and_without_a_user_are_two(store: Store) -> None:
    ledger = store.accounts(ACME).ledger
    await ledger.add([entry("a"), entry("b", user="u"), entry("c")])
    assert [(row.user_id, row.calls) for row in await ledger.usage(by=["user"])] == [(None, 2), ("u", 1)]


@pytest.fixture
async def explained(anyio_backend: str, tmp_path: Path) -> AsyncGenerator[tuple[Store, list[str]]]:
    """A store, and how each of its statements finds its rows."""
    plans: list[str] = []

    def note(cursor: apsw.Cursor, sql: str, bindings: object) -> bool:
        connection = cursor.connection
        if sql.split()[0] in {"SELECT", "INSERT", "UPDATE", "DELETE"}:
            connection.exec_trace = None
            rows = connection.execute(f"EXPLAIN QUERY PLAN {sql}", bindings)  # type: ignore[arg-type]
            plans.extend(detail for *_, detail in rows)
            connection.exec_trace = note
        return True

    def listen(connection: SqliteConnection) -> None:
        connection.raw.exec_trace = note

    async with open_database(tmp_path / "a.db", readers=1) as database:
        await database.write(listen)
        await database.read(listen)
        yield Store(database), plans


async def test_no_question_of_money_scans_the_books(explained: tuple[Store, list[str]]) -> None:
    store, plans = explained
    ledger = store.accounts(ACME).ledger
    await ledger.add([entry("a", user="u")])
    await ledger.credit(credit())
    await ledger.list(after=1, since=5, until=9)
    await ledger.usage(by=())
    await ledger.usage(by=("day", "model"), since=5, until=9)
    await ledger.usage(by=(), since=5, user_id=UserId("u"), containers=[ContainerId("home")])
    await ledger.turn_total("t1")
    await ledger.wallet()
    await ledger.credits()
    assert len(plans) >= 8
    # The names of containers are a list in the question, not a table.
    assert [step for step in plans if step.startswith("SCAN") and "json_each" not in step] == []
    assert any("ledger_in_order (tenant_id=? AND rowid>?)" in step for step in plans)
    assert any("ledger_of_users (tenant_id=? AND user_id=? AND at>? AND at<?)" in step for step in plans)


async def test_the_charge_of_a_turn_is_the_sum_of_its_calls_and_names_the_model_that_answered_last(store: Store) -> None:
    ledger = store.accounts(ACME).ledger
    calls = [
        structs.replace(entry("a", price=3), turn_id=TurnId("t1"), model="first"),
        structs.replace(entry("b", price=4), turn_id=TurnId("t1"), model="second"),
        structs.replace(entry("c", price=0), turn_id=TurnId("t1"), driver=TIER_DRIVER, model="process"),
        structs.replace(entry("d"), turn_id=TurnId("t2"), model="unpriced", price=None),
    ]
    await ledger.add(calls)
    assert await ledger.charges(["t1", "t2", "t3"]) == {
        "t1": TurnCharge(price=7, model="second"),
        "t2": TurnCharge(model="unpriced"),
    }
