from typing import Any

import pytest
from tests.runtime.fixtures import World, left, open_world
from tests.runtime.test_billing import Till, entries

from agentvm.drivers.scripted import ScriptedDriver
from agentvm.errors import StoreFailed
from agentvm.model.ids import DEFAULT_TENANT, MessageId
from agentvm.model.ledger import Charge, SentCall
from agentvm.model.turn import Turn
from agentvm.model.usage import NO_USAGE, Usage
from agentvm.runtime.recovery import resumption
from agentvm.runtime.recovery.progress import Cut, Done
from agentvm.runtime.recovery.settlement import settle_unfinished
from agentvm.storage.sql.accounts.ledger import LedgerStore
from agentvm.storage.sql.accounts.sent_calls import SentCallStore


async def test_a_call_whose_provider_had_not_said_what_it_read_is_billed_for_the_prompt() -> None:
    till = Till()
    async with open_world(ScriptedDriver(), meter=till) as world:
        agent = world.start()
        await world.say(agent, "a long message " * 500)
        await world.hear("turn_response")
        cut = Cut(MessageId("msg_cut"), "m", Usage(input_tokens=0, output_tokens=5, estimated=True))
        agent.release(agent.resume(left(world), Done(), cut=cut))
        await world.hear("turn_response", times=2)
        (entry,) = [one for one in await entries(world) if one.key == "msg_cut"]
        assert entry.usage.estimated
        assert entry.usage.input_tokens > 2_000
        assert entry.usage.output_tokens == 5


async def test_a_turn_that_did_nothing_before_the_restart_owes_nothing() -> None:
    till = Till()
    async with open_world(ScriptedDriver(), meter=till) as world:
        agent = world.start()
        agent.release(agent.resume(left(world), Done()))
        end = (await world.hear("turn_response"))[-1]["data"]
        (entry,) = await entries(world)
        assert end["price"] == entry.price
        assert entry.usage != NO_USAGE


def asked(world: World, turn: Turn, number: int, attempt: int = 1) -> SentCall:
    call_id = f"msg_{number}"
    return SentCall(
        key=f"{call_id}.{attempt}",
        call_id=call_id,
        at=number,
        tenant_id=DEFAULT_TENANT,
        container_id=world.image.container_id,
        image_id=world.image.image_id,
        session_id=world.image.session_id,
        turn_id=turn.turn_id,
        driver="openai",
        model="gpt",
        provider="corp",
        own_key=True,
        hosted=True,
        input_tokens=100 * number,
    )


async def test_what_was_asked_before_a_crash_is_billed_once_with_what_was_heard_of_it() -> None:
    till = Till()
    async with open_world(ScriptedDriver(), meter=till) as world:
        agent, turn = world.start(), left(world)
        store = world.store.accounts(DEFAULT_TENANT).asked
        for call in (asked(world, turn, 1), asked(world, turn, 2)):
            await store.add(call)
        cut = Cut(MessageId("msg_2"), "m", Usage(input_tokens=0, output_tokens=7, estimated=True))
        for _ in range(2):
            # The second time as if the process had died again before it was committed.
            agent.release(agent.resume(turn, Done(), cut=cut))
        await world.hear("turn_response", times=2)
        found = {entry.key: entry for entry in await entries(world)}
        assert (found["msg_1.1"].usage.input_tokens, found["msg_1.1"].usage.output_tokens) == (100, 0)
        assert (found["msg_2"].usage.input_tokens, found["msg_2"].usage.output_tokens) == (200, 7)
        assert all(found[key].usage.estimated for key in ("msg_1.1", "msg_2"))
        assert [found[key].driver for key in ("msg_1.1", "msg_2")] == ["openai", "openai"]
        assert "msg_2.1" not in found
        again = [one for one in till.planned if one.driver == "openai"]
        assert all((one.provider, one.own_key, one.hosted) == ("corp", True, True) for one in again)
        assert await store.of_turn(turn.turn_id) == ()
        assert till.open == 0


@pytest.mark.parametrize("failing", ["turn_total", "of_turn", "admit"])
async def test_a_bill_that_cannot_be_read_at_once_is_read_again(failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumption, "READ_PAUSES_SECONDS", (0.0, 0.0, 0.0))
    till = Till()
    async with open_world(ScriptedDriver(), meter=till) as world:
        agent, turn = world.start(), left(world)
        await (store := world.store.accounts(DEFAULT_TENANT).asked).add(asked(world, turn, 1))
        await store.add(asked(world, turn, 2))
        earlier = asked(world, turn, 3)
        await world.store.accounts(DEFAULT_TENANT).ledger.add((earlier.entry(earlier.unanswered, Charge(300, 600), 1),))
        owner = {"turn_total": LedgerStore, "of_turn": SentCallStore, "admit": Till}[failing]
        read, reads = getattr(owner, failing), iter(range(100))

        async def fail_often(*given: Any, **options: Any) -> Any:
            # One call is entered by then.
            if next(reads) in ((1, 2) if failing == "admit" else (0, 1)):
                raise StoreFailed("The database could not be read")
            return await read(*given, **options)

        monkeypatch.setattr(owner, failing, fail_often)
        agent.release(agent.resume(turn, Done()))
        end = (await world.hear("turn_response"))[-1]["data"]
        assert end["outcome"] == "completed"
        assert end["price"] == sum(entry.price or 0 for entry in await entries(world))
        assert end["usage"]["inputTokens"] == sum(entry.usage.input_tokens for entry in await entries(world)) > 600
        assert till.open == 0


async def test_a_turn_whose_bill_cannot_be_read_tells_no_price(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise StoreFailed("The database could not be read")

    monkeypatch.setattr(resumption, "READ_PAUSES_SECONDS", (0.0,))
    monkeypatch.setattr(LedgerStore, "turn_total", fail)
    async with open_world(ScriptedDriver(), meter=Till()) as world:
        agent = world.start()
        agent.release(agent.resume(left(world), Done()))
        end = (await world.hear("turn_response"))[-1]["data"]
        assert end["outcome"] == "failed"
        assert "price" not in end


async def test_what_was_asked_beside_turns_is_billed_by_the_next_process() -> None:
    till = Till()
    async with open_world(ScriptedDriver(), meter=till) as world:
        call = asked(world, left(world), 3)
        await world.store.accounts(DEFAULT_TENANT).asked.add(call)
        assert await world.store.list_sent_calls() == (call,)
        for _ in range(2):
            await settle_unfinished(world.store, till, lambda: 9, (call,))
        (entry,) = await entries(world)
        assert (entry.key, entry.at, entry.usage) == ("msg_3.1", 9, call.unanswered)
        assert await world.store.list_sent_calls() == ()


async def test_a_disk_that_cannot_be_read_for_a_moment_leaves_such_a_call_for_later_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(*_: object, **options: object) -> None:
        raise StoreFailed("The database could not be read")

    till = Till()
    async with open_world(ScriptedDriver(), meter=till) as world:
        call = asked(world, left(world), 3)
        await world.store.accounts(DEFAULT_TENANT).asked.add(call)
        with monkeypatch.context() as broken:
            broken.setattr(Till, "admit", fail)
            await settle_unfinished(world.store, till, lambda: 9, (call,))
        assert await world.store.list_sent_calls() == (call,)
        await settle_unfinished(world.store, till, lambda: 9, (call,))
        assert [entry.key for entry in await entries(world)] == ["msg_3.1"]
