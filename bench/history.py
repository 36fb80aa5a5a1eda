"""History — the CPU of one model step in a long session, next to a session of 10 messages.

    python -m bench.history [--messages 10000] [--rounds 30]

A step reads the newest messages up to the model's window of 100,000 tokens, makes the prompt of them and estimates its tokens.
Goal: 1 ms in a session of 10,000 messages without a summary.
"""

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from tests.conformance.records import HOME, SESSION, default_session, image, session

from agentvm.drivers.base import Prompt
from agentvm.drivers.conversation import estimate_input
from agentvm.drivers.weighing import most_input
from agentvm.events.base import Event, EventScope
from agentvm.events.message import AssistantMessageEvent, MessageEvent, UserMessageEvent
from agentvm.model.exchange import extent
from agentvm.model.ids import MessageId, SessionId, SummaryId, TenantId, TurnId
from agentvm.model.message import AssistantMessage, Message, TextPart, UserMessage
from agentvm.model.session import Summary
from agentvm.runtime.context import compose_weighed
from agentvm.runtime.histories import Histories, Key
from agentvm.runtime.ports import HistoryReader
from agentvm.storage.engine import open_store
from agentvm.storage.sql.container import ContainerStore
from agentvm.storage.sql.log import LogStore
from bench.measure import percentile, table

TENANT = TenantId("default")
KEPT_EXCHANGES = 6
WINDOW_TOKENS = 100_000
WARM_UP_ROUNDS = 8
"""Each reader of the store prepares its statements once."""
QUESTION = "Please look into this and tell me what you have found out about it. " * 3
ANSWER = "Here is what I have found out about it, with everything that seems to matter. " * 8


def said(number: int) -> Message:
    turn_id = TurnId(f"t{number // 2}")
    if number % 2 == 0:
        return UserMessage(id=MessageId(f"m{number}"), timestamp=number, turn_id=turn_id, role="user", content=QUESTION)
    content = (TextPart(text=ANSWER),)
    return AssistantMessage(id=MessageId(f"m{number}"), timestamp=number, turn_id=turn_id, role="assistant", content=content)


async def step(reader: HistoryReader, log: LogStore, key: Key, current: UserMessage) -> int:
    """Everything that a model call does with the history: reads it, makes the prompt of it and estimates its tokens."""
    recalled = await reader.recall(log, key, current.id, WINDOW_TOKENS, summary=True)
    assert current.turn_id is not None
    composed = compose_weighed(
        recalled.messages,
        current.turn_id,
        reader.histories.exchanges(*key),
        system=None,
        tools=(),
        budget=WINDOW_TOKENS,
        summary=None if recalled.summary is None else recalled.summary.text,
    )
    prompt = Prompt(model="scripted", conversation=tuple(entry for entry, _ in composed.told), max_tokens=1)
    estimated = estimate_input(prompt, composed.weight)
    return estimated + most_input(prompt, driver="scripted", window=WINDOW_TOKENS, conversation=composed.most)


class Conversation:
    """One session, and the CPU of its steps in ms."""

    def __init__(self, home: ContainerStore, session_id: SessionId) -> None:
        self.log = home.log(session_id)
        self._key = (TENANT, session_id)
        self._number = 0

    async def grow(self, messages: int) -> None:
        while self._number < messages:
            more = min(500, messages - self._number)
            await self.log.record(messages=[said(number) for number in range(self._number, self._number + more)], now=1)
            self._number += more

    async def _say(self, histories: Histories, data: MessageEvent) -> None:
        await self.log.record(messages=[data.message], now=1)
        scope = EventScope(container_id=HOME, session_id=self._key[1])
        histories.react(Event(data=data, scope=scope, timestamp=1, tenant_id=TENANT, seq=1))

    async def measure(self, rounds: int, *, kept: bool) -> list[float]:
        """Each round is a new turn. Without `kept`, nothing is in memory of the session, as after a restart."""
        histories, times, large = Histories(), [], anyio.Semaphore(1)
        for _ in range(WARM_UP_ROUNDS + rounds):
            question, answer = said(self._number), said(self._number + 1)
            assert isinstance(question, UserMessage)
            histories = histories if kept else Histories()
            await self._say(histories, UserMessageEvent(message=question))
            started = time.process_time()
            await step(HistoryReader(histories, large), self.log, self._key, question)
            times.append((time.process_time() - started) * 1000)
            await self._say(histories, AssistantMessageEvent(message=answer))
            self._number += 2
        return times[WARM_UP_ROUNDS:]


async def measure(path: Path, messages: int, rounds: int) -> list[list[str]]:
    async with open_store(path) as store:
        home = store.tenant(TENANT).container(HOME)
        await home.create(1)
        await home.add_image(image(), default_session(image()))
        await home.add_session(session("long"))
        short, long = Conversation(home, SESSION), Conversation(home, SessionId("long"))
        await short.grow(10)
        await long.grow(messages)
        cells = [
            ("10 messages", await short.measure(min(rounds, 5), kept=True)),
            (f"{messages:,} messages", await long.measure(rounds, kept=True)),
            (f"{messages:,} messages, first call after a start", await long.measure(rounds, kept=False)),
        ]
        recalled = await long.log.recall()
        covered = extent(recalled.messages, messages // 2 - KEPT_EXCHANGES)
        assert covered is not None
        text = "What was said so far. " * 150
        summary = Summary(
            summary_id=SummaryId("s1"), message_id=covered.message_id, text=text, tokens=1_000, model="m", made_at=1
        )
        assert await long.log.add_summary(summary, covered, recalled)
        cells.append((f"{messages:,} messages, with a summary", await long.measure(rounds, kept=True)))
    base = percentile(cells[0][1], 0.5)
    rows = [["one model step", "x 10 messages", "CPU p50 ms", "p95 ms"]]
    for name, times in cells:
        low = percentile(times, 0.5)
        rows.append([name, f"{low / base:.1f}", f"{low:.2f}", f"{percentile(times, 0.95):.2f}"])
    return rows


async def main(messages: int, rounds: int) -> None:
    with TemporaryDirectory() as folder:
        print(table(await measure(Path(folder) / "agentvm.db", messages, rounds)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    anyio.run(main, options.messages, options.rounds)
