"""Ledger conformance — what the store must do on every engine with usage, price and prepaid money."""

from collections.abc import Sequence

import anyio
from msgspec import structs

from agentvm.errors import Conflict, InvalidInput, StoreFailed
from agentvm.model.ids import ContainerId, ImageId, KeyId, TenantId, TurnId, UserId
from agentvm.model.ledger import Credit, LedgerEntry, UsageRow, Wallet
from agentvm.model.usage import NO_USAGE, Usage
from agentvm.storage.base import LogChunk, SessionWrite
from agentvm.storage.sql.store import Store
from tests.conformance.accounts import tenant
from tests.conformance.log import chunk
from tests.conformance.records import HOME, IMAGE, SESSION, image, message, turn
from tests.conformance.store import ACME, ODD, RIVAL, raises, settle

DAY_MS = 86_400_000
HUGE_TOKENS = 2**60
"""Far beyond what a float holds exactly."""


def entry(
    key: str = "e1", *, at: int = 1, price: int | None = 3, cost: int | None = 2, of: TenantId = ACME, **where: str
) -> LedgerEntry:
    """A model call; `where` may name user, container, image, turn, driver and model."""
    return LedgerEntry(
        key=key,
        at=at,
        tenant_id=of,
        user_id=UserId(where["user"]) if "user" in where else None,
        container_id=ContainerId(where.get("container", HOME)),
        image_id=ImageId(where.get("image", IMAGE)),
        session_id=SESSION,
        turn_id=TurnId(where.get("turn", "t1")),
        driver=where.get("driver", "anthropic"),
        model=where.get("model", "opus"),
        usage=Usage(input_tokens=10, output_tokens=20, cache_read_tokens=30, cache_write_tokens=40, thinking_tokens=5),
        cost=cost,
        price=price,
    )


def credit(reference: str = "r1", amount: int = 100, *, at: int = 1) -> Credit:
    return Credit(reference=reference, at=at, amount=amount, actor="root")


def billed(*entries: LedgerEntry, of: TenantId = ACME, text: str | None = None, log: LogChunk | None = None) -> SessionWrite:
    """The write of a turn's commit."""
    return SessionWrite(
        tenant_id=of,
        container_id=HOME,
        session_id=SESSION,
        now=7,
        messages=() if text is None else (message(text),),
        chunk=log,
        ledger=entries,
    )


async def check_an_entry_comes_back_as_it_was(store: Store) -> None:
    ledger = store.accounts(ACME).ledger
    used = Usage(input_tokens=1, output_tokens=2, cache_read_tokens=3, cache_write_tokens=4, thinking_tokens=5, estimated=True)
    full = structs.replace(entry("b", user="u", cost=HUGE_TOKENS + 1, price=HUGE_TOKENS + 3), usage=used, key_id=KeyId("k"))
    bare = entry("a", cost=None, price=None)
    assert await ledger.add([full, bare]) == 2
    assert [each for _, each in await ledger.list()] == [full, bare]
    assert {row.key_id: row.calls for row in await ledger.usage(by=("key",))} == {"k": 1, None: 1}


async def check_the_calls_of_a_turn_are_found(store: Store) -> None:
    ledger = store.accounts(ACME).ledger
    first, second, other = entry("a", turn="t1"), entry("b", turn="t1"), entry("c", turn="t2")
    await ledger.add([first, other, second])
    assert await ledger.of_turn("t1") == (first, second)
    assert await ledger.of_turn("gone") == ()
    assert await store.accounts(RIVAL).ledger.of_turn("t1") == ()


async def check_usage_is_summed_by_time(store: Store) -> None:
    ledger = store.accounts(ACME).ledger
    hour = 3_600_000
    await ledger.add([entry(str(number), at=at) for number, at in enumerate((0, hour - 1, hour, 31 * DAY_MS))])
    by_hour = await ledger.usage(by=("hour",))
    assert [(row.hour, row.calls) for row in by_hour] == [
        ("1970-01-01T00:00Z", 2),
        ("1970-01-01T01:00Z", 1),
        ("1970-02-01T00:00Z", 1),
    ]
    by_month = await ledger.usage(by=("month",))
    assert [(row.month, row.calls) for row in by_month] == [("1970-01", 3), ("1970-02", 1)]


async def check_an_entry_is_added_once(store: Store) -> None:
    ledger = store.accounts(ACME).ledger
    assert await ledger.add([entry("a", price=1), entry("b", price=2), entry("a", price=50)]) == 2
    assert await ledger.add([entry("b", price=70), entry("c", price=4)]) == 1
    assert await ledger.add([]) == 0
    assert [(each.key, each.price) for _, each in await ledger.list()] == [("a", 1), ("b", 2), ("c", 4)]
    assert await ledger.wallet() == Wallet(spent=7)


