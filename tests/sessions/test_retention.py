from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conformance.records import HOME, SESSION, image, session
from tests.conformance.retention import left, say
from tests.conformance.store import ACME, RIVAL, settle
from tests.support.examples import examples

from agentvm.errors import StoreFailed
from agentvm.events.base import EventData, EventScope
from agentvm.events.lifecycle import SessionDeleted, SessionTitleUpdated, SessionUpdated
from agentvm.model.account import Tenant
from agentvm.model.ids import ContainerId, MessageId, RewindId, SessionId, TenantId
from agentvm.model.retention import DAY_MS, FOREVER_DAYS, Retention
from agentvm.sessions import retention
from agentvm.sessions.retention import Due, LoadedSessions, Retainer
from agentvm.sessions.upkeep import purge
from agentvm.storage.base import Rewinding, SessionWrite
from agentvm.storage.engine import open_store
from agentvm.storage.retention import Weight
from agentvm.storage.sql.sessions.retention import RetentionStore
from agentvm.storage.sql.store import Store

NOW = 400 * DAY_MS


@pytest.fixture(autouse=True)
def out_of_breath(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "COMMIT_PAUSE_SECONDS", 0)


@dataclass
class Memory(LoadedSessions):
    """Who is in memory, as a test says."""

    at_work: set[str] = field(default_factory=set)
    told: list[EventData] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    thin: list[str] = field(default_factory=list)
    watch: Callable[[], None] = lambda: None

    def busy(self, tenant_id: TenantId, container_id: ContainerId, session_id: SessionId) -> bool:
        return session_id in self.at_work

    async def unload(self, tenant_id: TenantId, container_id: ContainerId, session_id: SessionId) -> None:
        self.ended.append(session_id)

    def publish(self, tenant_id: TenantId, scope: EventScope, data: EventData) -> None:
        self.told.append(data)
        self.watch()

    def forget(self, tenant_id: TenantId, session_id: SessionId) -> None:
        self.thin.append(session_id)


def retainer(store: Store, *policies: tuple[TenantId, Retention], memory: Memory | None = None) -> Retainer:
    wanted = dict(policies)
    return Retainer(store, lambda: NOW, lambda tenant_id: wanted.get(tenant_id, Retention()), memory or Memory())


async def tenant(store: Store, tenant_id: TenantId = ACME) -> None:
    named = Tenant(tenant_id=tenant_id, slug=tenant_id, name=tenant_id, status="active", created_at=1, updated_at=1)
    await store.directory.add_tenant(named)
    await settle(store, image(), tenant=tenant_id)


async def past(store: Store, session_id: str, *days: int, tenant_id: TenantId = ACME) -> None:
    """A session in which something was said so many days ago."""
    if session_id != SESSION:
        await store.tenant(tenant_id).container(HOME).add_session(session(session_id, now=NOW - days[0] * DAY_MS))
    for number, ago in enumerate(days):
        await say(store, session_id, f"{session_id}{number}", NOW - ago * DAY_MS, tenant=tenant_id, first_seq=2 * number + 1)


async def there(store: Store, tenant_id: TenantId = ACME) -> list[str]:
    return sorted(one.session_id for one in await store.tenant(tenant_id).container(HOME).list_sessions(image().image_id))


@pytest.mark.parametrize(
    ("policy", "stay"),
    [
        (Retention(), {"old", "new", "archived", "pinned"}),
        (Retention(session_days=100), {"new", "pinned"}),
        (Retention(session_days=100, archived_days=300), {"new", "archived", "pinned"}),
        (Retention(archived_days=100), {"old", "new", "pinned"}),
        (Retention(session_days=FOREVER_DAYS, archived_days=FOREVER_DAYS), {"old", "new", "archived", "pinned"}),
        (Retention(session_days=1, archived_days=1), {"pinned"}),
    ],
)
async def test_sessions_stay_as_long_as_the_policy_says(policy: Retention, stay: set[str]) -> None:
    async with open_store(None) as store:
        await tenant(store)
        for name, ago in (("old", 200), ("new", 10), ("archived", 200), ("pinned", 200)):
            await past(store, name, ago)
        mine = store.tenant(ACME).sessions(None)
        await mine.keep(SessionId("archived"), archived=True, now=NOW)
        await mine.keep(SessionId("pinned"), pinned=True, now=NOW)
        kept = retainer(store, (ACME, policy))
        due = await kept.preview(ACME)
        assert await kept.run() == due
        assert set(await there(store)) == stay | {SESSION}
        assert due == Due(sessions=4 - len(stay), messages=2 * (4 - len(stay)), bytes=due.bytes)
        assert await kept.preview(ACME) == Due()


