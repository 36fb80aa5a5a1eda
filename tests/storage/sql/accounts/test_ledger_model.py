"""The ledger against a model of dictionaries: however entries and credits arrive, wallet and usage are their plain sums."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from itertools import combinations
from typing import TypeVar

import hypothesis.strategies as st
import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec import structs
from tests.conformance.ledger import DAY_MS, billed, credit, entry
from tests.conformance.records import image
from tests.conformance.store import settle
from tests.support.examples import examples

from agentvm.errors import Conflict
from agentvm.model.ids import KeyId, SessionId, TenantId
from agentvm.model.ledger import LedgerEntry, UsageRow, Wallet
from agentvm.model.usage import Usage
from agentvm.storage.engine import open_store
from agentvm.storage.sql.accounts.ledger import DIMENSIONS, LedgerStore
from agentvm.storage.sql.store import Store

T = TypeVar("T")

TENANTS = (TenantId("t"), TenantId("u"))
GONE = SessionId("gone")
TENANT = st.sampled_from(TENANTS)
MONEY = st.none() | st.integers(0, 2**53 + 1)
TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "thinking_tokens")
VALUE: dict[str, Callable[[LedgerEntry], str | None]] = {
    "user": lambda each: each.user_id,
    "container": lambda each: each.container_id,
    "image": lambda each: each.image_id,
    "session": lambda each: each.session_id,
    "key": lambda each: each.key_id,
    "driver": lambda each: each.driver,
    "model": lambda each: each.model,
    "hour": lambda each: datetime.fromtimestamp(each.at // 1000, UTC).strftime("%Y-%m-%dT%H:00Z"),
    "day": lambda each: datetime.fromtimestamp(each.at // 1000, UTC).date().isoformat(),
    "month": lambda each: datetime.fromtimestamp(each.at // 1000, UTC).strftime("%Y-%m"),
}


@st.composite
def entries(draw: st.DrawFn) -> LedgerEntry:
    """Few keys, so that they recur; what is under a key differs, so that a second one would be seen."""
    names = {name: draw(st.sampled_from("xy")) for name in ("container", "image", "driver", "model", "turn")}
    if draw(st.booleans()):
        names["user"] = draw(st.sampled_from("ab"))
    key, at = draw(st.sampled_from("123456789")), draw(st.integers(0, 3 * DAY_MS))
    made = entry(key, at=at, price=None, cost=None, of=draw(TENANT), **names)
    used = Usage(**{name: draw(st.integers(0, 2**40)) for name in TOKENS}, estimated=draw(st.booleans()))
    key_id = draw(st.sampled_from([None, KeyId("k"), KeyId("l")]))
    return structs.replace(made, usage=used, key_id=key_id, cost=draw(MONEY), price=draw(MONEY))


class LedgerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.portal_context = start_blocking_portal()
        self.portal = self.portal_context.__enter__()
        self.store_context = self.portal.wrap_async_context_manager(open_store(None))
        self.store: Store = self.store_context.__enter__()
        self.entries: dict[TenantId, dict[str, LedgerEntry]] = {tenant: {} for tenant in TENANTS}
        self.credits: dict[TenantId, dict[str, int]] = {tenant: {} for tenant in TENANTS}
        for tenant in TENANTS:
            self.run(partial(settle, self.store, image(), tenant=tenant))

    def teardown(self) -> None:
        self.store_context.__exit__(None, None, None)
        self.portal_context.__exit__(None, None, None)

    def run(self, call: Callable[[], Awaitable[T]]) -> T:
        return self.portal.call(call)

    def ledger(self, tenant: TenantId) -> LedgerStore:
        return self.store.accounts(tenant).ledger

    def enter(self, tenant: TenantId, added: list[LedgerEntry]) -> int:
        own = self.entries[tenant]
        before = len(own)
        for each in added:
            own.setdefault(each.key, structs.replace(each, tenant_id=tenant))
        return len(own) - before

    @rule(tenant=TENANT, added=st.lists(entries(), max_size=4))
    def add(self, tenant: TenantId, added: list[LedgerEntry]) -> None:
        assert self.run(lambda: self.ledger(tenant).add(added)) == self.enter(tenant, added)

    @rule(writes=st.lists(st.tuples(TENANT, st.lists(entries(), max_size=3), st.booleans()), max_size=3))
    def commit(self, writes: list[tuple[TenantId, list[LedgerEntry], bool]]) -> None:
        """Some of the sessions are gone by then, which forgives nothing."""
        made = [billed(*added, of=tenant) for tenant, added, _ in writes]
        pairs = zip(made, writes, strict=True)
        sent = [structs.replace(write, session_id=GONE) if gone else write for write, (*_, gone) in pairs]
        committed = self.run(lambda: self.store.commit(sent))
        assert committed.gone == {GONE for *_, gone in writes if gone}
        for tenant, added, _ in writes:
            self.enter(tenant, added)

    @rule(tenant=TENANT, reference=st.sampled_from("rst"), amount=st.integers(-(2**53) - 1, 2**53 + 1))
    def pay(self, tenant: TenantId, reference: str, amount: int) -> None:
        new = reference not in self.credits[tenant]
        balance = sum(self.credits[tenant].values()) - sum(each.price or 0 for each in self.entries[tenant].values())
        if new and amount < 0 and balance + amount < 0:
            with pytest.raises(Conflict):
                self.run(lambda: self.ledger(tenant).credit(credit(reference, amount)))
            return
        assert self.run(lambda: self.ledger(tenant).credit(credit(reference, amount))) is new
        self.credits[tenant].setdefault(reference, amount)

    @invariant()
    def a_wallet_is_the_sum_of_its_books(self) -> None:
        for tenant in TENANTS:
            paid, used = self.credits[tenant].values(), self.entries[tenant].values()
            spent = sum(each.price or 0 for each in used)
            assert self.run(self.ledger(tenant).wallet) == Wallet(credited=sum(paid), spent=spent, prepaid=bool(paid))
            assert [each for _, each in self.run(self.ledger(tenant).list)] == list(used)

    @invariant()
    def usage_is_the_same_sum_however_it_is_grouped(self) -> None:
        for tenant in TENANTS:
            (whole,) = self.run(partial(self.ledger(tenant).usage, by=()))
            assert whole == total(self.entries[tenant].values())
            for size in (1, len(DIMENSIONS)):
                for by in combinations(DIMENSIONS, size):
                    rows = self.run(partial(self.ledger(tenant).usage, by=by))
                    groups: dict[tuple[str | None, ...], list[LedgerEntry]] = defaultdict(list)
                    for each in self.entries[tenant].values():
                        groups[tuple(VALUE[name](each) for name in by)].append(each)
                    members = [DIMENSIONS[name][0] for name in by]
                    assert len(rows) == len(groups)
                    for row in rows:
                        group = {member: getattr(row, member) for member in members}
                        assert row == structs.replace(total(groups[tuple(group.values())]), **group)


def total(used: Iterable[LedgerEntry]) -> UsageRow:
    listed = list(used)
    return UsageRow(
        calls=len(listed),
        **{name: sum(getattr(each.usage, name) for each in listed) for name in TOKENS},
        estimated_calls=sum(each.usage.estimated for each in listed),
        unpriced_calls=sum(each.price is None for each in listed),
        cost=sum(each.cost or 0 for each in listed),
        price=sum(each.price or 0 for each in listed),
    )


TestLedgerAgainstItsModel = LedgerMachine.TestCase
TestLedgerAgainstItsModel.settings = settings(
    max_examples=examples(8, 200), stateful_step_count=15, deadline=None, database=None
)