async def check_a_commit_enters_what_its_turn_cost(store: Store) -> None:
    await settle(store, image())
    ledger = store.accounts(ACME).ledger
    await ledger.add([entry("a", price=1)])
    await store.commit([billed(entry("a", price=9), entry("b", price=2)), billed(entry("b", price=9), entry("c", price=4))])
    await store.commit([billed(entry("c", price=9))])
    assert [(each.key, each.price) for _, each in await ledger.list()] == [("a", 1), ("b", 2), ("c", 4)]
    assert (await ledger.wallet()).spent == 7


async def check_a_commit_that_fails_bills_nothing(store: Store) -> None:
    home = await settle(store, image())
    await store.commit([billed(log=chunk(1, 3))])
    # Two chunks cannot end with the same event.
    assert await raises(StoreFailed, store.commit([billed(entry("a"), text="m1"), billed(entry("b"), log=chunk(2, 3))]))
    ledger = store.accounts(ACME).ledger
    assert (await ledger.list(), await ledger.wallet(), await home.list_messages(SESSION)) == ((), Wallet(), ())
    await store.commit([billed(entry("a"), entry("b"))])
    assert (await ledger.wallet()).spent == 6


async def check_what_a_deleted_session_used_is_owed(store: Store) -> None:
    home = await settle(store, image())
    await home.delete_image(IMAGE)
    committed = await store.commit([billed(entry("a", price=5), text="m1")])
    assert committed.gone == {SESSION}
    assert (await store.accounts(ACME).ledger.wallet()).spent == 5
    assert await store.accounts(ACME).ledger.add([entry("a", price=5)]) == 0


async def check_a_turn_keeps_who_sent_it(store: Store) -> None:
    home = await settle(store, image())
    sent = structs.replace(turn("t1"), user_id=UserId("u_alice"), key_id=KeyId("k_alice"), client_key="key")
    await home.log(SESSION).record(turns=[sent, turn("t2", at=2)], now=2)
    await home.log(SESSION).record(turns=[structs.replace(sent, user_id=UserId("u_bob"), attempts=1)], now=3)
    begun = structs.replace(sent, attempts=1)
    assert await store.list_unfinished() == ((ACME, begun), (ACME, turn("t2", at=2)))
    assert await home.log(SESSION).find_turn("key") == begun
    await home.log(SESSION).record(turns=[turn("t1", outcome="failed", ended=5)], now=5)
    assert [(each.user_id, each.key_id) for each in await home.log(SESSION).list_turns()] == [
        ("u_alice", "k_alice"),
        (None, None),
    ]


async def check_the_ledger_is_read_page_by_page(store: Store) -> None:
    ledger = store.accounts(ACME).ledger
    await ledger.add([entry(key, at=at) for key, at in (("a", 30), ("b", 10), ("c", 20), ("d", 20))])
    numbers = [number for number, _ in await ledger.list()]
    assert numbers == sorted(numbers)

    async def keys(after: int = 0, limit: int = 9, since: int = 0, until: int | None = None) -> str:
        return "".join(each.key for _, each in await ledger.list(after=after, limit=limit, since=since, until=until))

    assert await keys() == "abcd"
    assert await keys(limit=2) == "ab"
    assert await keys(after=numbers[1], limit=1) == "c"
    assert await keys(since=20) == "acd"
    assert await keys(since=20, until=30) == "cd"
    assert await keys(until=10) == ""
    assert await keys(after=numbers[2], since=20) == "d"


async def check_usage_is_summed_by_any_of_its_dimensions(store: Store) -> None:
    ledger = store.accounts(ACME).ledger
    unpriced = entry("3", at=DAY_MS, price=None, cost=None, user="u", container="c", image="i", driver="openai", model="gpt")
    guessed = structs.replace(unpriced, key="4", usage=structs.replace(unpriced.usage, estimated=True))
    await ledger.add([entry("1", at=DAY_MS - 1), entry("2", at=DAY_MS - 1, user="u"), unpriced, guessed])
    first = _row(2, cost=4, price=6)
    last = _row(2, estimated_calls=1, unpriced_calls=2)
    for by, values in {
        "container": (("c", last), (HOME, first)),
        "image": (("i", last), (IMAGE, first)),
        "driver": (("anthropic", first), ("openai", last)),
        "model": (("gpt", last), ("opus", first)),
        "day": (("1970-01-01", first), ("1970-01-02", last)),
    }.items():
        member = f"{by}_id" if by in {"container", "image"} else by
        wanted = tuple(structs.replace(row, **{member: value}) for value, row in values)
        assert await ledger.usage(by=[by]) == wanted, by
    assert {(row.user_id, row.day, row.calls) for row in await ledger.usage(by=["day", "user"])} == {
        (None, "1970-01-01", 1),
        ("u", "1970-01-01", 1),
        ("u", "1970-01-02", 2),
    }


