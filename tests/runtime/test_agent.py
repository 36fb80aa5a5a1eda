"""One agent, its inbox and its turns. Failures of every kind are in test_agent_failures.py."""

import anyio
import pytest
from tests.runtime.fixtures import open_world, tool, types

from agentvm.drivers.base import MessageStarted, TextChunk, TextStarted, ToolResultsEntry, UserEntry
from agentvm.drivers.scripted import Pause, ScriptedDriver, ScriptStep, in_turn, last_user_text, reply, tool_calls
from agentvm.errors import AgentBusy, AgentNotRunning, InboxFull
from agentvm.model.limits import Limits
from agentvm.model.message import AssistantMessage, UserMessage
from agentvm.runtime.history import Rewrite
from agentvm.runtime.lifecycle import AgentState

INTERRUPTED = ["message_stop", "conversation_end", "turn_response"]


def held(gate: anyio.Event, *before: ScriptStep) -> ScriptedDriver:
    """Says what is given, then waits for the gate, then answers."""
    return ScriptedDriver(lambda prompt: [*before, Pause(gate), *reply(last_user_text(prompt))])


def saying(gate: anyio.Event, text: str) -> ScriptedDriver:
    return held(gate, MessageStarted("", "scripted"), TextStarted(), TextChunk(text))


async def test_a_turn_is_accepted_answered_and_stored() -> None:
    async with open_world(ScriptedDriver()) as world:
        agent = world.start()
        turn_id = await world.say(agent, "Hello you")
        heard = await world.hear("turn_response")
        assert types(heard, turn_id) == [
            "message_persisted", "user_message", "turn_request",
            "message_start", "conversation_start", "text_content_block_start", "text_delta", "conversation_responding",
            "text_delta", "text_content_block_stop", "message_delta",
            "message_stop", "assistant_message", "conversation_end", "turn_response",
        ]  # fmt: skip
        asked, said = await world.messages()
        assert isinstance(asked, UserMessage)
        assert isinstance(said, AssistantMessage)
        assert (asked.content, said.text) == ("Hello you", "Hello you")
        (turn,) = await world.turns()
        assert (turn.turn_id, turn.outcome) == (turn_id, "completed")
        await agent.rest()
        assert agent.state is AgentState.IDLE


async def test_a_history_is_not_rewritten_while_a_message_of_a_cold_agent_is_on_its_way() -> None:
    async with open_world(ScriptedDriver()) as world:
        agent = world.start()
        refused, rewrote = list[AgentBusy](), list[object]()

        async def rewrite() -> None:
            try:
                rewrote.append(await agent.rewrite(lambda history: Rewrite(tuple(message.id for message in history))))
            except AgentBusy as error:
                refused.append(error)

        async with anyio.create_task_group() as tasks:
            # Both open the session's log, which takes a moment; whoever has it first on this engine.
            tasks.start_soon(world.say, agent, "Hello you")
            tasks.start_soon(rewrite)
        heard = await world.hear("turn_response")
        assert len(refused) == 1 or rewrote == [(None, None)]
        assert "session_rewound" not in types(heard)
        assert len(await world.messages()) == 2


async def test_a_turn_does_not_start_before_it_is_released() -> None:
    driver = ScriptedDriver()
    async with open_world(driver) as world:
        agent = world.start()
        accepted = await agent.receive("hi")
        await anyio.wait_all_tasks_blocked()
        assert driver.prompts == []
        agent.release(accepted)
        await world.hear("turn_response")
        assert len(driver.prompts) == 1


async def test_messages_during_a_turn_wait_and_run_in_order() -> None:
    gate = anyio.Event()
    driver = held(gate)
    async with open_world(driver) as world:
        agent = world.start()
        turns = [await world.say(agent, text) for text in ("one", "two", "three")]
        heard = await world.hear("conversation_queued", times=2)
        assert [event["context"]["turnId"] for event in heard if event["type"] == "conversation_queued"] == turns[1:]
        gate.set()
        heard = await world.hear("turn_response", times=3)
        ends = [event["context"]["turnId"] for event in heard if event["type"] == "turn_response"]
        assert ends == turns
        asked = [[said.content for said in prompt.conversation if isinstance(said, UserEntry)] for prompt in driver.prompts]
        assert asked == [["one"], ["one", "two"], ["one", "two", "three"]]
        assert types(heard, turns[1])[-1] == "turn_response"