async def test_each_tenant_keeps_its_own_policy_and_only_its_own_things_go() -> None:
    async with open_store(None) as store:
        for tenant_id in (ACME, RIVAL):
            await tenant(store, tenant_id)
            await past(store, "a", 50, tenant_id=tenant_id)
        kept = retainer(store, (ACME, Retention(session_days=40)), (RIVAL, Retention(session_days=60)))
        assert (await kept.preview(RIVAL)).sessions == 0
        assert (await kept.run()).sessions == 1
        assert await there(store) == [SESSION]
        assert await there(store, RIVAL) == ["a", SESSION]


async def test_a_session_that_goes_is_told_once_ends_its_agent_and_cannot_be_restored() -> None:
    memory = Memory()
    async with open_store(None) as store:
        await tenant(store)
        await past(store, "a", 50)
        kept = retainer(store, (ACME, Retention(session_days=40)), memory=memory)
        await kept.run()
        (told,) = memory.told
        assert isinstance(told, SessionDeleted)
        assert (told.session_id, told.deleted_at, told.restorable_until) == ("a", NOW, NOW)
        assert memory.ended == ["a"]
        mine = store.tenant(ACME).sessions(None)
        assert await mine.restore(SessionId("a"), NOW, deleted_after=0) is None
        gone: list[str] = []
        assert await purge(store, lambda: NOW, 7 * 86_400.0, lambda _, session_id: gone.append(session_id)) == 1
        assert gone == ["a"]
        assert await kept.run() == Due()
        assert len(memory.told) == 1


async def test_a_default_session_is_emptied_and_told_as_new() -> None:
    memory = Memory()
    async with open_store(None) as store:
        await tenant(store)
        await past(store, SESSION, 50, 45)
        await store.tenant(ACME).container(HOME).set_title(SESSION, "About something", now=NOW)
        kept = retainer(store, (ACME, Retention(session_days=40)), memory=memory)
        due = await kept.preview(ACME)
        assert (due.sessions, due.emptied, due.messages) == (0, 1, 4)
        assert await kept.run() == due
        assert await left(store, SESSION) == []
        assert [type(told) for told in memory.told] == [SessionTitleUpdated, SessionUpdated]
        assert set(memory.thin) == {SESSION}
        assert await kept.run() == Due()


async def test_whole_turns_leave_a_session_that_goes_on_also_a_pinned_one() -> None:
    async with open_store(None) as store:
        await tenant(store)
        await past(store, "a", 50, 30, 1)
        await store.tenant(ACME).sessions(None).keep(SessionId("a"), pinned=True, now=NOW)
        kept = retainer(store, (ACME, Retention(message_days=30, session_days=40)))
        due = await kept.preview(ACME)
        assert (due.sessions, due.messages) == (0, 2)
        assert await kept.run() == due
        assert await left(store, "a") == ["a1-u", "a1-a", "a2-u", "a2-a"]


async def test_memory_loses_what_goes_before_the_store_does(monkeypatch: pytest.MonkeyPatch) -> None:
    # Else a turn that begins in between is answered with it.
    memory, forgotten = Memory(), list[list[str]]()
    real = RetentionStore.drop_turns

    async def drop_turns(self: RetentionStore, *args: Any) -> Weight:
        forgotten.append([*memory.thin])
        return await real(self, *args)

    monkeypatch.setattr(RetentionStore, "drop_turns", drop_turns)
    async with open_store(None) as store:
        await tenant(store)
        await past(store, "a", 50, 1)
        assert (await retainer(store, (ACME, Retention(message_days=30)), memory=memory).run()).messages == 2
    assert (forgotten, memory.thin) == ([["a"]], ["a", "a"])


async def test_a_session_at_work_is_left_alone_whatever_the_store_knows() -> None:
    memory = Memory(at_work={"a", SESSION})
    async with open_store(None) as store:
        await tenant(store)
        for name in ("a", "b", SESSION):
            await past(store, name, 50)
        policy = Retention(session_days=40, message_days=40)
        assert (await retainer(store, (ACME, policy), memory=memory).run()).sessions == 1
        assert await left(store, "a") == ["a0-u", "a0-a"]
        assert len(await left(store, SESSION)) == 2


