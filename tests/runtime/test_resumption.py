"""A turn from before a restart is counted first and looked at then; those that may kill the server are told from others."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from msgspec import structs
from tests.runtime.fixtures import World, left, open_world, types

from agentvm.blueprint.image import new_session
from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import Pause, ScriptedDriver, ScriptStep, last_user_text, reply
from agentvm.errors import StoreFailed
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, MessageId, SessionId, TurnId
from agentvm.model.limits import Limits
from agentvm.model.message import UserMessage
from agentvm.model.turn import Turn
from agentvm.runtime import runtime as runtime_module
from agentvm.runtime import suspects
from agentvm.runtime.resumption import take_up
from agentvm.storage.base import Committed, SessionWrite
from agentvm.storage.engine import open_store
from agentvm.storage.sql.store import Store

pytestmark = pytest.mark.anyio

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

    async def commit(self, writes: Sequence[SessionWrite], *, entry: bytes | None = None, forget: int = 0) -> Committed:
        committed: Committed = await self.inner.commit(writes, entry=entry, forget=forget)
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


async def add_left(world: World, names: Sequence[str], *, attempts: int = 0, alongside: int | None = None) -> None:
    """Sessions with a turn each that another process has begun."""
    container = world.store.tenant(DEFAULT_TENANT).container(world.image.container_id)
    for name in names:
        session_id, turn_id, message_id = SessionId(name), TurnId(f"turn_{name}"), MessageId(f"m_{name}")
        await container.add_session(new_session(world.image, session_id, None, 1))
        said = UserMessage(id=message_id, timestamp=1, turn_id=turn_id, role="user", content=name)
        row = structs.replace(
            left(world, attempts=attempts), turn_id=turn_id, session_id=session_id, message_id=message_id, alongside=alongside
        )
        await container.log(session_id).record(messages=[said], turns=[row], now=2)


async def finished(store: Store) -> None:
    with anyio.fail_after(5):
        while await store.list_unfinished():
            await anyio.lowlevel.checkpoint()


async def rows(store: Store) -> dict[str, Turn]:
    return {turn.session_id: turn for _, turn in await store.list_unfinished()}


class Prepared:
    """A database with turns that a process has left."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def leave(self, names: Sequence[str], *, attempts: int = 0, alongside: int | None = None) -> None:
        async with open_world(ScriptedDriver(), path=self.path) as world:
            await add_left(world, names, attempts=attempts, alongside=alongside)


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    return Prepared(tmp_path / "x.db")


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


def gated(gates: dict[str, anyio.Event], *, begun: list[str]) -> ScriptedDriver:
    def script(prompt: Prompt) -> list[ScriptStep]:
        name = last_user_text(prompt)
        begun.append(name)
        return [*reply("x")[:3], Pause(gates[name]), *reply("x")[3:]]

    return ScriptedDriver(script)


async def until(done: Any) -> None:
    with anyio.fail_after(5):
        while not done():  # there is no event to wait for
            await anyio.lowlevel.checkpoint()


async def test_many_suspects_are_begun_together_and_say_how_many_they_are(prepared: Prepared) -> None:
    names = [f"s{number}" for number in range(8)]
    await prepared.leave(names, attempts=2)
    gates, begun = {name: anyio.Event() for name in names}, list[str]()
    async with open_world(gated(gates, begun=begun), path=prepared.path) as world:
        await until(lambda: len(begun) == 8)
        assert {(turn.attempts, turn.alongside) for turn in (await rows(world.store)).values()} == {(3, 8)}
        for gate in gates.values():
            gate.set()
        await finished(world.store)


async def test_the_next_group_waits_for_the_turns_of_the_one_before_and_not_for_what_waits_behind_them(
    prepared: Prepared,
) -> None:
    names = [f"s{number}" for number in range(4)]
    await prepared.leave(names, attempts=3, alongside=4)
    gates, begun = {name: anyio.Event() for name in (*names, "more")}, list[str]()
    async with open_world(gated(gates, begun=begun), path=prepared.path) as world:
        await until(lambda: len(begun) == 2)
        assert sorted(turn.attempts for turn in (await rows(world.store)).values()) == [3, 3, 4, 4]
        first = list(begun)
        for name in first:
            agent = world.runtime.start_agent(DEFAULT_TENANT, world.image, SessionId(name))[0]
            agent.release(await agent.receive("more"))
            gates[name].set()
        # The turns of the first group have ended; what was said in their sessions since runs on.
        await until(lambda: len(set(begun)) == 5)
        gates["more"].set()
        for name in names:
            gates[name].set()
        await finished(world.store)


async def test_nobody_waits_in_line_for_longer_than_a_while_and_all_that_run_are_suspected_together(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime_module, "GROUP_SECONDS", 0.01)
    await prepared.leave(["long", "short"], attempts=2)
    gates, begun = {name: anyio.Event() for name in ("long", "short")}, list[str]()
    async with open_world(gated(gates, begun=begun), path=prepared.path) as world:
        await until(lambda: len(begun) == 2)
        found = await rows(world.store)
        assert {(turn.attempts, turn.alongside) for turn in found.values()} == {(3, 2)}
        for gate in gates.values():
            gate.set()
        await finished(world.store)


async def test_a_suspect_that_was_stopped_ends_without_waiting_in_line(prepared: Prepared) -> None:
    await prepared.leave(["a", "b"], attempts=2)
    gates, begun = {name: anyio.Event() for name in ("a", "b")}, list[str]()
    async with open_world(gated(gates, begun=begun), path=prepared.path) as world:
        await until(lambda: len(begun) == 1)
        (waits,) = {"a", "b"} - set(begun)
        agent = world.runtime.start_agent(DEFAULT_TENANT, world.image, SessionId(waits))[0]
        agent.cancel(agent.inbox[0])
        with anyio.fail_after(5):
            await agent.rest()
        assert list(await rows(world.store)) == begun
        gates[begun[0]].set()
        await finished(world.store)


async def test_a_turn_that_waits_behind_another_of_its_session_is_counted_when_it_begins(prepared: Prepared) -> None:
    async with open_world(ScriptedDriver(), path=prepared.path) as world:
        await add_left(world, ["a"])
        second = structs.replace(
            left(world), turn_id=TurnId("turn_2"), session_id=SessionId("a"), message_id=MessageId("m_2"), accepted_at=2
        )
        said = UserMessage(id=MessageId("m_2"), timestamp=1, turn_id=TurnId("turn_2"), role="user", content="b")
        log = world.store.tenant(DEFAULT_TENANT).container(world.image.container_id).log(SessionId("a"))
        await log.record(messages=[said], turns=[second], now=2)
    gates, begun = {name: anyio.Event() for name in ("a", "b")}, list[str]()
    async with open_world(gated(gates, begun=begun), path=prepared.path) as world:
        await until(lambda: begun == ["a"])
        counted = {turn.turn_id: turn.attempts for _, turn in await world.store.list_unfinished()}
        assert counted == {"turn_a": 1, "turn_2": 0}
        gates["a"].set()
        await until(lambda: begun == ["a", "b"])
        gates["b"].set()
        await finished(world.store)


async def test_a_turn_that_cannot_be_counted_is_not_looked_at() -> None:
    async with open_world(ScriptedDriver(), fails=lambda number: True) as world:
        agent = world.start()
        accepted = agent.resume(left(world))
        with pytest.raises(StoreFailed):
            await take_up(agent._ports, DEFAULT_TENANT, world.image, accepted)
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
