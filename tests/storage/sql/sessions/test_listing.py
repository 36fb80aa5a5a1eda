"""Lists against a naive model, under random writes, and while pages are being read."""

from dataclasses import dataclass, field

import anyio
import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conformance.records import SESSION, image, session
from tests.conformance.sessions import mine, said
from tests.conformance.store import ACME, settle
from tests.support.examples import examples

from agentvm.model.ids import SessionId
from agentvm.storage.engine import open_store
from agentvm.storage.sessions import SessionQuery
from agentvm.storage.sql.sessions import listing
from agentvm.storage.sql.store import Store

acts = st.tuples(
    st.sampled_from(["add", "say", "pin", "unpin", "archive", "unarchive", "delete", "restore"]), st.integers(0, 7)
)


@dataclass
class ExistingPart:
    key: int
    active_at: int
    pinned: bool = False
    archived: bool = False
    deleted: bool = False
    spoken: bool = False


@dataclass
class Model:
    """What the store should know."""

    sessions: dict[str, ExistingPart] = field(default_factory=lambda: {SESSION: ExistingPart(0, 1)})

    def order(self, archived: bool | None) -> list[str]:
        shown = [name for name, one in self.sessions.items() if not one.deleted and archived in (None, one.archived)]
        rank = {name: (one.pinned, one.active_at, one.key) for name, one in self.sessions.items()}
        return sorted(shown, key=lambda name: rank[name], reverse=True)


async def act(store: Store, model: Model, what: str, which: int, now: int) -> None:
    home, sessions = await settle(store), mine(store)
    if what == "add":
        name = f"s{len(model.sessions)}"
        await home.add_session(session(name, now=now))
        model.sessions[name] = ExistingPart(len(model.sessions), now)
        return
    name = list(model.sessions)[which % len(model.sessions)]
    one, named = model.sessions[name], SessionId(name)
    if what == "delete" and name != SESSION:
        await sessions.delete(named, now)
        one.deleted = True
    elif what == "restore":
        await sessions.restore(named, now, deleted_after=0)
        one.deleted = False
    elif one.deleted:
        return
    elif what == "say":
        # The clock goes back now and then.
        at = now - 5 if which % 2 else now
        await home.log(named).record(messages=[said(f"m{now}", "x", at)], now=now)
        one.active_at, one.spoken = max(one.active_at, at) if one.spoken else at, True
    elif what in ("pin", "unpin"):
        await sessions.keep(named, pinned=what == "pin", now=now)
        one.pinned = what == "pin"
    elif what in ("archive", "unarchive"):
        await sessions.keep(named, archived=what == "archive", now=now)
        one.archived = what == "archive"


async def pages(store: Store, archived: bool | None, limit: int) -> tuple[list[str], set[int]]:
    found: list[str] = []
    totals: set[int] = set()
    after = None
    while True:
        page = await mine(store).list(SessionQuery(archived=archived, limit=limit, after=after))
        found += [item.session.session_id for item in page.items]
        totals.add(page.total)
        if (after := page.next) is None:
            return found, totals


@settings(max_examples=examples(20, 800), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(acts, max_size=25), st.integers(1, 4))
def test_whatever_is_done_lists_are_in_order_and_their_pages_complete(done: list[tuple[str, int]], limit: int) -> None:
    async def run() -> None:
        async with open_store(None) as store:
            await settle(store, image())
            model = Model()
            for number, (what, which) in enumerate(done):
                await act(store, model, what, which, 10 + 10 * number)
            for archived in (False, True, None):
                expected = model.order(archived)
                found, totals = await pages(store, archived, limit)
                assert found == expected
                assert totals == {len(expected)}

    anyio.run(run)


@settings(max_examples=examples(20, 800), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(acts, max_size=12), st.lists(acts, max_size=12), st.integers(1, 3))
def test_what_does_not_move_while_pages_are_read_is_on_exactly_one(
    before: list[tuple[str, int]], meanwhile: list[tuple[str, int]], limit: int
) -> None:
    async def run() -> None:
        async with open_store(None) as store:
            await settle(store, image())
            model = Model()
            for number, (what, which) in enumerate([("add", 0)] * 4 + before):
                await act(store, model, what, which, 10 + 10 * number)
            order = {name: (one.pinned, one.active_at, one.archived, one.deleted) for name, one in model.sessions.items()}
            there = set(model.order(False))
            moved, found, after, left = set[str](), list[str](), None, list(meanwhile)
            while True:
                page = await mine(store).list(SessionQuery(limit=limit, after=after))
                found += [item.session.session_id for item in page.items]
                if (after := page.next) is None:
                    break
                if left:
                    await act(store, model, *left.pop(), 1000 + 10 * len(left))
                    now = {name: (o.pinned, o.active_at, o.archived, o.deleted) for name, o in model.sessions.items()}
                    moved |= {name for name in now if now[name] != order.get(name)}
            for name in there - moved:
                assert found.count(name) == 1, name

    anyio.run(run)


async def test_a_page_of_a_whole_tenant_visits_no_more_sessions_than_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []

    def watch(connection: apsw.Connection) -> None:
        connection.trace_v2(
            apsw.SQLITE_TRACE_PROFILE,
            lambda event: steps.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]),
        )

    async def count(store: Store) -> int:
        steps.clear()
        first = await store.tenant(ACME).sessions(None).list(SessionQuery(limit=5))
        await store.tenant(ACME).sessions(None).list(SessionQuery(limit=5, after=first.next))
        assert first.total == 10
        return sum(steps)

    monkeypatch.setattr(listing, "TOTAL_MAX", 10)
    monkeypatch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, watch])
    async with open_store(None) as store:
        await settle(store, image())
        home = await settle(store)
        counted = []
        for number in range(60):
            await home.add_session(session(f"more{number}", now=number))
            if number in (19, 59):
                counted.append(await count(store))
        assert counted[1] <= counted[0] + 50
