"""The work of the page while an answer is written, counted: it must not grow with the conversation."""

from collections.abc import Iterable
from typing import Any

import anyio
from playwright.async_api import expect
from tests.console.conftest import Open
from tests.console.test_journeys import IN_MEMORY, driver, say

from agentvm import start_server
from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import Pause, ScriptStep, last_user_text, reply
from agentvm.server.local import RunningServer

MESSAGES, DELTAS, STEP = 500, 1_500, 25
MUTATIONS_PER_FRAME, LEXED_PER_TAIL = 4.0, 3.0
PIECES = [f"word{number} " if number % 30 else f"word{number}.\n\n" for number in range(DELTAS)]
"""Paragraphs of thirty words."""

WATCH = """() => {
  const work = { mutations: 0, frames: 0, lexed: 0, tails: 0 };
  let pending = 0, lexed = avmCounted.lexed();
  const all = { subtree: true, childList: true, characterData: true, attributes: true };
  new MutationObserver((records) => { pending += records.length }).observe(document.body, all);
  (function frame() {
    if (pending > 0) {
      work.mutations += pending; work.frames += 1; pending = 0;
      const answer = document.querySelector('.answer-live');
      let last = 0;
      for (const block of answer ? [...answer.children].slice(-3) : []) last += block.textContent.length + 2;
      const now = avmCounted.lexed();
      if (last > 0 && now > lexed) { work.lexed += now - lexed; work.tails += last; }
      lexed = now;
    }
    requestAnimationFrame(frame);
  })();
  avmCounted.drawn = avmCounted.outside = 0;
  window.work = work;
}"""


COUNTED = "() => ({ ...window.work, drawn: avmCounted.drawn, outside: avmCounted.outside })"


class Long:
    """Short answers, and one of many pieces that waits for its gate."""

    def __init__(self) -> None:
        self.gates = [anyio.Event() for _ in range(DELTAS // STEP)]
        self.end = anyio.Event()

    def __call__(self, prompt: Prompt) -> Iterable[ScriptStep]:
        if last_user_text(prompt) != "write":
            return reply("A short **answer**.")
        start, text, first, *rest = reply("first ", *PIECES)
        steps: list[ScriptStep] = [start, text, first]
        for number, gate in enumerate(self.gates):
            steps += [Pause(gate), *rest[number * STEP : (number + 1) * STEP]]
        return [*steps, Pause(self.end), *rest[DELTAS:]]


async def fill(server: RunningServer, messages: int) -> str:
    """Returns the address of a conversation with that many messages."""
    image = await server.agentx.images.create()
    agent = await server.agentx.images.run(image.image_id)
    ended = anyio.Semaphore(0)
    server.agentx.runtime.on("turn_response", lambda _: ended.release())
    for number in range(messages // 2):
        await agent.receive(f"question {number}")
        await ended.acquire()
    return f"{server.url}/c/{image.session_id}"


async def test_an_answer_draws_itself_and_nothing_else_however_long_the_conversation(open_page: Open) -> None:
    script = Long()
    async with start_server(IN_MEMORY, drivers=driver(script)) as server:
        address = await fill(server, MESSAGES)
        page = await open_page(server.url)
        await page.evaluate("() => sessionStorage.setItem('avm.count', '1')")
        await page.goto(address)
        await expect(page.locator(".said").last).to_have_text(f"question {MESSAGES // 2 - 1}")
        assert await page.locator(".item").count() <= 100
        await say(page, "write")
        await expect(page.locator(".answer-live")).to_contain_text("first")
        # The list has taken in the question.
        await expect(page.locator(".row[aria-current] .row-preview")).to_have_text("write")
        await page.evaluate(WATCH)
        for number, gate in enumerate(script.gates, start=1):
            gate.set()
            await expect(page.locator(".answer-live")).to_contain_text(PIECES[number * STEP - 1].strip())
        counted: dict[str, Any] = await page.evaluate(COUNTED)
        assert counted["outside"] == 0, counted
        assert counted["drawn"] > 0
        assert counted["mutations"] / counted["frames"] <= MUTATIONS_PER_FRAME, counted
        assert counted["lexed"] / counted["tails"] <= LEXED_PER_TAIL, counted
        script.end.set()
        await expect(page.locator(".answer-live")).to_have_count(0)
        # Oldest by pages, and no more of them in the document than a window.
        earlier = page.get_by_role("button", name="Show earlier messages")
        while await earlier.count() > 0:
            first = await page.locator(".item").first.get_attribute("id")
            await earlier.click()
            await expect(page.locator(".item").first).not_to_have_id(first or "")
            assert await page.locator(".item").count() <= 200
        await expect(page.locator(".said").first).to_have_text("question 0")
        # The price of the oldest answer, too, although it lies before the turns that were read with the newest page.
        await expect(page.locator(".item-answer").first.locator(".bill-amounts")).to_contain_text("scripted")
        await page.get_by_role("button", name="Show later messages").click()
        await expect(page.locator(".said").first).not_to_have_text("question 0")
