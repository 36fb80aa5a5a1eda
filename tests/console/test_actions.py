"""What people do with the messages of a conversation."""

import re
from collections.abc import Iterable

import anyio
from playwright.async_api import Page, expect
from tests.console.conftest import DESK, PHONE, Open
from tests.console.test_journeys import IN_MEMORY, Stepwise, driver, say

from agentvm import start_server
from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import ScriptStep, echo, last_user_text, reply

ADDRESS_OF_MARK = ".item-marked"


class Counting:
    """Answers with the question and the number of the answer."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, prompt: Prompt) -> Iterable[ScriptStep]:
        self.count += 1
        return reply(f"{last_user_text(prompt)} {self.count}")


async def begin(page: Page, *texts: str) -> None:
    for number, text in enumerate(texts, start=1):
        await say(page, text)
        await expect(page.locator(".bill")).to_have_count(number)


async def menu(page: Page, action: str) -> None:
    await page.get_by_role("button", name="More").click()
    await page.get_by_role("button", name=action, exact=True).click()


async def test_a_question_is_edited_and_what_was_taken_back_can_be_read_and_continued(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver(Counting())) as server:
        page = await open_page(server.url)
        await begin(page, "one", "two")
        other = await open_page(page.url)
        await page.locator(".bubble").first.hover()
        await page.get_by_role("button", name="Edit question").first.click()
        await page.get_by_role("textbox", name="Edit question").fill("uno")
        await page.keyboard.press("Enter")
        for window in (page, other):
            await expect(window.locator(".said")).to_have_text(["uno"])
            await expect(window.locator(".answer")).to_have_text(["uno 3"])
            await expect(window.locator(".taken summary")).to_contain_text("4 messages taken back")
        await expect(page.locator(".bill")).to_contain_text("scripted")
        live = await page.locator(".log-inner").text_content() or ""
        await page.reload()
        await expect(page.locator(".bill")).to_contain_text("scripted")
        await expect(page.locator(".log")).to_have_attribute("aria-busy", "false")
        await expect(page.locator(".log-inner")).to_have_text(live)
        await page.locator(".taken summary").click()
        await expect(page.locator(".taken-text")).to_have_text(["one", "one 1", "two", "two 2"])
        await page.locator(".taken-item").nth(1).get_by_role("button", name="Fork from here").click()
        await expect(page.locator(".said")).to_have_text(["one"])
        await expect(page.locator(".answer")).to_have_text(["one 1"])


async def test_the_up_key_edits_the_last_question_and_escape_leaves_it(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver(Counting())) as server:
        page = await open_page(server.url)
        await begin(page, "one")
        await page.keyboard.press("ArrowUp")
        await expect(page.get_by_role("textbox", name="Edit question")).to_have_value("one")
        await page.keyboard.press("Escape")
        await expect(page.locator(".said")).to_have_text(["one"])
        await expect(page.get_by_label("Message", exact=True)).to_be_focused()


async def test_an_answer_is_given_again_and_a_question_taken_back(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver(Counting())) as server:
        page = await open_page(server.url)
        await begin(page, "one")
        other = await open_page(page.url)
        await page.get_by_role("button", name="Answer again").click()
        for window in (page, other):
            await expect(window.locator(".answer")).to_have_text(["one 2"])
        await page.locator(".bubble").hover()
        await page.get_by_role("button", name="Take back from here").click()
        for window in (page, other):
            await expect(window.locator(".answer")).to_have_count(0)
            await expect(window.locator(".taken")).to_have_count(2)


async def test_a_fork_leads_back_to_the_message_it_came_from(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(server.url)
        await begin(page, "one", "two")
        origin = page.url
        await page.get_by_role("button", name="Fork from here").first.click()
        await expect(page.locator(".said")).to_have_text(["one"])
        assert page.url != origin
        await page.locator(".heading").get_by_role("link", name="Forked from another conversation").click()
        await expect(page.locator(".said")).to_have_text(["one", "two"])
        await expect(page.locator(f"{ADDRESS_OF_MARK} .answer")).to_have_text("one")


async def test_an_answer_is_rated_with_a_note_that_operators_read(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(server.url)
        await begin(page, "Hello")
        good, bad = (page.get_by_role("button", name=f"{word} answer") for word in ("Good", "Bad"))
        await good.click()
        await expect(good).to_have_attribute("aria-pressed", "true")
        await bad.click()
        await expect(bad).to_have_attribute("aria-pressed", "true")
        await expect(good).to_have_attribute("aria-pressed", "false")
        await page.get_by_label("What was good or bad about it").fill("It is too short.")
        await page.keyboard.press("Enter")
        await expect(page.locator(".rating-note")).to_have_count(0)
        await expect(good).to_be_focused()
        await page.reload()
        await expect(bad).to_have_attribute("aria-pressed", "true")
        await page.goto(f"{server.url}/activity/feedback?rating=down")
        row = page.get_by_role("row").filter(has_text="It is too short.")
        await expect(row).to_contain_text("Bad answer")
        await row.get_by_role("link").click()
        await expect(page.locator(".told .answer")).to_have_text("Hello")
        await page.go_back()
        await page.go_back()
        await expect(bad).to_have_attribute("aria-pressed", "true")
        # A second press takes it back.
        await bad.click()
        await expect(bad).to_have_attribute("aria-pressed", "false")
        await page.reload()
        await expect(bad).to_have_attribute("aria-pressed", "false")


async def test_an_answer_is_copied_as_it_was_written(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(server.url)
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await begin(page, "a **bold** word")
        await page.get_by_role("button", name="Copy answer").click()
        await expect(page.get_by_role("status").filter(has_text="Copied")).to_be_visible()
        assert await page.evaluate("() => navigator.clipboard.readText()") == "a **bold** word"


async def test_a_conversation_is_pinned_and_archived_and_brought_back(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(server.url)
        await begin(page, "Hello")
        await menu(page, "Pin")
        await expect(page.locator(".list h3")).to_have_text(["Pinned"])
        await menu(page, "Unpin")
        # The day may end meanwhile.
        await expect(page.locator(".list h3")).to_have_text([re.compile("^(Today|Earlier)$")])
        await menu(page, "Archive")
        await expect(page.locator(".row")).to_have_count(0)
        await page.get_by_role("link", name="Archived conversations").click()
        await expect(page.locator(".lines a")).to_have_text("Hello")
        await page.get_by_role("button", name="Bring back").click()
        await expect(page.locator(".row")).to_contain_text("Hello")
        await expect(page.locator(".lines li")).to_have_count(0)


def long(prompt: Prompt) -> Iterable[ScriptStep]:
    text = last_user_text(prompt)
    return reply(f"Answer to {text}.\n\n" + "A line of some length.\n\n" * (int(text.split()[-1]) % 7))


async def test_earlier_messages_keep_the_place_and_an_address_leads_to_one(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver(long)) as server:
        image = await server.agentx.images.create()
        agent = await server.agentx.images.run(image.image_id)
        ended = anyio.Semaphore(0)
        server.agentx.runtime.on("turn_response", lambda _: ended.release())
        for number in range(65):
            await agent.receive(f"question {number}")
            await ended.acquire()
        page = await open_page(f"{server.url}/c/{image.session_id}")
        await expect(page.locator(".said").last).to_have_text("question 64")
        first = page.locator(".item").first
        await page.locator(".log").hover()
        await page.mouse.wheel(0, -1_000_000)
        earlier = page.get_by_role("button", name="Show earlier messages")
        await expect(earlier).to_be_in_viewport()
        await page.wait_for_function("() => document.querySelector('.log').scrollTop === 0")
        name = await first.get_attribute("id")
        kept = page.locator(f"#{name}")
        before = await kept.evaluate("element => element.getBoundingClientRect().top")
        await earlier.click()
        await expect(page.locator(".said").first).to_have_text("question 0")
        await expect(earlier).to_have_count(0)
        # The heights of messages that were never drawn are known a few frames later.
        await page.evaluate(
            "() => new Promise(done => { let n = 10; (function f() { n-- ? requestAnimationFrame(f) : done() })() })"
        )
        is_kept = "([id, before]) => Math.abs(document.getElementById(id).getBoundingClientRect().top - before) < 2"
        await page.wait_for_function(is_kept, arg=[name, before])
        # All of it is in the document, where the search of the browser finds what is not on the screen.
        await expect(page.locator(".said")).to_have_text([f"question {number}" for number in range(65)])
        # A browser without a window has no search of its own; it passes over what is hidden so.
        findable = "all => all.every((one) => one.checkVisibility() && getComputedStyle(one).contentVisibility != 'hidden')"
        assert await page.eval_on_selector_all(".item", findable)
        messages = page.locator(".item-user")
        oldest = await messages.nth(1).get_attribute("id")
        await page.goto("about:blank")
        await page.goto(f"{server.url}/c/{image.session_id}#{oldest}")
        await expect(page.locator(f"{ADDRESS_OF_MARK} .said")).to_have_text("question 1")
        await expect(page.locator(ADDRESS_OF_MARK)).to_be_in_viewport()


async def test_the_field_is_as_high_as_what_is_written_in_it(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(server.url, viewport=PHONE)
        field = page.get_by_label("Message", exact=True)
        low = await field.evaluate("field => field.clientHeight")
        # One line for the text, several for the width of the page.
        await field.fill("A question that goes on and on. " * 6)
        assert await field.evaluate("field => field.scrollHeight <= field.clientHeight")
        assert await field.evaluate("field => field.clientHeight") > 2 * low
        await field.fill("A line.\n" * 40)
        assert await field.evaluate("field => field.scrollHeight > field.clientHeight")
        await field.fill("")
        assert await field.evaluate("field => field.clientHeight") == low


SCROLL = """log => {
  const { right, top } = log.getBoundingClientRect();
  log.dispatchEvent(new PointerEvent("pointerdown", { bubbles: true, clientX: right, clientY: top + 9 }));
  log.scrollTop = 0;
}"""
"""The start of a drag of the bar that scrolls; a browser without a window draws none."""


async def test_an_answer_does_not_pull_back_whoever_drags_the_scroll_bar(open_page: Open) -> None:
    script = Stepwise()

    def long_then_slow(prompt: Prompt) -> Iterable[ScriptStep]:
        return script(prompt) if last_user_text(prompt) == "slowly" else reply("A line.\n\n" * 60)

    async with start_server(IN_MEMORY, drivers=driver(long_then_slow)) as server:
        page = await open_page(server.url)
        await begin(page, "long")
        await say(page, "slowly")
        script.gates[0].set()
        await expect(page.locator(".answer").last).to_have_text("piece0")
        log = page.locator(".log")
        is_at_end = "log => log.scrollHeight - log.scrollTop - log.clientHeight < 8"
        assert await log.evaluate(is_at_end)
        await log.evaluate(SCROLL)
        script.gates[1].set()
        await expect(page.locator(".answer").last).to_have_text("piece0 piece1")
        assert await log.evaluate("log => log.scrollTop") == 0
        # Back at the end, the reader follows again, also when the window becomes lower.
        await log.evaluate("log => { log.scrollTop = log.scrollHeight; }")
        for gate in script.gates[2:]:
            gate.set()
        await expect(page.locator(".bill")).to_have_count(2)
        await page.wait_for_function(f"() => ({is_at_end})(document.querySelector('.log'))")
        await page.set_viewport_size({"width": DESK["width"], "height": DESK["height"] - 200})
        await page.wait_for_function(f"() => innerHeight < {DESK['height']} && ({is_at_end})(document.querySelector('.log'))")


async def test_a_search_opens_at_the_message_and_says_when_it_is_gone(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver(echo)) as server:
        page = await open_page(server.url)
        await begin(page, "apples", "pears")
        address = page.url
        await page.goto(f"{server.url}/search?q=apples")
        await page.locator(".hits a").last.click()
        await expect(page.locator(ADDRESS_OF_MARK)).to_contain_text("apples")
        await page.goto("about:blank")
        await page.goto(f"{address}#msg_gone")
        await expect(page.get_by_role("status").filter(has_text="not in the conversation")).to_be_visible()
