"""Limits hold for all nodes together: the parts that nodes take never exceed them, and what a node leaves is free again."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack

import anyio
import pytest
from msgspec import structs
from tests.conformance.accounts import tenant
from tests.conformance.ledger import entry
from tests.conformance.log import write
from tests.conformance.records import SESSION, image, turn
from tests.conformance.store import ACME, settle

from agentvm.model.ledger import Credit
from agentvm.model.quota_part import WALLET, LimitKey, PartNeed
from agentvm.storage.engine import open_shared
from agentvm.storage.sql.accounts.quota_parts import SHARE, ClaimedPart, PartStore
from agentvm.storage.sql.nodes import Claim, NodeStore
from agentvm.storage.sql.store import Store

Node = tuple[Store, NodeStore]
TOKENS = LimitKey("tokens_per_day", "", 1_000, 10_000)
REQUESTS = LimitKey("requests_per_minute", "", 60_000, 120_000)
CONNECTIONS = LimitKey("connections", "", 0, None)
MONEY = LimitKey(WALLET, "", 0, None)
ENTRY_TOKENS = 100


@pytest.fixture
async def pair(database_url: str) -> AsyncGenerator[tuple[Node, Node]]:
    """Two nodes over one database with a tenant."""
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(open_shared(database_url, "first", "1"))
        second = await stack.enter_async_context(open_shared(database_url, "second", "1"))
        await first[0].directory.add_tenant(tenant(ACME))
        yield first, second


def parts(node: Node) -> PartStore:
    return node[0].accounts(ACME).quota_parts


async def take(node: Node, adding: int, limit: int, used: int = 0, key: LimitKey = TOKENS) -> ClaimedPart:
    return await parts(node).take(key, PartNeed(used, adding, limit))


async def test_a_part_comes_with_a_tenth_of_what_is_left_and_no_two_nodes_get_the_same(pair: tuple[Node, Node]) -> None:
    first, second = pair
    mine = await take(first, 100, 1_000)
    assert mine.amount == 100 + 900 // SHARE
    other = await take(second, 100, 1_000)
    assert (other.amount, other.elsewhere, other.holders) == (100 + 710 // SHARE, mine.amount, (first[0].node_id,))
    # A part that is large enough stays as it is, and more than there is is not given.
    assert (await take(first, 50, 1_000, used=100)).amount == mine.amount
    assert (await take(second, 900, 1_000)).amount == other.amount
    partly = await parts(second).take(TOKENS, PartNeed(0, 900, 1_000, how="partly"))
    assert partly.amount == 1_000 - mine.amount


async def test_many_who_take_at_once_never_take_more_than_the_limit(pair: tuple[Node, Node]) -> None:
    taken = [0, 0]

    async def use_up(number: int) -> None:
        while (got := (await take(pair[number], 7, 500, used=taken[number])).amount) >= taken[number] + 7:
            taken[number] = got

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(use_up, 0)
        tasks.start_soon(use_up, 1)
    assert 500 - 7 < sum(taken) <= 500


async def test_what_the_ledger_has_counts_and_of_a_node_that_has_ended_only_that(pair: tuple[Node, Node]) -> None:
    first, second = pair
    await first[0].accounts(ACME).ledger.add([entry("a", at=2_000), entry("old", at=1)])
    assert (await take(first, 300, 1_000, used=ENTRY_TOKENS)).amount == 400 + 600 // SHARE
    assert (await take(second, 600, 1_000)).amount == 0
    await first[0].accounts(ACME).ledger.add([entry("b", at=3_000)])
    await first[1].leave()
    # It has used 200 of the 460 that it had taken.
    assert (await take(second, 600, 1_000)).elsewhere == 2 * ENTRY_TOKENS
    assert (await take(second, 0, 1_000)).amount == 600 + 200 // SHARE


async def test_the_part_of_a_node_stays_its_own_until_its_turns_are_taken_over(pair: tuple[Node, Node]) -> None:
    first, second = pair
    await settle(first[0], image())
    opened = structs.replace(write(), turns=(turn("t1"),))
    await first[0].commit([opened], entry=b"events", claims=[Claim(ACME, SESSION, 0, ends=False)])
    assert (await take(first, 900, 1_000)).amount > 900
    await first[1].leave()
    assert (await take(second, 100, 1_000)).amount == 0
    orphans = await second[1].adopt(10)
    await second[1].folded(orphans)
    assert (await take(second, 100, 1_000)).amount >= 100


async def test_a_lowered_part_is_free_for_others_and_requests_of_a_dead_node_count_until_their_minute_ends(
    pair: tuple[Node, Node],
) -> None:
    first, second = pair
    assert (await take(first, 9, 10, key=REQUESTS)).amount == 9
    assert (await take(second, 2, 10, key=REQUESTS)).amount == 0
    await parts(first).lower([(REQUESTS, 8)])
    assert (await take(second, 2, 10, key=REQUESTS)).amount == 2
    assert (await take(first, 3, 3, key=CONNECTIONS)).amount == 3
    await first[1].leave()
    assert (await take(second, 1, 10, used=2, key=REQUESTS)).amount == 2
    assert (await take(second, 3, 3, key=CONNECTIONS)).amount == 3


async def test_a_node_that_has_forgotten_what_it_counted_goes_on_with_its_part(pair: tuple[Node, Node]) -> None:
    assert (await take(pair[0], 8, 10, key=REQUESTS)).amount == 8
    again = await parts(pair[0]).take(REQUESTS, PartNeed(0, 1, 10, is_new=True))
    assert (again.before, again.amount) == (8, 9)


async def test_the_money_of_a_wallet_is_shared_and_the_database_knows_how_much_there_is(pair: tuple[Node, Node]) -> None:
    first, second = pair
    accounts = first[0].accounts(ACME)
    await accounts.ledger.credit(Credit(reference="r", at=1, amount=1_000, note=None, actor="root"))
    await accounts.ledger.add([entry("earlier", at=1, price=200)])
    # Whatever limit a node believes in.
    assert (await take(second, 801, 10**9, key=MONEY)).amount == 0
    assert (await take(second, 700, 0, key=MONEY)).amount == 710
    await accounts.ledger.credit(Credit(reference="back", at=2, amount=-50, note=None, actor="root"))
    assert (await take(first, 100, 10**9, key=MONEY)).amount == 0


async def test_use_beyond_a_limit_counts_when_it_must(pair: tuple[Node, Node]) -> None:
    forced = await parts(pair[0]).take(TOKENS, PartNeed(0, 1_500, 1_000, how="forced"))
    assert forced.amount == 1_500
    assert (await take(pair[1], 1, 1_000)).amount == 0


async def test_parts_of_windows_that_have_ended_are_dropped(pair: tuple[Node, Node]) -> None:
    await take(pair[0], 1, 10)
    await take(pair[0], 1, 10, key=CONNECTIONS)
    await pair[0][1].drop_ended()
    assert (await take(pair[1], 1, 10, key=CONNECTIONS)).elsewhere == 1
    assert (await take(pair[1], 1, 10)).elsewhere == 0