async def test_who_begins_to_use_a_session_while_it_is_marked_keeps_it() -> None:
    memory = Memory()

    async with open_store(None) as store:
        await tenant(store)
        await past(store, "a", 50)
        asked = 0

        def busy(tenant_id: TenantId, container_id: ContainerId, session_id: SessionId) -> bool:
            nonlocal asked
            asked += 1
            return asked > 1

        memory.busy = busy  # type: ignore[method-assign]  # It is idle when it is looked at first, and then no longer.
        assert await retainer(store, (ACME, Retention(session_days=40)), memory=memory).run() == Due()
        assert memory.told == []
        assert await left(store, "a") == ["a0-u", "a0-a"]


async def test_what_was_taken_back_goes_after_a_month_by_default() -> None:
    async with open_store(None) as store:
        await tenant(store)
        await past(store, "a", 90, 80, 70)
        for number, ago in ((2, 60), (1, 20)):
            await take_back(store, "a", f"a{number}", ago)
        kept = retainer(store)
        due = await kept.preview(ACME)
        assert due.messages == 2
        assert await kept.run() == due
        rewinds = await store.tenant(ACME).sessions(None).rewinds(SessionId("a"))
        assert rewinds is not None
        assert [one.messages for one in rewinds] == [2]
        assert await left(store, "a") == ["a0-u", "a0-a"]


async def take_back(store: Store, session_id: str, turn_id: str, ago: int) -> None:
    ids = (MessageId(f"{turn_id}-u"), MessageId(f"{turn_id}-a"))
    back = Rewinding(RewindId(f"of {turn_id}"), ids, NOW - ago * DAY_MS)
    write = SessionWrite(tenant_id=ACME, container_id=HOME, session_id=SessionId(session_id), now=NOW, rewind=back)
    await store.commit([write])


async def test_a_store_that_fails_for_one_tenant_keeps_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_store(None) as store:
        for tenant_id in (ACME, RIVAL):
            await tenant(store, tenant_id)
            await past(store, "a", 50, tenant_id=tenant_id)

        def policy_of(tenant_id: TenantId) -> Retention:
            if tenant_id == ACME:
                raise StoreFailed("full")
            return Retention(session_days=40)

        kept = Retainer(store, lambda: NOW, policy_of, Memory())
        assert (await kept.run()).sessions == 1
        assert await there(store) == ["a", SESSION]


async def test_what_was_dropped_before_a_failure_is_counted_and_the_next_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "COMMIT_MESSAGES_MAX", 2)
    counted: list[Due] = []
    memory = Memory()

    def fail(tenant_id: TenantId, session_id: SessionId) -> None:
        memory.thin.append(session_id)
        if len(memory.thin) == 2:  # Before the first deletion, and after it.
            raise StoreFailed("the process died")

    async with open_store(None) as store:
        await tenant(store)
        await past(store, "a", 50, 49, 48)
        kept = Retainer(store, lambda: NOW, lambda _: Retention(message_days=40), memory, counted.append)
        memory.forget = fail  # type: ignore[method-assign]
        await kept.run()
        assert [due.messages for due in counted] == [2]
        assert await left(store, "a") == ["a1-u", "a1-a", "a2-u", "a2-a"], "whole turns"
        del memory.forget
        await kept.run()
        assert [due.messages for due in counted] == [2, 4]


async def test_what_a_crash_left_half_done_is_finished_by_the_next_start(tmp_path: Path) -> None:
    policy = (ACME, Retention(session_days=40))
    async with open_store(tmp_path / "a.db") as store:
        await tenant(store)
        for name in ("a", "b"):
            await past(store, name, 50)
        cut = policy[1].cut(NOW)
        # Marked, and then nothing more.
        await store.tenant(ACME).retention().expire([SessionId("a")], cut)
    async with open_store(tmp_path / "a.db") as store:
        assert await there(store) == ["b", SESSION]
        assert (await retainer(store, policy).run()).sessions == 1
        assert await purge(store, lambda: NOW, 7 * 86_400.0, lambda *_: None) == 2
        assert await left(store, "a") == []


