from pathlib import Path
from urllib.parse import quote

from playwright.async_api import Browser, Page, expect
from tests.examples.scripts import EXAMPLES, IN_MEMORY, talk

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.drivers.scripted import Script, echo

PAGE = (EXAMPLES / "browser" / "index.html").as_uri()
DEADLINE = 20_000
WIDE, NARROW = {"width": 1100, "height": 760}, {"width": 380, "height": 680}

expect.set_options(timeout=DEADLINE)


async def open_page(browser: Browser, url: str, *, complaints: list[str]) -> Page:
    page = await browser.new_page(viewport=WIDE, color_scheme="light")  # type: ignore[arg-type]  # a dict of the right shape
    page.set_default_timeout(DEADLINE)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    await page.goto(f"{PAGE}?server={quote(url, safe='')}")
    await expect(page.get_by_role("status")).to_have_text("Connected")
    return page


async def say(page: Page, text: str) -> None:
    """By keyboard alone, as a user would."""
    await page.get_by_label("Message").fill(text)
    await page.keyboard.press("Enter")


def driver(script: Script = echo) -> dict[str, ScriptedDriver]:
    return {"scripted": ScriptedDriver(script)}


async def test_a_message_gets_a_streamed_reply_in_a_new_image(browser: Browser) -> None:
    complaints: list[str] = []
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(browser, server.ws_url, complaints=complaints)
        await say(page, "Hello <b>there</b>")
        await expect(page.locator(".user .bubble")).to_have_text("Hello <b>there</b>")
        await expect(page.locator(".assistant .bubble")).to_have_text("Hello <b>there</b>")
        await expect(page.locator("#log .note")).to_contain_text("scripted · 2 tokens in, 2 out")
        await expect(page.get_by_role("button", name="Stop")).to_be_hidden()
        (image,) = await server.agentx.images.list("user-alice")
        assert (image.name, image.system_prompt) == ("Hello <b>there</b>", "You are a helpful assistant.")
    assert complaints == []


async def test_tool_calls_become_cards_with_input_and_result(browser: Browser) -> None:
    complaints: list[str] = []
    async with start_server(IN_MEMORY, drivers=driver(talk)) as server:
        page = await open_page(browser, server.ws_url, complaints=complaints)
        await say(page, "tool please")
        await expect(page.locator(".assistant .bubble").last).to_have_text("tool please")
        await expect(page.locator(".done .state")).to_have_text("done")
        await expect(page.locator(".failed .state")).to_have_text("failed")
        await page.locator(".done summary").press("Enter")
        await expect(page.locator(".done .input")).to_be_visible()
        await expect(page.locator(".done .input")).to_contain_text("(2 + 3) * 4")
        await expect(page.locator(".done .result")).to_have_text("20")
        # The same from the history.
        await page.reload()
        await expect(page.locator(".done .result")).to_have_text("20")
        await expect(page.locator(".assistant .bubble").first).to_have_text("Let me see.")
    assert complaints == []


async def test_the_stop_button_and_escape_end_a_running_turn(browser: Browser) -> None:
    complaints: list[str] = []
    endless = ScriptedDriver(talk)
    async with start_server(IN_MEMORY, drivers={"scripted": endless}) as server:
        page = await open_page(browser, server.ws_url, complaints=complaints)
        for times in (1, 2):
            await say(page, "Count")
            await expect(page.locator(".live .bubble")).to_have_text("one, two")
            stop = page.get_by_role("button", name="Stop")
            await (stop.click() if times == 1 else page.keyboard.press("Escape"))
            await expect(page.get_by_text("Stopped ·")).to_have_count(times)
            await expect(stop).to_be_hidden()
            await expect(page.locator(".live")).to_have_count(0)
    assert endless.closed_early == 2
    assert complaints == []


async def test_a_failed_turn_is_shown_and_the_next_one_works(browser: Browser) -> None:
    complaints: list[str] = []
    async with start_server(IN_MEMORY, drivers=driver(talk)) as server:
        page = await open_page(browser, server.ws_url, complaints=complaints)
        await say(page, "fail please")
        await expect(page.locator(".error .bubble")).to_have_text("The model is overloaded; try again later")
        await say(page, "again")
        await expect(page.locator(".assistant .bubble").last).to_have_text("again")
    assert complaints == []


async def test_the_page_reconnects_and_reads_what_it_missed(browser: Browser, tmp_path: Path) -> None:
    complaints: list[str] = []
    async with start_server(ServerConfig(port=0, data_dir=tmp_path), drivers=driver()) as server:
        page = await open_page(browser, server.ws_url, complaints=complaints)
        await say(page, "before")
        await expect(page.locator(".assistant .bubble")).to_have_text("before")
    await expect(page.get_by_role("status")).not_to_have_text("Connected")
    async with start_server(ServerConfig(port=server.port, data_dir=tmp_path), drivers=driver()) as server:
        (image,) = await server.agentx.images.list("user-alice")
        agent = await server.agentx.images.run(image.image_id)
        missed = [event.type async for event in agent.stream("meanwhile")]
        assert missed[-1] == "turn_response"
        await expect(page.get_by_role("status")).to_have_text("Connected")
        await expect(page.locator(".user .bubble")).to_have_text(["before", "meanwhile"])
        await say(page, "after")
        await expect(page.locator(".assistant .bubble")).to_have_text(["before", "meanwhile", "after"])
    assert complaints == []


async def test_settings_choose_another_container_and_the_screen_may_be_narrow(browser: Browser) -> None:
    complaints: list[str] = []
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(browser, server.ws_url, complaints=complaints)
        await page.set_viewport_size(NARROW)  # type: ignore[arg-type]  # a dict of the right shape
        await say(page, "mine")
        await expect(page.locator(".assistant .bubble")).to_have_text("mine")
        await page.get_by_role("button", name="Settings").click()
        await page.get_by_label("Container").fill("user-bob")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("Say something to begin.")).to_be_visible()
        await expect(page.get_by_role("status")).to_have_text("Connected")
        await say(page, "yours")
        await expect(page.locator(".assistant .bubble")).to_have_text(["yours"])
        assert len(await server.agentx.images.list("user-bob")) == 1
        width = await page.evaluate("document.documentElement.scrollWidth")
        assert width <= NARROW["width"]
    assert complaints == []