async def test_one_turn_runs_at_a_time() -> None:
    async with open_world(ScriptedDriver()) as world:
        agent = world.start()
        turns = [await world.say(agent, str(number)) for number in range(5)]
        heard = await world.hear("turn_response", times=5)
        streams = [event["context"]["turnId"] for event in heard if event["category"] == "stream"]
        assert list(dict.fromkeys(streams)) == turns
        assert streams == sorted(streams, key=turns.index)


async def test_a_full_inbox_refuses_and_takes_again_later() -> None:
    gate = anyio.Event()
    async with open_world(held(gate), limits=Limits(inbox=2)) as world:
        agent = world.start()
        await world.say(agent, "running")
        await anyio.wait_all_tasks_blocked()
        for text in ("first", "second"):
            await world.say(agent, text)
        with pytest.raises(InboxFull):
            await agent.receive("third")
        gate.set()
        await world.hear("turn_response", times=3)
        await world.say(agent, "third")
        await world.hear("turn_response", times=4)
        assert len([one for one in await world.messages() if isinstance(one, UserMessage)]) == 4


async def test_messages_being_stored_count_as_waiting() -> None:
    async with open_world(held(anyio.Event()), limits=Limits(inbox=2)) as world:
        agent = world.start()
        refused: list[InboxFull] = []

        async def send() -> None:
            try:
                await agent.receive("hi")
            except InboxFull as full:
                refused.append(full)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(send)
        assert len(refused) == 3
        assert len(await world.messages()) == 2


async def test_an_interrupt_within_the_text_keeps_it_and_closes_the_call() -> None:
    driver = saying(anyio.Event(), "partial")
    async with open_world(driver) as world:
        agent = world.start()
        turn_id = await world.say(agent, "hi")
        await world.hear("text_delta")
        agent.cancel(await agent.interrupt())
        heard = await world.hear("turn_response")
        assert types(heard)[-5:] == ["interrupted", "message_stop", "assistant_message", "conversation_end", "turn_response"]
        assert heard[-1]["data"]["outcome"] == "interrupted"
        assert driver.closed_early == 1
        said = (await world.messages())[-1]
        assert isinstance(said, AssistantMessage)
        assert said.text == "partial"
        assert [(turn.turn_id, turn.outcome) for turn in await world.turns()] == [(turn_id, "interrupted")]


async def test_an_interrupt_before_the_first_output_is_only_the_end() -> None:
    async with open_world(held(anyio.Event())) as world:
        agent = world.start()
        turn_id = await world.say(agent, "hi")
        await anyio.wait_all_tasks_blocked()
        agent.cancel(await agent.interrupt())
        heard = await world.hear("turn_response")
        assert types(heard, turn_id)[3:] == INTERRUPTED


async def test_an_interrupt_before_the_turn_has_begun_stops_it_too() -> None:
    driver = ScriptedDriver()
    async with open_world(driver) as world:
        agent = world.start()
        accepted = await agent.receive("hi")
        agent.release(accepted)
        agent.cancel(accepted)
        heard = await world.hear("turn_response")
        assert types(heard, accepted.state.turn_id)[3:] == INTERRUPTED
        assert driver.prompts == []


async def test_an_interrupt_while_a_tool_runs_cancels_the_tool() -> None:
    cancelled: list[bool] = []

    async def hang(arguments: dict[str, object]) -> object:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(True)
        return None

    driver = ScriptedDriver(in_turn(tool_calls(("c1", "hang", {}), text="ToolWait"), reply("never")))
    async with open_world(driver, tools=[tool("hang", hang, timeout_seconds=60)]) as world:
        agent = world.start()
        turn_id = await world.say(agent, "hi")
        await world.hear("assistant_message")
        await anyio.wait_all_tasks_blocked()
        agent.cancel(await agent.interrupt())
        heard = await world.hear("turn_response")
        assert types(heard, turn_id)[-3:] == INTERRUPTED
        assert cancelled == [True]
        await world.say(agent, "and now?")
        await world.hear("turn_response", times=2)
        # The call that has no result is told to the model as lost.
        assert any(isinstance(said, ToolResultsEntry) for said in driver.prompts[-1].conversation)


async def test_an_interrupt_of_an_idle_agent_is_told_and_changes_nothing() -> None:
    async with open_world(ScriptedDriver()) as world:
        agent = world.start()
        agent.cancel(await agent.interrupt())
        await world.hear("interrupted")
        await world.say(agent, "hi")
        heard = await world.hear("turn_response")
        assert heard[-1]["data"]["outcome"] == "completed"


