from dataclasses import dataclass, field

import anyio
import anyio.lowlevel
import pytest
from tests.runtime.fixtures import World, left, open_world, tool

from agentvm.drivers.base import MessageStarted, TextChunk, TextStarted, UsageReported
from agentvm.drivers.scripted import Pause, ScriptedDriver, ScriptStep, in_turn, reply, tool_calls
from agentvm.errors import ProviderOverloaded, QuotaExceeded
from agentvm.events.base import EventScope
from agentvm.events.lifecycle import QuotaWarning
from agentvm.events.turn import ModelCalled
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, ImageId, MessageId, SessionId, TurnId, UserId
from agentvm.model.ledger import Charge, LedgerEntry, Planned, SentCall
from agentvm.model.usage import Usage
from agentvm.runtime.accepted import Incoming
from agentvm.runtime.billing import Bill, Unmetered
from agentvm.runtime.recovery.progress import Cut, Done

SCOPE = EventScope(container_id=ContainerId("c"), image_id=ImageId("i"), session_id=SessionId("s"), turn_id=TurnId("turn_1"))


@dataclass
class Till:
    """A meter that charges a nano-USD a token, remembers everything, and refuses beyond a number of calls."""

    most: int = 1_000
    planned: list[Planned] = field(default_factory=list)
    open: int = 0
    warnings: tuple[QuotaWarning, ...] = ()
    most_output: int | None = None

    async def admit(self, planned: Planned, *, force: bool = False) -> "Till":
        if len(self.planned) >= self.most and not force:
            raise QuotaExceeded("tokens_per_day", limit=self.most, used=self.most)
        self.planned.append(planned)
        self.open += 1
        return self

    def settle(self, usage: Usage) -> Charge:
        self.open -= 1
        return Charge(usage.total, 2 * usage.total)

    def release(self) -> None:
        self.open -= 1


def called(call_id: str, tokens: int) -> ModelCalled:
    return ModelCalled(call_id=call_id, model="m", usage=Usage(input_tokens=tokens, output_tokens=0))


def plan(*, most_input: int = 0, most_output: int = 0) -> Planned:
    return Planned(
        tenant_id=DEFAULT_TENANT,
        user_id=None,
        driver="openai",
        model="gpt",
        most_input=most_input,
        most_output=most_output,
    )


async def entries(world: World) -> list[LedgerEntry]:
    return [entry for _, entry in await world.store.accounts(DEFAULT_TENANT).ledger.list()]


async def test_a_call_is_entered_once_with_what_it_used() -> None:
    till = Till()
    bill = Bill(till, lambda: 7, DEFAULT_TENANT, UserId("alice"), SCOPE)
    await bill.admit(plan(most_input=100, most_output=50))
    (told,) = bill.enter((called("msg_1", 30),))
    assert isinstance(told, ModelCalled)
    assert told.entry == bill.entries[0]
    entry = bill.entries[0]
    assert (entry.key, entry.at, entry.user_id, entry.driver, entry.model) == ("msg_1", 7, "alice", "openai", "gpt")
    assert (entry.cost, entry.price, bill.price, till.open) == (30, 60, 60, 0)
    # What was entered already is left alone.
    assert bill.enter((told,)) == (told,)
    assert [one.entry for one in bill.repeat() if isinstance(one, ModelCalled)] == bill.entries


async def test_what_was_set_aside_for_a_call_that_never_began_is_given_back() -> None:
    till = Till()
    bill = Bill(till, lambda: 7, DEFAULT_TENANT, None, SCOPE)
    await bill.admit(plan())
    bill.close()
    bill.close()
    assert till.open == 0


async def test_without_a_meter_calls_are_counted_and_have_no_price() -> None:
    bill = Bill(Unmetered(), lambda: 7, DEFAULT_TENANT, None, SCOPE)
    assert await bill.admit(plan()) == ()
    bill.enter((called("msg_1", 30),))
    assert (bill.entries[0].price, bill.price) == (None, 0)


