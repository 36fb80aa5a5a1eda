"""The journeys that differ between browsers, in the Firefox and the WebKit of the machine."""

import json
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from tests.console import firefox, webkit
from tests.console.firefox import CONTROL, ENTER, ESCAPE, TAB
from tests.console.network import cut
from tests.console.test_engines import COMPOSE, HOSTILE
from tests.console.test_journeys import IN_MEMORY, Stepwise, driver
from tests.console.test_sign_in import GUARDED, first_key
from tests.console.test_texts import FOREIGN, PAYLOADS, fetch_page
from tests.console.test_texts import script as hostile
from tests.support.killable import free_port, server_process

from agentvm import ImageConfig, start_server
from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import ScriptStep, echo, last_user_text
from agentvm.model.definition import Definition
from agentvm.operations.session import SessionSetTitle
from agentvm.server.console import DIRECTORY

SHOWN = "document.querySelector('.log-inner').textContent"
FIELD = "document.querySelector('.composer textarea')"
LAST = "[...document.querySelectorAll('.answer')].at(-1)?.textContent.trim()"
IS_FOCUSED = f"{FIELD} !== null && document.activeElement === {FIELD}"

MOST_TABS = 60
"""Steps within which a control is reached."""

Window = firefox.Window | webkit.Window


async def greet(window: Window, address: str) -> None:
    """A first message of hostile text, its answer, and both opened again."""
    await window.goto(address)
    await window.until(IS_FOCUSED)
    await window.write(HOSTILE)
    await window.press(ENTER)
    await window.until("document.querySelector('.bill') !== null")
    assert await window.read("document.querySelector('.said').textContent") == HOSTILE
    assert await window.read("document.querySelector('.answer strong').textContent") == "bold"
    assert await window.read("document.querySelectorAll('.log img, .log a[href^=javascript]').length") == 0
    await open_again(window)


async def open_again(window: Window) -> None:
    """Opened again it is what is stored."""
    live, address = await window.read(SHOWN), await window.read("location.href")
    await window.goto("about:blank")
    await window.goto(address)
    await window.until("document.querySelector('.log[aria-busy=false] .bill') !== null")
    await window.until(f"{SHOWN} === {json.dumps(live)}")
    await window.until(IS_FOCUSED)


async def compose(window: Window) -> None:
    """Enter that chooses a word sends nothing, and the keys reach the palette and come back."""
    await window.write("zhongwen")
    await window.read(f"({COMPOSE})({FIELD})")
    assert await window.read(f"{FIELD}.value") == "zhongwen"
    await window.press(CONTROL, "k")
    await window.until("document.activeElement === document.querySelector('.palette input')")
    await window.press(ESCAPE)
    await window.until(f"document.activeElement === {FIELD}")
    await window.press(CONTROL, "a")


async def stop_with_the_keyboard(window: Window, stepwise: Stepwise) -> None:
    """Stops an answer, forks it, and goes to the settings, all with keys."""
    await window.write("slowly")
    await window.press(ENTER)
    stepwise.gates[0].set()
    await window.until(f"{LAST} === 'piece0'")
    await window.press(ESCAPE)
    await window.until("document.querySelector('.bill .stopped') !== null")
    origin = await window.read("location.href")
    await window.read("document.querySelector('.skip').focus()")
    walked: list[str] = []
    while "Fork from here" not in walked:
        assert len(walked) < MOST_TABS, walked
        await window.press(TAB)
        walked.append(str(await window.read("document.activeElement.getAttribute('aria-label')")))
    await window.activate()
    await window.until(f"location.href !== {json.dumps(origin)} && document.querySelectorAll('.said').length === 1")
    await window.until(IS_FOCUSED)
    await window.press(CONTROL, "k")
    await window.until("document.activeElement === document.querySelector('.palette input')")
    await window.write("settings")
    await window.press(ENTER)
    await window.until("document.activeElement.matches('h1') && document.activeElement.textContent === 'Settings'")


Opener = Callable[[Path], AbstractAsyncContextManager[Window]]


@pytest.fixture(params=[firefox, webkit], ids=["firefox", "webkit"])
def open_window(request: pytest.FixtureRequest) -> Opener:
    """Opens windows of an installed browser, each in a process of its own."""
    engine = request.param
    program = firefox.firefox() if engine is firefox else webkit.webkit()
    if program is None or not (DIRECTORY / "index.html").exists():
        lacks = "it is not installed (AVM_TEST_FIREFOX names one)" if engine is firefox else webkit.LACKING
        pytest.skip(f"{'firefox' if engine is firefox else 'webkit'}: {lacks}, or the console is not built")

    def open_(home: Path) -> AbstractAsyncContextManager[Window]:
        home.mkdir(exist_ok=True)
        return firefox.open_window(program, home) if engine is firefox else webkit.open_window(program, home)

    return open_


async def is_clean(window: Window) -> None:
    assert await window.read(f"document.querySelectorAll({json.dumps(FOREIGN)}).length") == 0
    assert await window.read("String(window.hit)") == "undefined"


async def show_hostile_texts(window: Window, address: str) -> None:
    """Hostile texts in a title, an answer, a result of a tool, and what a search finds."""
    await window.write("hostile")
    await window.press(ENTER)
    await window.until("document.querySelectorAll('.bill-amounts').length === 3")
    await window.read("document.querySelector('.tool summary').click()")
    await window.until("[...document.querySelectorAll('.tool pre')].at(-1).textContent.includes('window.hit=1')")
    await window.until("document.querySelector('.heading h1').textContent.includes('window.hit=1')")
    await is_clean(window)
    await window.goto(f"{address}/search?q=window.hit")
    await window.until("document.querySelector('.hits mark') !== null")
    await is_clean(window)


