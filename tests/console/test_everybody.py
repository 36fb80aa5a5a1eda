"""The chat without a mouse, for screen readers, on small screens, magnified, and with colours of the system."""

import anyio
import pytest
from playwright.async_api import Browser, Locator, Page, ViewportSize, expect
from tests.console.conftest import DEADLINE_MS, Open
from tests.console.pages import delete_order
from tests.console.pages import script as orders
from tests.console.test_actions import begin
from tests.console.test_journeys import IN_MEMORY, Stepwise, driver, say
from tests.console.test_sign_in import GUARDED, first_key

from agentvm import ImageConfig, ScriptedDriver, start_server
from agentvm.drivers.scripted import Pause, reply
from agentvm.model.definition import Definition
from agentvm.server.console import DIRECTORY

OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
MOVING = """() => [...document.querySelectorAll("*")].filter((element) => {
  const { transitionDuration, animationDuration, scrollBehavior } = getComputedStyle(element);
  const moves = [transitionDuration, animationDuration].join().split(",").some((time) => parseFloat(time) > 0.01);
  return moves || scrollBehavior === "smooth";
}).map((element) => element.className)"""
WIDE = "| a | b |\n|---|---|\n" + f"| {'x' * 300} | 2 |\n\n```python\n{'y' * 300}\n```\n\n$$x = {'y + ' * 60} z$$"


async def press(page: Page, name: str, *, role: str = "button", most: int = 60) -> None:
    """Walks with the Tab key to a control and presses it."""
    control = page.get_by_role(role, name=name, exact=True).first  # type: ignore[arg-type]
    for _ in range(most):
        if await control.evaluate("element => element === document.activeElement"):
            await page.keyboard.press("Enter")
            return
        await page.keyboard.press("Tab")
    pytest.fail(f"{name} is not reached with the keyboard")


async def test_a_mark_stands_for_an_answer_until_its_first_words(open_page: Open) -> None:
    gate = anyio.Event()
    async with start_server(IN_MEMORY, drivers=driver(lambda _: [Pause(gate), *reply("At last.")])) as server:
        page = await open_page(server.url)
        await say(page, "Hello")
        await expect(page.locator(".item-thinking")).to_be_visible()
        gate.set()
        await expect(page.locator(".answer")).to_have_text("At last.")
        await expect(page.locator(".item-thinking")).to_have_count(0)


async def test_the_keyboard_is_enough(open_page: Open) -> None:
    script = Stepwise()
    async with start_server(IN_MEMORY, drivers=driver(script)) as server:
        page = await open_page(server.url)
        field = page.get_by_label("Message", exact=True)
        await expect(field).to_be_focused()
        await page.keyboard.type("Hello")
        await page.keyboard.press("Enter")
        script.gates[0].set()
        await expect(page.locator(".answer")).to_have_text("piece0")
        await expect(field).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("button", name="Stop")).to_have_count(0)
        await expect(page.locator(".bill")).to_be_visible()
        origin = page.url
        await page.locator(".skip").focus()
        await press(page, "Fork from here")
        await expect(page).not_to_have_url(origin)
        # The field of the fork takes the focus.
        await expect(field).to_be_focused()
        await expect(page.locator(".said")).to_have_text(["Hello"])
        await press(page, "More")
        await press(page, "Branches")
        dialog = page.get_by_role("dialog", name="Branches")
        await expect(dialog).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(dialog).to_have_count(0)
        await page.wait_for_function("() => document.activeElement !== document.body")
        await page.keyboard.press("Control+k")
        await expect(page.get_by_role("combobox", name="Commands")).to_be_focused()
        await page.keyboard.type("archived")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Archived conversations")).to_be_visible()


async def walk(page: Page, control: Locator, most: int = 60) -> None:
    """Walks with the Tab key to a control."""
    for _ in range(most):
        if await control.evaluate("element => element === document.activeElement"):
            return
        await page.keyboard.press("Tab")
    pytest.fail(f"{control} is not reached with the keyboard")


async def held(page: Page) -> None:
    """Waits until the focus is on something."""
    await page.wait_for_function("() => document.activeElement !== document.body")


async def test_a_user_signs_in_approves_and_changes_a_setting_without_a_mouse(open_page: Open) -> None:
    clerk = Definition(name="clerk", tools=("delete_order",))
    drivers = {"scripted": ScriptedDriver(orders)}
    async with start_server(GUARDED, definitions=[clerk], drivers=drivers, tools=[delete_order]) as server:
        image = await server.agentx.images.create(ImageConfig(definition="clerk"))
        page = await open_page(f"{server.url}/c/{image.session_id}")
        await expect(page.get_by_label("API key")).to_be_focused()
        await page.keyboard.type(first_key(server))
        await page.keyboard.press("Enter")
        await expect(page.get_by_label("Message", exact=True)).to_be_focused()
        await page.keyboard.type("Delete order 7")
        await page.keyboard.press("Enter")
        await expect(page.locator(".decision")).to_be_visible()
        await held(page)
        await press(page, "Approve")
        await expect(page.locator(".decision")).to_have_count(0)
        await expect(page.locator(".answer").last).to_contain_text("You said")
        await held(page)
        await page.keyboard.press("Control+k")
        await expect(page.get_by_role("combobox", name="Commands")).to_be_focused()
        await page.keyboard.type("settings")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Settings", exact=True)).to_be_focused()
        await walk(page, page.get_by_role("searchbox", name="Search settings"))
        await page.keyboard.type("limits.steps")
        await page.keyboard.press("Enter")
        link = page.get_by_role("link", name="limits.steps", exact=True)
        await expect(page.locator(".settings li")).to_have_count(1)
        await walk(page, link)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="limits.steps", exact=True)).to_be_focused()
        await walk(page, page.get_by_label("Value", exact=True))
        await page.keyboard.press("Control+a")
        await page.keyboard.type("9")
        await page.keyboard.press("Enter")
        await expect(page.locator(".preview")).to_be_visible()
        await held(page)
        await walk(page, page.get_by_role("button", name="Save", exact=True))
        await page.keyboard.press("Enter")
        await expect(page.locator(".effective")).to_contain_text("9")
        await held(page)


