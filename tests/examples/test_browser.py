from collections.abc import Iterable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import quote

import anyio
import pytest
from playwright.async_api import Browser, Page, ViewportSize, expect
from tests.examples.scripts import EXAMPLES, IN_MEMORY, talk

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.config import SystemSettings
from agentvm.drivers.base import MessageStarted, Prompt
from agentvm.drivers.scripted import Pause, Script, ScriptStep, echo, last_user_text, reply

FOLDER = EXAMPLES / "browser"
DEADLINE = 60_000
WIDE, NARROW = ViewportSize(width=900, height=640), ViewportSize(width=380, height=640)

expect.set_options(timeout=DEADLINE)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[str]:
    """The page's address on loopback, as `python -m http.server` serves it."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(FOLDER))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/index.html"
        server.shutdown()
        thread.join()


class Slow:
    """Says "one two " and waits for its gate before " three"; anything else but "slow" is echoed."""

    def __init__(self) -> None:
        self.gate = anyio.Event()

    def __call__(self, prompt: Prompt) -> Iterable[ScriptStep]:
        if last_user_text(prompt) != "slow":
            return echo(prompt)
        first, *others = reply("one ", "two ", "three ", "four")
        return [first, *others[:3], Pause(self.gate), *others[3:]]


async def open_page(browser: Browser, site: str, url: str, *, complaints: list[str]) -> Page:
    page = await browser.new_page(viewport=WIDE, color_scheme="light")
    page.set_default_timeout(DEADLINE)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    await page.goto(f"{site}?server={quote(url, safe='')}")
    await expect(page.get_by_role("status")).to_have_text("Connected")
    return page


async def say(page: Page, text: str) -> None:
    """By keyboard alone, as a user would."""
    await page.get_by_label("Message").fill(text)
    await page.keyboard.press("Enter")


def driver(script: Script = echo) -> dict[str, ScriptedDriver]:
    return {"scripted": ScriptedDriver(script)}


async def test_a_message_gets_a_streamed_reply_in_a_new_image(browser: Browser, site: str) -> None:
    complaints: list[str] = []
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(browser, site, server.ws_url, complaints=complaints)
        await say(page, "Hello <b>there</b>")
        await expect(page.locator(".user .bubble")).to_have_text("Hello <b>there</b>")
        await expect(page.locator(".assistant .bubble")).to_have_text("Hello <b>there</b>")
        await expect(page.locator("#log .note")).to_contain_text("scripted · 2 tokens in, 2 out")
        await expect(page.get_by_role("button", name="Stop")).to_be_hidden()
        (image,) = await server.agentx.images.list("user-alice")
        assert (image.name, image.system_prompt) == ("Hello <b>there</b>", "You are a helpful assistant.")
    assert complaints == []


async def test_the_demo_model_is_named_as_such(browser: Browser, site: str) -> None:
    def script(prompt: Prompt) -> Iterable[ScriptStep]:
        _, *rest = reply("Hi")
        model = "smollm2-135m" if last_user_text(prompt) == "demo" else "real"
        return [MessageStarted("", model), *rest]

    complaints: list[str] = []
    async with start_server(IN_MEMORY, drivers=driver(script)) as server:
        page = await open_page(browser, site, server.ws_url, complaints=complaints)
        notice = page.get_by_text("built-in demo model")
        await say(page, "real")
        await expect(page.locator(".assistant .bubble")).to_have_text("Hi")
        await expect(notice).to_be_hidden()
        await say(page, "demo")
        await expect(notice).to_be_visible()
    assert complaints == []


async def test_tool_calls_become_cards_with_input_and_result(browser: Browser, site: str) -> None:
    complaints: list[str] = []
    async with start_server(IN_MEMORY, drivers=driver(talk)) as server:
        page = await open_page(browser, site, server.ws_url, complaints=complaints)
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


async def test_the_stop_button_and_escape_end_a_running_turn(browser: Browser, site: str) -> None:
    complaints: list[str] = []
    endless = ScriptedDriver(talk)
    async with start_server(IN_MEMORY, drivers={"scripted": endless}) as server:
        page = await open_page(browser, site, server.ws_url, complaints=complaints)
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


async def test_a_failed_turn_is_shown_and_the_next_one_works(browser: Browser, site: str) -> None:
    complaints: list[str] = []
    async with start_server(IN_MEMORY, drivers=driver(talk)) as server:
        page = await open_page(browser, site, server.ws_url, complaints=complaints)
        await say(page, "fail please")
        await expect(page.locator(".error .bubble")).to_have_text("The model is overloaded; try again later")
        await say(page, "again")
        await expect(page.locator(".assistant .bubble").last).to_have_text("again")
    assert complaints == []


async def test_the_page_reconnects_and_reads_what_it_missed(browser: Browser, site: str, tmp_path: Path) -> None:
    complaints: list[str] = []
    async with start_server(ServerConfig(system=SystemSettings(port=0, data_dir=str(tmp_path))), drivers=driver()) as server:
        page = await open_page(browser, site, server.ws_url, complaints=complaints)
        await say(page, "before")
        await expect(page.locator(".assistant .bubble")).to_have_text("before")
    await expect(page.get_by_role("status")).not_to_have_text("Connected")
    async with start_server(
        ServerConfig(system=SystemSettings(port=server.port, data_dir=str(tmp_path))), drivers=driver()
    ) as server:
        (image,) = await server.agentx.images.list("user-alice")
        agent = await server.agentx.images.run(image.image_id)
        missed = [event.type async for event in agent.stream("meanwhile")]
        assert missed[-1] == "turn_response"
        await expect(page.get_by_role("status")).to_have_text("Connected")
        await expect(page.locator(".user .bubble")).to_have_text(["before", "meanwhile"])
        await say(page, "after")
        await expect(page.locator(".assistant .bubble")).to_have_text(["before", "meanwhile", "after"])
    assert complaints == []


async def test_settings_choose_another_container_and_the_screen_may_be_narrow(browser: Browser, site: str) -> None:
    complaints: list[str] = []
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(browser, site, server.ws_url, complaints=complaints)
        await page.set_viewport_size(NARROW)
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


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
async def test_the_composer_stands_at_the_bottom_with_and_without_settings(
    browser: Browser, site: str, size: ViewportSize
) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(browser, site, server.ws_url, complaints=[])
        await page.set_viewport_size(size)
        for _ in range(2):
            box = await page.locator("#composer").bounding_box()
            log = await page.locator("#log").bounding_box()
            assert box is not None
            assert log is not None
            assert box["height"] < 120
            assert round(box["y"] + box["height"]) == size["height"]
            assert round(log["y"] + log["height"]) == round(box["y"])
            await page.get_by_role("button", name="Settings").click()


async def test_a_reload_during_an_answer_goes_on_with_it(browser: Browser, site: str) -> None:
    complaints: list[str] = []
    slow = Slow()
    async with start_server(IN_MEMORY, drivers=driver(slow)) as server:
        page = await open_page(browser, site, server.ws_url, complaints=complaints)
        await say(page, "slow")
        await expect(page.locator(".live .bubble")).to_have_text("one two")
        await say(page, "next")
        await expect(page.locator(".user .bubble")).to_have_text(["slow", "next"])
        await page.reload()
        await expect(page.locator(".user .bubble")).to_have_text(["slow", "next"])
        await expect(page.locator(".turn").first.get_by_text("Answer in progress")).to_be_visible()
        await expect(page.get_by_role("button", name="Stop")).to_be_visible()
        slow.gate.set()
        await expect(page.locator(".turn").first.locator(".assistant .bubble")).to_have_text("one two three four")
        await expect(page.locator(".turn").last.locator(".assistant .bubble")).to_have_text("next")
        await expect(page.get_by_text("Answer in progress")).to_have_count(0)
        await expect(page.get_by_role("button", name="Stop")).to_be_hidden()
        await expect(page.locator(".live")).to_have_count(0)
    assert complaints == []


async def test_what_comes_after_a_reload_is_shown_before_the_answer_is_whole(browser: Browser, site: str) -> None:
    complaints: list[str] = []
    first, second = anyio.Event(), anyio.Event()

    def script(prompt: Prompt) -> Iterable[ScriptStep]:
        begin, *others = reply("one ", "two ", "three ")
        return [begin, *others[:2], Pause(first), others[2], Pause(second), *others[3:]]

    async with start_server(IN_MEMORY, drivers=driver(script)) as server:
        page = await open_page(browser, site, server.ws_url, complaints=complaints)
        await say(page, "go")
        await expect(page.locator(".live .bubble")).to_have_text("one")
        await page.reload()
        await expect(page.get_by_text("Answer in progress")).to_be_visible()
        first.set()
        await expect(page.locator(".live .bubble")).to_have_text("two")
        second.set()
        await expect(page.locator(".assistant .bubble")).to_have_text("one two three")
        await expect(page.locator(".turn > .note")).to_have_count(1)
    assert complaints == []


async def test_each_answer_and_its_end_stand_under_their_own_question(browser: Browser, site: str) -> None:
    complaints: list[str] = []
    async with start_server(IN_MEMORY, drivers=driver(Slow())) as server:
        page = await open_page(browser, site, server.ws_url, complaints=complaints)
        await say(page, "slow")
        await expect(page.locator(".live .bubble")).to_have_text("one two")
        await say(page, "next")
        await expect(page.locator(".user .bubble")).to_have_text(["slow", "next"])
        await page.keyboard.press("Escape")
        for number, (question, answer, end) in enumerate([("slow", "one two", "Stopped · "), ("next", "next", "scripted · ")]):
            turn = page.locator(".turn").nth(number)
            await expect(turn.locator(".user .bubble")).to_have_text(question)
            await expect(turn.locator(".assistant .bubble")).to_have_text(answer)
            await expect(turn.locator(".note")).to_contain_text(end)
        # The same from the history.
        await page.reload()
        await expect(page.locator(".turn")).to_have_count(2)
        await expect(page.locator(".turn").first).to_contain_text("one two")
    assert complaints == []


async def test_a_page_that_is_a_file_or_finds_no_server_says_what_to_do(browser: Browser, site: str) -> None:
    hint = "python3 -m http.server 8000 --bind 127.0.0.1 --directory examples/browser"
    for address in ((FOLDER / "index.html").as_uri(), f"{site}?server=ws://127.0.0.1:1/ws"):
        page = await browser.new_page()
        await page.goto(address)
        await expect(page.get_by_text(hint)).to_be_visible()
