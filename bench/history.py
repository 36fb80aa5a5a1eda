"""History — what one step of a turn costs in a long session, without a summary and with one.

    python -m bench.history [--messages 10000] [--rounds 30]

A step reads what its model is told and makes the prompt of it. Without a summary the whole history is read, though only its end
fits the window; with one, the summary and what was said since.
"""

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from agentvm.model.exchange import extent
from agentvm.model.ids import MessageId, SummaryId, TenantId, TurnId
from agentvm.model.message import AssistantMessage, Message, TextPart, UserMessage
from agentvm.model.session import Summary
from agentvm.runtime.context import build
from agentvm.storage.engine import open_store
from agentvm.storage.sql.log import LogStore
from agentvm.testing.conformance.records import HOME, SESSION, default_session, image
from bench.measure import percentile, table

TENANT = TenantId("default")
KEPT = 6
WINDOW = 100_000
QUESTION = "Please look into this and tell me what you have found out about it. " * 3
ANSWER = "Here is what I have found out about it, with everything that seems to matter. " * 8


def said(number: int) -> Message:
    turn_id = TurnId(f"t{number // 2}")
    if number % 2 == 0:
        return UserMessage(id=MessageId(f"m{number}"), timestamp=number, turn_id=turn_id, role="user", content=QUESTION)
    content = (TextPart(text=ANSWER),)
    return AssistantMessage(id=MessageId(f"m{number}"), timestamp=number, turn_id=turn_id, role="assistant", content=content)


async def step(log: LogStore, current: TurnId) -> None:
    recalled = await log.recall()
    summary = None if recalled.summary is None else recalled.summary.text
    build(recalled.messages, current, system=None, tools=(), budget=WINDOW, summary=summary)


async def timed(log: LogStore, current: TurnId, rounds: int) -> list[float]:
    took = []
    for _ in range(rounds):
        start = time.perf_counter()
        await step(log, current)
        took.append((time.perf_counter() - start) * 1000)
    return took


async def measure(path: Path, messages: int, rounds: int) -> list[list[str]]:
    rows = [["one step", "p50 ms", "p95 ms", "ratio p50"]]
    async with open_store(path) as store:
        home = store.tenant(TENANT).container(HOME)
        await home.create(1)
        await home.add_image(image(), default_session(image()))
        log = home.log(SESSION)
        for start in range(0, messages, 500):
            await log.record(messages=[said(number) for number in range(start, min(start + 500, messages))], now=1)
        current = TurnId(f"t{(messages - 1) // 2}")
        whole = await timed(log, current, rounds)
        recalled = await log.recall()
        covered = extent(recalled.messages, messages // 2 - KEPT)
        assert covered is not None
        text = "What was said so far. " * 150
        made = Summary(summary_id=SummaryId("s1"), message_id=covered.message_id, text=text, tokens=1_000, model="m", made_at=1)
        assert await log.add_summary(made, covered, recalled)
        short = await timed(log, current, rounds)
    low, high = percentile(short, 0.5), percentile(whole, 0.5)
    rows.append([f"{messages:,} messages", f"{high:.2f}", f"{percentile(whole, 0.95):.2f}", f"{high / low:.1f}"])
    rows.append(["the same, with a summary", f"{low:.2f}", f"{percentile(short, 0.95):.2f}", "1.0"])
    return rows


async def main(messages: int, rounds: int) -> None:
    with TemporaryDirectory() as folder:
        print(table(await measure(Path(folder) / "agentvm.db", messages, rounds)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    anyio.run(main, given.messages, given.rounds)
