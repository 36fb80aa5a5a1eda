"""Whatever is said, queued, taken back and summed up: a model is told the summary and exactly what it leaves out."""

import dataclasses

import anyio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conformance.records import HOME, SESSION, image, turn
from tests.conformance.store import ACME, settle
from tests.support.examples import examples

from agentvm.drivers.base import AssistantEntry, ConversationEntry, ToolResultsEntry, UserEntry
from agentvm.drivers.conversation import conversation_of, count_tokens
from agentvm.model.exchange import by_turn, ended, extent, size_of
from agentvm.model.ids import MessageId, RewindId, SummaryId, TurnId
from agentvm.model.message import (
    AssistantMessage,
    Message,
    TextOutput,
    TextPart,
    ToolCall,
    ToolCallMessage,
    ToolResult,
    ToolResultMessage,
    UserMessage,
)
from agentvm.model.session import Summary
from agentvm.runtime.context import build, summary_exchange
from agentvm.storage.base import Recalled, Rewinding, SessionWrite
from agentvm.storage.engine import open_store
from agentvm.storage.sql.store import Store

PLENTY = 10**9


@dataclasses.dataclass
class Conversation:
    """What is stored, and beside it a plain account of what must be there."""

    store: Store
    stands: list[Message] = dataclasses.field(default_factory=list)
    queue: list[TurnId] = dataclasses.field(default_factory=list)
    covers: list[tuple[str, frozenset[MessageId]]] = dataclasses.field(default_factory=list)
    number: int = 0
    read: Recalled | None = None
    """What somebody is summing up meanwhile."""

    def name(self) -> str:
        self.number += 1
        return str(self.number)

    async def keep(self, *messages: Message, **ended_turn: str) -> None:
        log = self.store.tenant(ACME).container(HOME).log(SESSION)
        await log.record(
            messages=messages, turns=[turn(one, outcome="completed", ended=1) for one in ended_turn.values()], now=1
        )
        self.stands += messages

    async def ask(self) -> None:
        turn_id = TurnId(f"t{self.name()}")
        message = UserMessage(id=MessageId(f"q{turn_id}"), timestamp=1, turn_id=turn_id, role="user", content=f"ask {turn_id}")
        log = self.store.tenant(ACME).container(HOME).log(SESSION)
        await log.record(messages=[message], turns=[turn(turn_id)], now=1)
        self.stands.append(message)
        self.queue.append(turn_id)

    async def step(self) -> None:
        """The turn ahead calls a tool; what it answers may never come."""
        if self.queue:
            turn_id, name = self.queue[0], self.name()
            parent = MessageId(f"a{name}")
            call = ToolCall(id=f"c{name}", name="run", input={})
            result = ToolResult(id=call.id, name="run", output=TextOutput(value=f"result {name}"))
            said = AssistantMessage(
                id=parent, timestamp=1, turn_id=turn_id, role="assistant", content=(TextPart(text=f"step {name}"),)
            )
            called = ToolCallMessage(
                id=MessageId(f"c{name}"), timestamp=1, turn_id=turn_id, role="assistant", tool_call=call, parent_id=parent
            )
            gave = ToolResultMessage(
                id=MessageId(f"r{name}"), timestamp=1, turn_id=turn_id, role="tool", tool_call_id=call.id, tool_result=result
            )
            await self.keep(called, said, *([gave] if self.number % 3 else []))

    async def end(self) -> None:
        if self.queue:
            turn_id, name = self.queue.pop(0), self.name()
            content = (TextPart(text=f"answer {name}"),)
            said = AssistantMessage(id=MessageId(f"a{name}"), timestamp=1, turn_id=turn_id, role="assistant", content=content)
            await self.keep(said, ended=turn_id)

    async def rewind(self, back: int) -> None:
        """As many messages as that, from the end of the conversation; a history is rewritten only when nothing runs."""
        while self.queue:
            await self.end()
        ordered = [message.id for one in by_turn(self.stands) for message in one]
        taken = frozenset(ordered[len(ordered) - back :]) if back else frozenset()
        if taken:
            rewind = Rewinding(RewindId(f"w{self.name()}"), sorted(taken), 1)
            await self.store.commit([SessionWrite(tenant_id=ACME, container_id=HOME, session_id=SESSION, now=1, rewind=rewind)])
            self.stands = [message for message in self.stands if message.id not in taken]

    async def look(self) -> None:
        """Somebody begins to sum up what there is now."""
        self.read = await self.store.tenant(ACME).container(HOME).log(SESSION).recall()

    async def sum_up(self, most: int) -> None:
        """And is done, whatever happened since they looked, which may have been just now."""
        if self.read is None:
            await self.look()
        read, self.read = self.read, None
        assert read is not None
        count = min(most, ended(by_turn(read.messages), read.running))
        covered = extent(read.messages, count)
        if covered is None:
            return
        name = f"s{self.name()}"
        made = Summary(summary_id=SummaryId(name), message_id=covered.message_id, text=name, tokens=1, model="m", made_at=1)
        before = next((ids for text, ids in self.covers if read.summary and text == read.summary.text), frozenset[MessageId]())
        ids = {message.id for one in by_turn(read.messages)[: size_of(read.messages, covered)] for message in one}
        if await self.store.tenant(ACME).container(HOME).log(SESSION).add_summary(made, covered, read):
            self.covers.append((name, before | ids))

    async def check(self) -> None:
        recalled = await self.store.tenant(ACME).container(HOME).log(SESSION).recall()
        standing = {message.id for message in self.stands}
        left_out = frozenset[MessageId]()
        if recalled.summary is not None:
            left_out = next(ids for text, ids in self.covers if text == recalled.summary.text)
            # Everything that it covers stands, and it is over.
            assert left_out <= standing
            assert not [one for one in self.stands if one.id in left_out and one.turn_id in self.queue]
        rest = [message for message in self.stands if message.id not in left_out]
        assert list(recalled.messages) == rest
        current = self.queue[0] if self.queue else TurnId("none")
        text = None if recalled.summary is None else recalled.summary.text
        said = build(recalled.messages, current, system=None, tools=(), budget=PLENTY, summary=text)
        self.check_prompt(said, rest, current, text)

    def check_prompt(self, said: tuple[ConversationEntry, ...], rest: list[Message], current: TurnId, text: str | None) -> None:
        whole = build(self.stands, current, system=None, tools=(), budget=PLENTY)
        begins = 0 if text is None else 2
        if text is not None:
            assert said[:2] == summary_exchange(text)
        # Without the summary it is the end of what it would be without any, and all of what the summary leaves out.
        assert whole[len(whole) - len(said) + begins :] == said[begins:]
        shown = by_turn(rest)
        until = next((place + 1 for place, one in enumerate(shown) if one[0].turn_id == current), len(shown))
        assert said[begins:] == tuple(one for exchange in shown[:until] for one in conversation_of(exchange))
        asked = [one.content for one in said if isinstance(one, UserEntry)]
        assert len(asked) == len(set(map(str, asked)))
        for one, following in zip(said, (*said[1:], None), strict=False):
            if isinstance(one, AssistantEntry) and one.tool_calls:
                assert isinstance(following, ToolResultsEntry)
                assert [call.id for call in one.tool_calls] == [result.id for result in following.results]
        for budget in (0, count_tokens(said) // 2):
            short = build(rest, current, system=None, tools=(), budget=budget, summary=text)
            assert not short or short[-1] == said[-1]


acts = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["ask", "step", "end"])),
        st.tuples(st.sampled_from(["ask", "end", "look"])),
        st.tuples(st.just("sum_up"), st.integers(1, 4)),
        st.tuples(st.just("rewind"), st.integers(1, 6)),
    ),
    min_size=8,
    max_size=30,
)
BEGINNING = ("ask", "ask", "end", "ask", "end", "ask", "end")
"""Queued messages, so that an answer is stored after the question behind it."""


@settings(max_examples=examples(30, 1200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(acts)
def test_a_model_is_told_the_summary_and_exactly_what_it_does_not_cover(made: list[tuple[str, int] | tuple[str]]) -> None:
    async def run() -> None:
        with anyio.fail_after(60):
            async with open_store(None) as store:
                await settle(store, image())
                conversation = Conversation(store)
                for name in BEGINNING:
                    await getattr(conversation, name)()
                for name, *arguments in made:
                    await getattr(conversation, str(name))(*arguments)
                    await conversation.check()

    anyio.run(run)