async def check_usage_of_nothing_is_one_row_of_zeros(store: Store) -> None:
    ledger = store.accounts(ACME).ledger
    assert await ledger.usage(by=()) == (_row(0),)
    assert await ledger.usage(by=["user"]) == ()


async def check_usage_is_of_a_time_a_user_and_some_containers(store: Store) -> None:
    ledger = store.accounts(ACME).ledger
    await ledger.add([entry(f"{c}{u}{at}", at=at, container=c, user=u) for c in "cde" for u in "uv" for at in (10, 20)])

    async def calls(
        *, since: int = 0, until: int | None = None, user: str | None = None, containers: Sequence[str] | None = None
    ) -> int:
        names = None if containers is None else [ContainerId(name) for name in containers]
        who = None if user is None else UserId(user)
        (row,) = await ledger.usage(by=(), since=since, until=until, user_id=who, containers=names)
        return row.calls

    assert await calls() == 12
    assert (await calls(since=10), await calls(since=11), await calls(until=20)) == (12, 6, 6)
    assert await calls(since=10, until=10) == 0
    assert (await calls(user="u"), await calls(user="x")) == (6, 0)
    assert (await calls(containers="ce"), await calls(containers="c*"), await calls(containers=[])) == (8, 4, 0)
    assert await calls(since=20, user="v", containers=["d", "d", "gone"]) == 1


async def check_usage_by_anything_else_is_refused(store: Store) -> None:
    ledger = store.accounts(ACME).ledger
    for unknown in ("tenant", "user_id", "", "price; --", "1"):
        said = "nothing"
        try:
            await ledger.usage(by=["day", unknown])
        except InvalidInput as refusal:
            said = str(refusal)
        assert all(valid in said for valid in ("user", "container", "image", "driver", "model", "day")), unknown


async def check_sums_of_money_are_exact(store: Store) -> None:
    ledger = store.accounts(ACME).ledger
    await ledger.add([entry(str(number), price=HUGE_TOKENS + number, cost=HUGE_TOKENS) for number in range(5)])
    (row,) = await ledger.usage(by=["model"])
    assert (row.price, row.cost) == (5 * HUGE_TOKENS + 10, 5 * HUGE_TOKENS)
    assert (await ledger.wallet()).spent == 5 * HUGE_TOKENS + 10
    assert (await ledger.turn_total("t1"))[1] == 5 * HUGE_TOKENS + 10


async def check_a_turn_costs_what_its_calls_cost(store: Store) -> None:
    ledger = store.accounts(ACME).ledger
    await ledger.add([entry("a", price=3), entry("b", price=None), entry("c", price=4), entry("d", price=9, turn="t2")])
    assert [(await ledger.turn_total(turn_id))[1] for turn_id in ("t1", "t2", "t3")] == [7, 9, 0]
    used = sum((entry("a").usage for _ in range(3)), NO_USAGE)
    assert [(await ledger.turn_total(turn_id))[0] for turn_id in ("t1", "t3")] == [used, NO_USAGE]


async def check_a_wallet_is_what_was_paid_less_what_was_used(store: Store) -> None:
    ledger = store.accounts(ACME).ledger
    assert await ledger.wallet() == Wallet()
    await ledger.add([entry("a", price=5), entry("b", price=None)])
    assert await ledger.wallet() == Wallet(spent=5)
    full = structs.replace(credit("r1", 100, at=5), note="thanks")
    assert await ledger.credit(full) is True
    assert await ledger.credit(credit("r1", 900)) is False
    assert await ledger.credit(credit("r2", -30, at=9)) is True
    assert await ledger.credit(credit("r3", 1, at=5)) is True
    await ledger.add([entry("c", price=7)])
    wallet = await ledger.wallet()
    assert (wallet, wallet.balance) == (Wallet(credited=71, spent=12, prepaid=True), 59)
    assert await ledger.credits() == (credit("r2", -30, at=9), credit("r3", 1, at=5), full)
    assert await ledger.credits(limit=1) == (credit("r2", -30, at=9),)


async def check_money_that_came_and_went_leaves_a_prepaid_wallet(store: Store) -> None:
    ledger = store.accounts(ACME).ledger
    await ledger.credit(credit("r1", 5))
    await ledger.credit(credit("r2", -5))
    assert await ledger.wallet() == Wallet(prepaid=True)