async def test_a_reader_hears_that_an_answer_begins_and_ends_and_no_words_of_it(open_page: Open) -> None:
    script = Stepwise()
    async with start_server(IN_MEMORY, drivers=driver(script)) as server:
        page = await open_page(server.url)
        await page.evaluate(
            """() => {
              window.said = [];
              new MutationObserver(() => {
                const text = document.querySelector('main > .unseen')?.textContent ?? '';
                if (text !== '' && text !== window.said.at(-1)) window.said.push(text);
              }).observe(document.body, { subtree: true, childList: true, characterData: true });
            }"""
        )
        await say(page, "Hello")
        await expect(page.locator("main > .unseen")).to_have_text("Answering")
        # In the list, too, not by its colour alone.
        await expect(page.get_by_role("navigation", name="Conversations").get_by_role("img", name="Answering")).to_be_visible()
        for gate in script.gates:
            gate.set()
        await expect(page.locator(".bill")).to_be_visible()
        await expect(page.locator("main > .unseen")).to_have_text("Answer finished, 5 words")
        assert await page.evaluate("window.said") == ["Answering", "Answer finished, 5 words"]
        await expect(page.get_by_role("img", name="Answering")).to_have_count(0)
        log = page.get_by_role("log")
        assert await log.get_attribute("aria-live") == "off"
        tree = await page.locator("body").aria_snapshot()
        for line in (
            'navigation "Conversations"',
            "main:",
            'log "Conversations"',
            'textbox "Message"',
            'button "Attach files"',
        ):
            assert line in tree


async def test_magnified_pages_and_phones_need_no_sideways_scrolling(browser: Browser) -> None:
    if not (DIRECTORY / "index.html").exists():
        pytest.skip("console: it is not built; make console")
    # A desk of 1280 x 1024 at 200 and 400 %, and two phones.
    sizes = (ViewportSize(width=640, height=512), ViewportSize(width=320, height=256))
    phones = (ViewportSize(width=360, height=640), ViewportSize(width=390, height=844))
    async with start_server(IN_MEMORY, drivers=driver(lambda prompt: reply(WIDE))) as server:
        address = ""
        for size in (*phones, *sizes):
            async with await browser.new_context(
                viewport=size, locale="en", has_touch=size in phones, reduced_motion="reduce", service_workers="block"
            ) as context:
                page = await context.new_page()
                page.set_default_timeout(DEADLINE_MS)
                await page.goto(address or server.url)
                # Pages without such an answer are looked at on small screens by `test_access`.
                if not address:
                    await page.get_by_label("Message", exact=True).fill("Hello")
                    await page.get_by_role("button", name="Send").click()
                    await expect(page.locator(".bill")).to_be_visible()
                    address = page.url
                await expect(page.locator(".answer math")).to_be_visible()
                assert await page.evaluate(OVERFLOW) == 0, size
                await expect(page.get_by_label("Message", exact=True)).to_be_in_viewport(ratio=1)
                # A keyboard of a phone takes half of the height.
                await page.set_viewport_size({"width": size["width"], "height": max(240, size["height"] // 2)})
                await expect(page.get_by_label("Message", exact=True)).to_be_in_viewport(ratio=1)


async def test_forced_colours_keep_controls_and_states_visible(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(server.url)
        await page.emulate_media(forced_colors="active", reduced_motion="reduce")
        await begin(page, "Hello")
        send = page.get_by_role("button", name="Send")
        shown = "element => { const s = getComputedStyle(element); return [s.color, s.backgroundColor, s.borderTopStyle] }"
        colour, ground, border = await send.evaluate(shown)
        assert colour != ground or border != "none"
        chosen = page.locator(".row[aria-current='page']")
        await expect(chosen).to_have_count(1)
        assert await chosen.evaluate("element => getComputedStyle(element).outlineStyle") == "solid"
        assert await page.evaluate(MOVING) == []


async def test_the_heap_stays_flat_after_ten_switches(open_page: Open) -> None:
    text = "\n\n".join(f"A paragraph **number** {number} with `code`." for number in range(200))
    async with start_server(IN_MEMORY, drivers=driver(lambda prompt: reply(text))) as server:
        page = await open_page(server.url)
        addresses = []
        for _ in range(2):
            await page.goto(server.url)
            await begin(page, "Hello")
            addresses.append(page.url)
        client = await page.context.new_cdp_session(page)
        await client.send("HeapProfiler.enable")

        async def heap() -> float:
            await client.send("HeapProfiler.collectGarbage")
            usage = await client.send("Runtime.getHeapUsage")
            return float(usage["usedSize"])

        async def switch(times: int) -> None:
            for number in range(times):
                row = page.locator(f".row[href='{addresses[number % 2].removeprefix(server.url)}']")
                await row.click()
                await expect(row).to_have_attribute("aria-current", "page")
                await expect(page.locator(".log")).to_have_attribute("aria-busy", "false")
                await expect(page.locator(".answer")).to_contain_text("number 199")

        await switch(4)
        before = await heap()
        with anyio.fail_after(120):
            await switch(10)
        assert await heap() / before <= 1.2