async def test_a_second_interrupt_does_not_end_the_turn_twice() -> None:
    async with open_world(saying(anyio.Event(), "x")) as world:
        agent = world.start()
        await world.say(agent, "hi")
        await world.hear("text_delta")
        for _ in range(2):
            agent.cancel(await agent.interrupt())
        with anyio.fail_after(60):
            await agent.rest()
        heard = world.hear_nowait()
        assert types(heard).count("interrupted") == 2
        assert types(heard).count("turn_response") == 1


async def test_an_interrupt_ends_the_running_turn_and_the_next_one_runs() -> None:
    gate = anyio.Event()
    async with open_world(saying(gate, "x")) as world:
        agent = world.start()
        turns = [await world.say(agent, text) for text in ("one", "two")]
        await world.hear("text_delta")
        stale = await agent.interrupt()
        agent.cancel(stale)
        gate.set()
        heard = await world.hear("turn_response", times=2)
        ends = {event["context"]["turnId"]: event["data"]["outcome"] for event in heard if event["type"] == "turn_response"}
        assert ends == {turns[0]: "interrupted", turns[1]: "completed"}
        agent.cancel(stale)
        await world.say(agent, "three")
        assert (await world.hear("turn_response", times=3))[-1]["data"]["outcome"] == "completed"


async def test_stopping_ends_the_running_turn_and_every_waiting_one() -> None:
    async with open_world(saying(anyio.Event(), "partial")) as world:
        agent = world.start()
        turns = [await world.say(agent, text) for text in ("one", "two", "three")]
        await world.hear("text_delta")
        with anyio.fail_after(60):
            await agent.stop()
        heard = world.hear_nowait()
        ends = [event for event in heard if event["type"] == "turn_response"]
        assert [event["context"]["turnId"] for event in ends] == turns
        assert {event["data"]["outcome"] for event in ends} == {"interrupted"}
        assert [turn.outcome for turn in await world.turns()] == ["interrupted"] * 3
        assert agent.state is AgentState.STOPPED
        with pytest.raises(AgentNotRunning):
            await agent.receive("too late")
        await agent.stop()


async def test_a_message_accepted_but_not_yet_released_is_ended_by_the_stop() -> None:
    async with open_world(ScriptedDriver()) as world:
        agent = world.start()
        accepted = await agent.receive("hi")
        await agent.stop()
        agent.release(accepted)
        await anyio.wait_all_tasks_blocked()
        assert types(world.hear_nowait()).count("turn_response") == 1


async def test_a_message_that_was_being_stored_while_the_agent_stopped_gets_its_end() -> None:
    async with open_world(ScriptedDriver()) as world:
        agent = world.start()
        await agent.interrupt()
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(world.say, agent, "racing")
                tasks.start_soon(agent.stop)
        heard = await world.hear("turn_response")
        assert types(heard).count("turn_response") == 1
        assert [turn.outcome for turn in await world.turns()] == ["interrupted"]


async def test_two_who_stop_both_wait_until_every_turn_has_its_end() -> None:
    async with open_world(saying(anyio.Event(), "partial")) as world:
        agent = world.start()
        for text in ("one", "two", "three"):
            await world.say(agent, text)
        await world.hear("text_delta")
        ends: list[int] = []

        async def stop() -> None:
            await agent.stop()
            ends.append(types(world.hear_nowait()).count("turn_response"))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(stop)
        assert ends == [3, 3, 3]


async def test_a_stop_that_was_begun_is_finished_though_its_asker_is_gone() -> None:
    async with open_world(saying(anyio.Event(), "partial")) as world:
        agent = world.start()
        await world.say(agent, "hi")
        await world.hear("text_delta")
        with anyio.CancelScope() as asker:
            asker.cancel()
            await agent.stop()
        assert agent.state is AgentState.STOPPED
        assert types(world.hear_nowait())[-1] == "turn_response"


async def test_a_runtime_that_is_cancelled_still_ends_its_turns() -> None:
    with anyio.fail_after(60), anyio.CancelScope() as everything:
        async with open_world(saying(anyio.Event(), "partial")) as world:
            agent = world.start()
            for text in ("one", "two"):
                await world.say(agent, text)
            await world.hear("text_delta")
            everything.cancel()
            await anyio.sleep_forever()
    assert types(world.hear_nowait()).count("turn_response") == 2