async def check_no_more_is_taken_back_than_there_is(store: Store) -> None:
    """Also by those who take back at once."""
    ledger = store.accounts(ACME).ledger
    assert await raises(Conflict, ledger.credit(credit("r0", -1)))
    await ledger.credit(credit("r1", 100))
    await ledger.add([entry(price=40)])
    taken: list[str] = []

    async def take(reference: str) -> None:
        if not await raises(Conflict, ledger.credit(credit(reference, -25))):
            taken.append(reference)

    async with anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(take, f"back {number}")
    assert len(taken) == 2
    assert (await ledger.wallet()).balance == 10
    # The same once more is the same, not more.
    assert await ledger.credit(credit(taken[0], -25)) is False


async def check_ledgers_of_tenants_never_mix(store: Store) -> None:
    """The same keys, references and ids in both; an entry is its scope's, whatever tenant it names."""
    for each in (ACME, RIVAL):
        await settle(store, image(), tenant=each)
    ours, theirs = store.accounts(ACME).ledger, store.accounts(RIVAL).ledger
    assert await ours.add([entry("a", price=1, of=RIVAL)]) == 1
    assert await theirs.add([entry("a", price=10)]) == 1
    await store.commit([billed(entry("b", price=2, of=RIVAL)), billed(entry("b", price=20), of=RIVAL)])
    assert (await ours.credit(credit(amount=100)), await theirs.credit(credit(amount=500))) == (True, True)
    assert [each for _, each in await ours.list()] == [entry("a", price=1), entry("b", price=2)]
    assert [each for _, each in await theirs.list()] == [entry("a", price=10, of=RIVAL), entry("b", price=20, of=RIVAL)]
    assert [(await each.turn_total("t1"))[1] for each in (ours, theirs)] == [3, 30]
    assert [(await each.usage(by=["image"]))[0].price for each in (ours, theirs)] == [3, 30]
    assert [[each.amount for each in await of.credits()] for of in (ours, theirs)] == [[100], [500]]
    assert [(await each.wallet()).balance for each in (ours, theirs)] == [97, 470]


async def check_a_deleted_tenant_keeps_its_ledger(store: Store) -> None:
    await store.directory.add_tenant(tenant())
    ledger = store.accounts(ACME).ledger
    await ledger.credit(credit(amount=10))
    await ledger.add([entry("a", price=4)])
    assert await store.directory.delete_tenant(ACME, now=9) is True
    assert (await ledger.wallet()).balance == 6
    # A turn that was at work when it happened is still entered.
    assert await ledger.add([entry("b", price=1)]) == 1
    assert (await ledger.wallet()).balance == 5


async def check_entries_added_side_by_side_are_all_counted(store: Store) -> None:
    await settle(store, image())
    ledger = store.accounts(ACME).ledger

    async def work(writer: int) -> None:
        for number in range(10):
            await ledger.add([entry(f"{writer}-{number}", price=1), entry(f"all-{number}", price=100)])
            await store.commit([billed(entry(f"{writer}-{number}", price=1), entry(f"turn {writer}-{number}", price=10))])

    async with anyio.create_task_group() as tasks:
        for writer in range(10):
            tasks.start_soon(work, writer)
    assert await ledger.wallet() == Wallet(spent=100 + 10 * 100 + 100 * 10)
    (row,) = await ledger.usage(by=())
    assert (row.calls, row.price) == (210, 2100)


async def check_odd_names_in_the_ledger_are_only_text(store: Store) -> None:
    for odd in ODD:
        ledger = store.accounts(TenantId(odd)).ledger
        odd_entry = entry(odd, of=TenantId(odd), user=odd, container=odd, image=odd, turn=odd, driver=odd, model=odd)
        assert await ledger.add([odd_entry, odd_entry]) == 1
        assert [each for _, each in await ledger.list()] == [odd_entry]
        by = ("user", "container", "image", "driver", "model")
        (row,) = await ledger.usage(by=by, user_id=UserId(odd), containers=[ContainerId(odd)])
        assert {row.user_id, row.container_id, row.image_id, row.driver, row.model} == {odd}
        assert (await ledger.turn_total(odd))[1] == 3
        assert (await ledger.credit(credit(odd)), await ledger.credit(credit(odd))) == (True, False)


def _row(calls: int, *, cost: int = 0, price: int = 0, estimated_calls: int = 0, unpriced_calls: int = 0) -> UsageRow:
    """The sum of so many entries of `entry`."""
    return UsageRow(
        calls=calls,
        input_tokens=calls * 10,
        output_tokens=calls * 20,
        cache_read_tokens=calls * 30,
        cache_write_tokens=calls * 40,
        thinking_tokens=calls * 5,
        estimated_calls=estimated_calls,
        unpriced_calls=unpriced_calls,
        cost=cost,
        price=price,
    )