async def test_a_turns_price_is_that_of_its_calls_and_the_ledger_has_each() -> None:
    async def look(arguments: dict[str, object]) -> object:
        return "seen"

    till = Till()
    driver = ScriptedDriver(
        in_turn(tool_calls(("c1", "look", {})), reply("done", usage=Usage(input_tokens=9, output_tokens=1)))
    )
    async with open_world(driver, tools=[tool("look", look)], meter=till) as world:
        agent = world.start()
        accepted = await agent.receive(Incoming("go", None, UserId("alice")))
        agent.release(accepted)
        end = (await world.hear("turn_response"))[-1]["data"]
        found = await entries(world)
        assert [entry.usage.total for entry in found] == [6, 10]
        assert {entry.user_id for entry in found} == {"alice"}
        assert {entry.turn_id for entry in found} == {accepted.state.turn_id}
        assert (end["price"], end["usage"]["inputTokens"] + end["usage"]["outputTokens"]) == (32, 16)
        assert till.open == 0
        # More than the prompt can have is set aside, and what the answer may have.
        assert [planned.most_output for planned in till.planned] == [4_096, 4_096]
        assert all(planned.most_input > 600 for planned in till.planned)
        assert [planned.least_output for planned in till.planned] == [256, 256]
        assert (await world.turns())[0].user_id == "alice"


@pytest.mark.parametrize("how", ["interrupted", "failed"])
async def test_a_call_that_was_cut_off_is_billed_for_what_it_used(how: str) -> None:
    gate = anyio.Event()
    head: list[ScriptStep] = [
        MessageStarted("", "m"),
        UsageReported(Usage(input_tokens=20, output_tokens=1)),
        TextStarted(),
        TextChunk("some words"),
    ]
    last: ScriptStep = Pause(gate) if how == "interrupted" else ProviderOverloaded("busy")
    till = Till()
    async with open_world(ScriptedDriver(lambda prompt: [*head, last]), meter=till) as world:
        agent = world.start()
        await world.say(agent, "go")
        await world.hear("text_delta")
        if how == "interrupted":
            agent.cancel(await agent.interrupt())
        end = (await world.hear("turn_response"))[-1]["data"]
        assert end["outcome"] == how
        (entry,) = await entries(world)
        assert (entry.usage.input_tokens, entry.usage.estimated) == (20, True)
        assert entry.usage.output_tokens >= 2
        assert (end["price"], till.open) == (entry.price, 0)


async def test_a_call_whose_commit_was_lost_is_billed_all_the_same_and_once() -> None:
    till = Till()
    # The first commit takes the message, the second says that the model is asked, the third would take the answer.
    async with open_world(ScriptedDriver(), meter=till, fails=lambda number: number == 3) as world:
        agent = world.start()
        await world.say(agent, "go")
        end = (await world.hear("turn_response"))[-1]["data"]
        await agent.rest()
        assert end["outcome"] == "failed"
        (entry,) = await entries(world)
        assert (entry.price, till.open) == (end["price"], 0)


async def test_a_call_is_not_made_when_it_cannot_be_committed_that_it_is() -> None:
    till, driver = Till(), ScriptedDriver()
    async with open_world(driver, meter=till, fails=lambda number: number == 2) as world:
        agent = world.start()
        await world.say(agent, "go")
        end = (await world.hear("turn_response"))[-1]["data"]
        await agent.rest()
        assert (end["outcome"], end["price"], till.open) == ("failed", 0, 0)
        assert (driver.prompts, await entries(world)) == ([], [])


async def asked(world: World, turn_id: str) -> list[SentCall]:
    return list(await world.store.accounts(DEFAULT_TENANT).asked.of_turn(turn_id))


async def prompted(driver: ScriptedDriver) -> None:
    with anyio.fail_after(60):
        while not driver.prompts:
            await anyio.lowlevel.checkpoint()


async def test_that_a_model_is_asked_is_stored_before_it_is_and_forgotten_with_the_answer() -> None:
    gate = anyio.Event()
    driver = ScriptedDriver(lambda prompt: [Pause(gate), *reply("done")])
    async with open_world(driver, meter=Till()) as world:
        agent = world.start()
        accepted = await agent.receive(Incoming("what is asked", None, UserId("alice")))
        agent.release(accepted)
        await prompted(driver)
        turn_id = accepted.state.turn_id
        (call,) = await asked(world, turn_id)
        assert (call.driver, call.user_id, call.turn_id) == ("scripted", "alice", turn_id)
        assert call.key == f"{call.call_id}.1"
        assert call.input_tokens > 0
        gate.set()
        await world.hear("turn_response")
        assert await asked(world, turn_id) == []
        (entry,) = await entries(world)
        assert entry.key == call.call_id