@dataclass(frozen=True)
class Told:
    """A session of the model: what was said how many days ago, whether the last has no end, and what became of it."""

    turns: tuple[int, ...]
    running: bool
    pinned: bool
    archived: bool
    rewound: int | None
    """The last turn was taken back so many days ago."""


days = st.integers(1, 60)
sessions = st.builds(
    Told,
    turns=st.lists(days, min_size=1, max_size=4).map(lambda found: tuple(sorted(found, reverse=True))),
    running=st.booleans(),
    pinned=st.booleans(),
    archived=st.booleans(),
    rewound=st.none() | days,
)
maybe = st.none() | days
policies = st.builds(Retention, session_days=maybe, archived_days=maybe, rewound_days=days, message_days=maybe)


def expected(told: Told, policy: Retention, *, default: bool) -> list[str] | None:
    """The ids that stay, also of what was taken back; None when the session is gone."""
    names = [f"{number}-{kind}" for number in range(len(told.turns)) for kind in "ua"]
    if told.running:
        return [*names, "running-u"]
    limit = policy.archived_days if told.archived and policy.archived_days is not None else policy.session_days
    if limit is not None and not told.pinned and told.turns[-1] >= limit:
        return [] if default else None
    back = len(told.turns) - 1 if told.rewound is not None else None
    gone = set()
    for number, ago in enumerate(told.turns):
        if number == back:
            if told.rewound is not None and told.rewound >= policy.rewound_days:
                gone.add(number)
        elif policy.message_days is not None and ago >= policy.message_days:
            gone.add(number)
    return [name for name in names if int(name.partition("-")[0]) not in gone]


async def build(store: Store, name: str, told: Told) -> None:
    home = store.tenant(ACME).container(HOME)
    if name != SESSION:
        await home.add_session(session(name, now=NOW - told.turns[0] * DAY_MS))
    for number, ago in enumerate(told.turns):
        # Half a day before, so that no moment is exactly the one of a policy.
        await say(store, name, f"{name}/{number}", NOW - ago * DAY_MS - DAY_MS // 2, first_seq=2 * number + 1)
    if told.rewound is not None:
        number = len(told.turns) - 1
        ids = (MessageId(f"{name}/{number}-u"), MessageId(f"{name}/{number}-a"))
        back = Rewinding(RewindId("back"), ids, NOW - told.rewound * DAY_MS - DAY_MS // 2)
        await store.commit([SessionWrite(tenant_id=ACME, container_id=HOME, session_id=SessionId(name), now=NOW, rewind=back)])
    if told.running:
        await say(store, name, f"{name}/running", NOW - told.turns[-1] * DAY_MS, ended=False)
    mine = store.tenant(ACME).sessions(None)
    await mine.keep(SessionId(name), pinned=told.pinned, archived=told.archived, now=NOW)


async def stays(store: Store, name: str, told: Told) -> list[str] | None:
    if await store.tenant(ACME).find_session(SessionId(name)) is None:
        return None
    ids = [f"{name}/{number}-{kind}" for number in range(len(told.turns)) for kind in "ua"] + [f"{name}/running-u"]
    found = await store.tenant(ACME).container(HOME).log(SessionId(name)).get_messages(ids)
    return [message.id.removeprefix(f"{name}/") for message in found]


async def compare(policy: Retention, told: Sequence[Told]) -> None:
    names = [SESSION, *(f"s{number}" for number in range(1, len(told)))]
    async with open_store(None) as store:
        await tenant(store)
        for name, one in zip(names, told, strict=True):
            await build(store, name, one)
        kept = retainer(store, (ACME, policy))
        due = await kept.preview(ACME)
        assert await kept.run() == due
        await store.purge_sessions(0)
        for name, one in zip(names, told, strict=True):
            wanted = expected(one, policy, default=name == SESSION)
            assert await stays(store, name, one) == wanted, (name, one)
            if wanted is not None:
                listed = await store.tenant(ACME).sessions(None).get(SessionId(name))
                standing = await left(store, name)
                assert listed is not None
                assert listed.unread == sum(message_id.endswith("-a") for message_id in standing)
                assert (listed.session.preview is None) == (not standing)
        assert await kept.run() == Due()


@settings(max_examples=examples(30, 600))
@given(policy=policies, told=st.lists(sessions, min_size=1, max_size=4))
def test_what_stays_is_what_a_naive_model_says(policy: Retention, told: list[Told]) -> None:
    anyio.run(compare, policy, told)