async def test_an_installed_browser_answers_resumes_and_shows_texts_as_texts(tmp_path: Path, open_window: Opener) -> None:
    stepwise = Stepwise(8)

    def script(prompt: Prompt) -> Iterable[ScriptStep]:
        text = last_user_text(prompt)
        return stepwise(prompt) if text == "slowly" else hostile(prompt) if text == "hostile" else echo(prompt)

    clerk = Definition(name="clerk", tools=("fetch_page",))
    async with (
        start_server(IN_MEMORY, definitions=[clerk], drivers=driver(script), tools=[fetch_page]) as server,
        open_window(tmp_path) as window,
    ):
        image = await server.agentx.images.create(ImageConfig(definition="clerk"))
        await server.agentx.ask(SessionSetTitle(session_id=image.session_id, title=" ".join(PAYLOADS)[:290]))
        await greet(window, f"{server.url}/c/{image.session_id}")
        await compose(window)
        # Cut six times, and loaded again in the middle, an answer is whole.
        await window.write("slowly")
        await window.press(ENTER)
        shown, cuts = "", 0
        for number, gate in enumerate(stepwise.gates):
            gate.set()
            shown = f"{shown} piece{number}".strip()
            await window.until(f"{LAST} === {json.dumps(shown)}")
            if number == 3:
                await window.goto(str(await window.read("location.href")))
            elif gate is not stepwise.gates[-1]:
                cut(server)
                cuts += 1
        assert cuts == 6
        await window.until("document.querySelectorAll('.bill-amounts').length === 2")
        await open_again(window)
        await show_hostile_texts(window, server.url)


async def walk(window: Window, is_reached: str) -> None:
    """Walks with the Tab key until the element that has the focus is the one."""
    for _ in range(MOST_TABS):
        if await window.read(f"(({is_reached})(document.activeElement))"):
            return
        await window.press(TAB)
    pytest.fail(f"{is_reached} is not reached with the keyboard")


async def test_an_installed_browser_signs_in_and_changes_a_setting_without_a_mouse(tmp_path: Path, open_window: Opener) -> None:
    async with start_server(GUARDED, drivers=driver(echo)) as server, open_window(tmp_path) as window:
        await window.goto(f"{server.url}/settings/limits.steps")
        await window.until("document.activeElement.id === 'key'")
        await window.write(first_key(server))
        await window.press(ENTER)
        await window.until("document.activeElement.matches('h1') && document.activeElement.textContent === 'limits.steps'")
        await walk(window, "(one) => one.labels?.[0]?.textContent.startsWith('Value') ?? false")
        await window.press(CONTROL, "a")
        await window.write("9")
        await window.press(ENTER)
        await window.until("document.querySelector('.preview') !== null")
        await walk(window, "(one) => one.matches('button') && one.textContent === 'Save'")
        await window.activate()
        await window.until("document.querySelector('.effective')?.textContent.includes('9')")


async def test_an_installed_browser_shows_what_another_device_stops_and_needs_no_mouse(
    tmp_path: Path, open_window: Opener
) -> None:
    first_script, second_script = Stepwise(), Stepwise()

    def script(prompt: Prompt) -> Iterable[ScriptStep]:
        return first_script(prompt) if last_user_text(prompt) == "together" else second_script(prompt)

    async with (
        start_server(IN_MEMORY, drivers=driver(script)) as server,
        open_window(tmp_path / "desk") as desk,
        open_window(tmp_path / "phone") as phone,
    ):
        await desk.goto(server.url)
        await desk.until(IS_FOCUSED)
        await desk.write("together")
        await desk.press(ENTER)
        first_script.gates[0].set()
        await desk.until(f"{LAST} === 'piece0'")
        await phone.goto(str(await desk.read("location.href")))
        await phone.until(f"{LAST} === 'piece0'")
        first_script.gates[1].set()
        for window in (desk, phone):
            await window.until(f"{LAST} === 'piece0 piece1'")
        await phone.until(IS_FOCUSED)
        await phone.press(ESCAPE)
        for window in (desk, phone):
            await window.until("document.querySelector('.bill .stopped') !== null")
        await desk.goto(server.url)
        await desk.until(IS_FOCUSED)
        await stop_with_the_keyboard(desk, second_script)


async def test_an_installed_browser_keeps_what_is_written_while_its_server_was_killed(
    tmp_path: Path, open_window: Opener
) -> None:
    port, data = free_port(), tmp_path / "data"
    data.mkdir()
    async with open_window(tmp_path / "home") as window:
        async with server_process(data, port, "wait"):
            await window.goto(f"http://127.0.0.1:{port}")
            await window.read("navigator.serviceWorker.ready.then(() => true)")
            await window.until(IS_FOCUSED)
            await window.write("Tell me")
            await window.press(ENTER)
            await window.until(f"{LAST} === 'before'")
        await window.until("document.querySelector('.banner') !== null")
        for number, text in enumerate(("second", "third"), start=1):
            await window.write(text)
            await window.press(ENTER)
            await window.until(f"document.querySelectorAll('.bubble-pending').length === {number}")
        # The page comes from the browser, and what was written with it.
        await window.goto(str(await window.read("location.href")))
        await window.until("document.querySelectorAll('.bubble-pending').length === 2")
        async with server_process(data, port, "go"):
            await window.until("document.querySelectorAll('.bill-amounts').length === 3")
            said = await window.read("[...document.querySelectorAll('.said')].map((one) => one.textContent).join()")
            assert said == "Tell me,second,third"
            answers = "[...document.querySelectorAll('.answer')].map((one) => one.textContent.trim()).join()"
            assert await window.read(answers) == "before after,before after,before after"
            assert await window.read("document.querySelectorAll('.bubble-pending').length") == 0
            await open_again(window)