async def test_a_call_that_is_stopped_before_it_is_answered_is_billed_for_what_was_sent() -> None:
    till = Till()
    driver = ScriptedDriver(lambda prompt: [Pause(anyio.Event()), *reply("never")])
    async with open_world(driver, meter=till) as world:
        agent = world.start()
        turn_id = await world.say(agent, "word " * 300)
        await prompted(driver)
        agent.cancel(await agent.interrupt())
        end = (await world.hear("turn_response"))[-1]["data"]
        (entry,) = await entries(world)
        assert (entry.usage.estimated, entry.usage.output_tokens) == (True, 0)
        assert entry.usage.input_tokens > 450
        assert (end["price"], end["usage"]["inputTokens"], till.open) == (entry.price, entry.usage.input_tokens, 0)
        assert await asked(world, turn_id) == []


@pytest.mark.parametrize("unanswered", [True, False])
async def test_a_call_that_fails_without_an_answer_is_billed_unless_the_provider_has_refused_it(*, unanswered: bool) -> None:
    error = ProviderOverloaded("busy")
    error.unanswered = unanswered
    till = Till()
    async with open_world(ScriptedDriver(lambda prompt: [error]), meter=till) as world:
        turn_id = await world.say(world.start(), "go")
        end = (await world.hear("turn_response"))[-1]["data"]
        found = await entries(world)
        assert (end["outcome"], till.open) == ("failed", 0)
        assert end["price"] == sum(entry.price or 0 for entry in found)
        assert len(found) == (len(till.planned) if unanswered else 0)
        assert await asked(world, turn_id) == []


async def test_a_call_that_may_not_be_made_ends_the_turn_with_the_reason() -> None:
    till = Till(most=1)
    script = in_turn(tool_calls(("c1", "look", {})), reply("never said"))
    async with open_world(ScriptedDriver(script), meter=till) as world:
        await world.say(world.start(), "go")
        heard = await world.hear("turn_response")
        assert [event["data"]["code"] for event in heard if event["type"] == "error_occurred"] == ["quota_exceeded"]
        assert len(await entries(world)) == 1


async def test_the_answer_is_capped_to_what_is_left() -> None:
    till = Till(most_output=300)
    driver = ScriptedDriver()
    async with open_world(driver, meter=till) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_response")
        assert [prompt.max_tokens for prompt in driver.prompts] == [300]


async def test_a_warning_is_told_to_the_session() -> None:
    till = Till(warnings=(QuotaWarning(metric="tokens_per_day", limit=10, used=9),))
    async with open_world(ScriptedDriver(), meter=till) as world:
        await world.say(world.start(), "go")
        heard = await world.hear("turn_response")
        (warning,) = [event for event in heard if event["type"] == "quota_warning"]
        assert warning["data"] == {"metric": "tokens_per_day", "limit": 10, "used": 9}
        assert "cursor" in warning


async def test_what_a_turn_used_before_a_crash_counts_and_the_call_it_died_in_is_billed_once() -> None:
    till = Till()
    async with open_world(ScriptedDriver(), meter=till) as world:
        agent = world.start()
        earlier = LedgerEntry(
            key="msg_earlier_1",
            at=1,
            tenant_id=DEFAULT_TENANT,
            container_id=world.image.container_id,
            image_id=world.image.image_id,
            session_id=world.image.session_id,
            turn_id=TurnId("turn_before"),
            driver="scripted",
            model="m",
            usage=Usage(input_tokens=100, output_tokens=0),
            cost=100,
            price=200,
        )
        await world.store.accounts(DEFAULT_TENANT).ledger.add([earlier])
        cut = Cut(MessageId("msg_earlier_2"), "m", Usage(input_tokens=10, output_tokens=5))
        for _ in range(2):
            # The second time as if the process had died again before it had said that it goes on.
            agent.release(agent.resume(left(world), Done(), cut=cut))
        ends = [event["data"] for event in await world.hear("turn_response", times=2) if event["type"] == "turn_response"]
        found = {entry.key: entry.usage.total for entry in await entries(world)}
        assert found.pop("msg_earlier_1") == 100
        assert found.pop("msg_earlier_2") == 15
        # The answers themselves.
        assert len(found) == 2
        assert ends[0]["usage"]["inputTokens"] >= 110
        assert ends[0]["price"] == 200 + 30 + 2 * next(iter(found.values()))
        assert till.open == 0
