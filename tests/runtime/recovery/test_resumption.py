"""A turn from before a restart is counted first and looked at then."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from msgspec import structs
from tests.runtime.fixtures import left, open_world, types
from tests.runtime.recovery.fixtures import Prepared, finished
from tests.runtime.test_billing import Till, entries

from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import Pause, ScriptedDriver, ScriptStep, reply
from agentvm.errors import StoreFailed
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, SessionId, TurnId
from agentvm.model.limits import Limits
from agentvm.runtime.recovery import resumption, suspects
from agentvm.runtime.recovery.progress import Partial, find_cut, find_partial
from agentvm.runtime.recovery.resumption import EVENTS_MAX, _recent_events, resumed_state, take_up
from agentvm.runtime.session_log import write_of
from agentvm.runtime.turn import next_id
from agentvm.storage.base import Committed, SessionWrite
from agentvm.storage.engine import open_store
from agentvm.storage.sql.log import LogStore
from agentvm.storage.sql.nodes import Claim

READS = {"list_messages", "list_recent_messages", "recall", "list_turn_messages", "get_messages", "read", "messages", "history"}


@dataclass
class Watched:
    """A store, or a part of one, that notes which histories are read, and which attempts were on disk by then."""

    inner: Any
    session_id: str | None = None
    notes: list[str] = field(default_factory=list)

    def tenant(self, tenant_id: str) -> "Watched":
        return Watched(self.inner.tenant(tenant_id), None, self.notes)

    def container(self, container_id: str) -> "Watched":
        return Watched(self.inner.container(container_id), None, self.notes)

    def log(self, session_id: str) -> "Watched":
        return Watched(self.inner.log(session_id), session_id, self.notes)

    async def commit(
        self,
        writes: Sequence[SessionWrite],
        *,
        entry: bytes | None = None,
        forget: int = 0,
        claims: Sequence[Claim] = (),
    ) -> Committed:
        committed: Committed = await self.inner.commit(writes, entry=entry, forget=forget, claims=claims)
        self.notes += [f"counted {write.session_id}" for write in writes for turn in write.turns if turn.attempts]
        return committed

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if name not in READS:
            return found

        def noted(*arguments: Any, **named: Any) -> Any:
            self.notes.append(f"{name} {self.session_id or arguments[0]}")
            return found(*arguments, **named)

        return noted


async def test_nothing_of_a_session_is_read_before_its_attempt_is_on_disk(prepared: Prepared) -> None:
    await prepared.leave(["a", "b"])
    notes: list[str] = []
    async with open_world(ScriptedDriver(), path=prepared.path, watch=lambda store: Watched(store, None, notes)) as world:
        # Ready, and nobody has looked at anything.
        assert notes == []
        await finished(world.store)
    for name in ("a", "b"):
        own = [note for note in notes if note.endswith(f" {name}")]
        assert own[0] == f"counted {name}"
        assert f"list_turn_messages {name}" in own
        assert f"list_messages {name}" not in own


async def test_a_session_in_quarantine_is_not_read_and_its_turn_ends(prepared: Prepared) -> None:
    await prepared.leave(["a"])
    async with open_store(prepared.path) as store:
        await store.tenant(DEFAULT_TENANT).container(ContainerId("c1")).log(SessionId("a")).set_quarantine("it is bad", 3)
    notes: list[str] = []
    async with open_world(ScriptedDriver(), path=prepared.path, watch=lambda store: Watched(store, None, notes)) as world:
        await finished(world.store)
        ended = await world.store.tenant(DEFAULT_TENANT).container(ContainerId("c1")).log(SessionId("a")).list_turns()
        assert [turn.outcome for turn in ended] == ["failed"]
    assert {note for note in notes if note.endswith(" a")} <= {"counted a"}


async def test_one_that_is_to_blame_is_set_aside_before_it_is_looked_at(prepared: Prepared) -> None:
    await prepared.leave(["a"], attempts=3, alongside=1)
    driver = ScriptedDriver()
    async with open_world(driver, path=prepared.path) as world:
        await finished(world.store)
        ((_, session),) = await world.store.list_quarantined()
        assert session.session_id == "a"
        assert driver.prompts == []


async def test_a_turn_that_cannot_be_counted_is_not_looked_at() -> None:
    async with open_world(ScriptedDriver(), fails=lambda number: True) as world:
        agent = world.start()
        accepted = agent.resume(left(world))
        with pytest.raises(StoreFailed):
            await take_up(agent.ports, DEFAULT_TENANT, world.image, accepted)
        assert accepted.left is not None


async def test_a_turn_that_fails_before_it_was_looked_at_gives_out_no_id_again(prepared: Prepared) -> None:
    async with open_world(
        ScriptedDriver(lambda prompt: [*reply("a", "b")[:4], Pause(anyio.Event())]), path=prepared.path
    ) as world:
        await world.say(world.start(), "go")
        await world.hear("text_delta", times=2)
        before = {message.id for message in await world.messages()}
        world.runtime._suspends = True
    # The first commit folds the journal, the second drops it, the third counts the turn: from there on nothing is stored.
    async with open_world(ScriptedDriver(), path=prepared.path, fails=lambda number: 3 <= number <= 6) as world:
        heard = await world.hear("turn_response")
        (error,) = [event["data"]["id"] for event in heard if event["type"] == "error_message"]
        assert error not in before
        assert int(error.rpartition("_")[2]) > 5


async def test_a_call_that_clients_have_heard_is_billed_as_heard_also_when_its_log_cannot_be_opened_at_first(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumption, "READ_PAUSES_SECONDS", (0.0, 0.0, 0.0))
    async with open_world(
        ScriptedDriver(lambda prompt: [*reply("a", "b")[:4], Pause(anyio.Event())]), path=prepared.path, meter=Till()
    ) as world:
        await world.say(world.start(), "go")
        heard = await world.hear("text_delta", times=2)
        (call_id,) = [event["data"]["messageId"] for event in heard if event["type"] == "message_start"]
        world.runtime._suspends = True
    opening, openings = LogStore.opening, iter(range(100))

    async def fail_at_first(self: LogStore) -> tuple[int, TurnId | None]:
        if next(openings) < 5:
            raise StoreFailed("The database could not be read")
        return await opening(self)

    monkeypatch.setattr(LogStore, "opening", fail_at_first)
    async with open_world(ScriptedDriver(), path=prepared.path, meter=Till()) as world:
        end = (await world.hear("turn_response"))[-1]["data"]
        entered = {entry.key: entry.usage for entry in await entries(world)}
    assert end["outcome"] == "failed"
    assert entered[call_id].output_tokens > 0
    assert end["usage"]["outputTokens"] == sum(usage.output_tokens for usage in entered.values())


@pytest.mark.parametrize("before", [True, False])
async def test_what_is_moved_into_the_log_while_that_is_read_is_seen_once(
    before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = ScriptedDriver(lambda prompt: [*reply("a", "b")[:4], Pause(anyio.Event())])
    async with open_world(driver) as world:
        agent = world.start()
        await world.say(agent, "go")
        await world.hear("text_delta", times=2)
        live = world.runtime.journal.find(DEFAULT_TENANT, world.image.session_id)
        assert live is not None
        log = agent.container.log(agent.session_id)
        ranges = LogStore.range

        async def fold_meanwhile(self: LogStore) -> tuple[int, int]:
            found = await ranges(self)
            write = write_of(live, (), 5, [*live.tail])
            await world.store.commit([write])
            live.fold(len(live.tail))
            return await ranges(self) if before else found

        monkeypatch.setattr(LogStore, "range", fold_meanwhile)
        (turn,) = await world.turns()
        events = await _recent_events(agent.ports, DEFAULT_TENANT, log, turn)
        assert not live.tail
        assert find_partial(events, turn.turn_id) == Partial(next_id(resumed_state(turn, None)), "ab")


async def test_the_beginning_of_an_answer_of_any_length_is_found() -> None:
    words = [f"{number} " for number in range(EVENTS_MAX + 500)]
    told = anyio.Event()

    def tell(prompt: Prompt) -> Iterator[ScriptStep]:
        yield from reply(*words)[: len(words) + 2]
        told.set()
        yield Pause(anyio.Event())

    async with open_world(ScriptedDriver(tell)) as world:
        agent = world.start()
        await world.say(agent, "go")
        await told.wait()
        await agent.ports.journal.settle(await agent.writer.log(), agent.scope)
        log = agent.container.log(agent.session_id)
        assert (await log.range())[1] > 0
        (turn,) = await world.turns()
        events = await _recent_events(agent.ports, DEFAULT_TENANT, log, turn)
        assert find_partial(events, turn.turn_id) == Partial(next_id(resumed_state(turn, None)), "".join(words))
        cut = find_cut(events, turn.turn_id)
        assert cut is not None
        assert cut.usage.output_tokens > EVENTS_MAX / 2


async def test_a_turn_on_its_last_attempts_is_given_up_whoever_is_to_blame(prepared: Prepared) -> None:
    most = Limits().attempts + suspects.MORE_ATTEMPTS_MAX
    await prepared.leave(["a"], attempts=most, alongside=5)
    async with open_world(ScriptedDriver(), path=prepared.path) as world:
        await finished(world.store)
        assert [session.session_id for _, session in await world.store.list_quarantined()] == ["a"]
        assert "turn_resumed" not in types(world.hear_nowait())


@pytest.mark.parametrize(("accepted_at", "least", "most"), [(1, 900, 10_000), (10**12, 0, 10_000)])
async def test_across_a_restart_a_turn_takes_what_the_clock_says_and_never_less_than_no_time(
    accepted_at: int, least: int, most: int
) -> None:
    async with open_world(ScriptedDriver()) as world:
        agent = world.start()
        # The clock of the tests has come to about a thousand.
        agent.release(agent.resume(structs.replace(left(world), accepted_at=accepted_at)))
        heard = await world.hear("turn_response")
        assert least <= heard[-1]["data"]["duration"] < most
