"""Connections that end: cuts, a killed server, hidden tabs, lost events, slow networks, new versions, and no server at all."""

import contextlib
import re
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import anyio
import pytest
from playwright.async_api import Browser, Page, expect
from tests.console.conftest import DEADLINE_MS, DESK, Open
from tests.console.network import Cable, cut
from tests.console.test_access import SPEAK
from tests.console.test_actions import begin
from tests.console.test_journeys import IN_MEMORY, Stepwise, driver, say
from tests.support.killable import free_port, server_process

from agentvm import start_server
from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import Pause, ScriptStep, reply
from agentvm.runtime.channel import Channel, Subscription
from agentvm.server.console import DIRECTORY

SLOW_PIECES = 12_000
"""More events than are kept for a page that does not read them."""

HIDE = """(isHidden) => {
  Object.defineProperty(document, 'hidden', { configurable: true, get: () => isHidden });
  document.dispatchEvent(new Event('visibilitychange'));
}"""


KEPT = """() => new Promise((done) => {
  const opening = indexedDB.open("avm");
  opening.onsuccess = () => {
    const reading = opening.result.transaction("copies").objectStore("copies").getAll();
    reading.onsuccess = () => { opening.result.close(); done(JSON.stringify(reading.result).split("Stay ").length > 2); };
  };
})"""
"""Whether the browser has kept the list and the conversation, both with the answer."""


async def equals_the_store(page: Page) -> None:
    await expect(page.locator(".bill").last).to_contain_text("scripted")
    live = await page.locator(".log-inner").text_content() or ""
    await page.reload()
    await expect(page.locator(".log")).to_have_attribute("aria-busy", "false")
    await expect(page.locator(".bill").last).to_contain_text("scripted")
    await expect(page.locator(".log-inner")).to_have_text(live)


async def test_a_hidden_tab_is_parked_and_comes_back_exactly(open_page: Open) -> None:
    script = Stepwise()
    async with start_server(IN_MEMORY, drivers=driver(script)) as server:
        page = await open_page(server.url)
        await page.clock.install()
        await say(page, "slowly")
        script.gates[0].set()
        await expect(page.locator(".answer")).to_have_text("piece0")
        channels = server.server.vm.runtime.broadcaster
        connected = len(channels.channels)
        await page.evaluate(HIDE, True)
        await page.clock.fast_forward("06:00")
        with anyio.fail_after(60):
            while len(channels.channels) == connected:
                await anyio.wait_all_tasks_blocked()
        await expect(page.locator(".banner")).to_have_count(0)
        for gate in script.gates[1:4]:
            gate.set()
        await page.evaluate(HIDE, False)
        await expect(page.locator(".answer")).to_have_text("piece0 piece1 piece2 piece3")
        script.gates[4].set()
        await expect(page.locator(".bill")).to_be_visible()
        await equals_the_store(page)


async def test_events_that_are_gone_are_read_from_the_store(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page, cable = await open_page(server.url), Cable()
        await cable.lay(page)
        await begin(page, "one")
        await cable.unplug()
        await expect(page.locator(".banner")).to_be_visible()
        other = await open_page(page.url)
        await say(other, "two")
        await expect(other.locator(".bill")).to_have_count(2)
        vm = server.server.vm
        replay = vm.runtime.replay
        original = replay.read

        refused: list[int] = []

        async def lost(tenant_id: object, container_id: object, asked: object, after: int) -> object:
            refused.append(after)
            missed = await original(tenant_id, container_id, asked, after)  # type: ignore[arg-type]
            return type(missed)([], missed.last, lost=True)

        replay.read = lost  # type: ignore[method-assign,assignment]
        replay.read_nowait = lambda *_: None  # type: ignore[method-assign]
        await cable.plug()
        await expect(page.locator(".said")).to_have_text(["one", "two"])
        await expect(page.locator(".bill")).to_have_count(2)
        # The page has asked for them, over a socket or without one.
        assert refused


class StallingProxy:
    """Forwards a port, and lets the answers of the server through in small pieces, or not at all while it is stalled."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.flowing = anyio.Event()
        self.flowing.set()

    def stall(self) -> None:
        self.flowing = anyio.Event()

    async def _pump(self, source: anyio.abc.ByteReceiveStream, target: anyio.abc.ByteSendStream, most: int) -> None:
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream):
            while True:
                await target.send(await source.receive(most))
                await self.flowing.wait()

    async def _serve(self, client: anyio.abc.SocketStream) -> None:
        async with client, await anyio.connect_tcp("127.0.0.1", self.port) as server, anyio.create_task_group() as tasks:
            tasks.start_soon(self._pump, client, server, 65_536)
            await self._pump(server, client, 400)
            tasks.cancel_scope.cancel()

    @contextlib.asynccontextmanager
    async def listen(self) -> AsyncIterator[str]:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, self._serve)
            yield f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
            tasks.cancel_scope.cancel()


async def test_a_slow_reader_gets_all_of_a_long_answer(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = [f"word{number} " for number in range(SLOW_PIECES)]
    behind, go_on = anyio.Event(), anyio.Event()
    fall_behind = Channel.fall_behind

    def fallen(channel: Channel, subscription: Subscription) -> None:
        behind.set()
        fall_behind(channel, subscription)

    def script(prompt: Prompt) -> Iterable[ScriptStep]:
        start, text, first, *rest = reply(*pieces)
        return [start, text, first, Pause(go_on), *rest]

    monkeypatch.setattr(Channel, "fall_behind", fallen)
    async with start_server(IN_MEMORY, drivers=driver(script)) as server:
        proxy = StallingProxy(server.port)
        async with proxy.listen() as address:
            page = await open_page(address)
            await say(page, "write")
            await expect(page.locator(".answer")).to_have_text("word0")
            proxy.stall()
            go_on.set()
            # The server keeps no more for a page that does not read, and reads the rest from its log later.
            with anyio.fail_after(60):
                await behind.wait()
            proxy.flowing.set()
            await expect(page.locator(".answer")).to_contain_text(f"word{SLOW_PIECES - 1}")
            await expect(page.locator(".bill")).to_be_visible()
            text = await page.locator(".answer").text_content() or ""
            assert text.split() == "".join(pieces).split()


async def test_a_tab_that_meets_another_version_loads_once_and_keeps_what_was_written(browser: Browser) -> None:
    if not (DIRECTORY / "index.html").exists():
        pytest.skip("console: it is not built; make console")
    async with (
        start_server(IN_MEMORY, drivers=driver()) as server,
        await browser.new_context(viewport=DESK, locale="en", service_workers="block") as context,
    ):
        page = await context.new_page()
        page.set_default_timeout(DEADLINE_MS)
        await page.goto(server.url)
        await begin(page, "one")
        loads: list[str] = []
        page.on("load", lambda loaded: loads.append(loaded.url))
        await page.get_by_label("Message", exact=True).fill("half a thought")
        await page.route("**/assets/archive-*.js", lambda route: route.fulfill(status=404))
        async with page.expect_event("load"):
            await page.get_by_role("link", name="Archived conversations").click()
        # Again it is not there: then the page says so, and does not load for ever.
        missing = page.locator("main [role=alert]")
        await expect(missing).to_contain_text("could not be loaded")
        await page.evaluate(SPEAK, "zh")
        await expect(missing).to_contain_text("无法加载")
        await page.evaluate(SPEAK, "en")
        assert len(loads) == 1
        await page.unroute("**/assets/archive-*.js")
        async with page.expect_event("load"):
            await missing.get_by_role("button", name="Load again").click()
        await expect(page.get_by_role("heading", name="Archived conversations", exact=True)).to_be_visible()
        await page.locator(".row").first.click()
        await expect(page.get_by_label("Message", exact=True)).to_have_value("half a thought")
        # A part over a page is not worth a form that is half filled in.
        await page.goto(f"{server.url}/agents/new")
        name = page.get_by_label("Name", exact=True)
        await name.fill("Half an agent")
        await page.route("**/assets/key_list-*.js", lambda route: route.fulfill(status=404))
        await page.locator("h1").press("?")
        notice = page.locator(".toast")
        await expect(notice).to_contain_text("could not be loaded")
        await expect(notice.get_by_role("button", name="Load again")).to_be_visible()
        await expect(name).to_have_value("Half an agent")


async def test_without_a_connection_nothing_stale_is_shown_and_a_first_message_is_kept(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page, cable = await open_page(server.url), Cable()
        await cable.lay(page)
        await begin(page, "apples")
        await page.goto(f"{server.url}/search?q=apples")
        await expect(page.locator(".hits li").first).to_be_visible()
        await cable.unplug()
        await page.get_by_role("searchbox").fill("pears")
        await page.keyboard.press("Enter")
        await expect(page.locator(".bones")).to_be_visible()
        # What was found for other words is not shown for these.
        await expect(page.locator(".hits li")).to_have_count(0)
        await page.get_by_role("button", name="New conversation").click()
        await say(page, "begin with this")
        await expect(page.locator(".toast")).to_contain_text("A conversation begins when the server is back")
        await expect(page.get_by_label("Message", exact=True)).to_have_value("begin with this")
        await cable.plug()
        await expect(page.locator(".banner")).to_have_count(0)
        await page.get_by_label("Message", exact=True).press("Enter")
        await expect(page.locator(".answer")).to_have_text("begin with this")


async def test_a_page_that_was_never_opened_comes_when_the_server_is_back(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page, cable = await open_page(server.url), Cable()
        await cable.lay(page)
        await expect(page.locator(".agent").first).to_be_visible()
        await cable.unplug()
        for path in ("**/assets/**", "**/health"):
            await page.route(path, lambda route: route.abort())
        await page.get_by_role("link", name="Archived conversations").click()
        await expect(page.locator("main [role=alert]")).to_contain_text("the server cannot be reached")
        # First: as soon as the server is reached the page loads itself again, and cannot be told of anything meanwhile.
        await cable.plug()
        for path in ("**/assets/**", "**/health"):
            await page.unroute(path)
        await expect(page.get_by_role("heading", name="Archived conversations", exact=True)).to_be_visible()


async def test_the_console_starts_without_a_server_and_shows_nothing_of_another_user(browser: Browser) -> None:
    if not (DIRECTORY / "index.html").exists():
        pytest.skip("console: it is not built; make console")
    async with await browser.new_context(viewport=DESK, locale="en", service_workers="allow") as context:
        page = await context.new_page()
        page.set_default_timeout(DEADLINE_MS)
        async with start_server(IN_MEMORY, drivers=driver(lambda prompt: reply("Stay **here**."))) as server:
            await page.goto(server.url)
            await page.evaluate("() => navigator.serviceWorker.ready.then(() => true)")
            await begin(page, "one")
            address = page.url
            await page.reload()
            await expect(page.locator(".bill")).to_contain_text("scripted")
            await expect(page.locator(".row")).to_have_count(1)
            await page.wait_for_function(KEPT)
        await page.goto(address)
        await expect(page.locator(".answer strong")).to_have_text("here")
        await expect(page.locator(".row")).to_have_count(1)
        await expect(page.locator(".banner")).to_be_visible()
        await say(page, "kept")
        await expect(page.locator(".bubble-pending")).to_contain_text("kept")
        # The same browser, another user: nothing of the first one is shown.
        other = '{"tenantId":"t2","userId":"u2","permissions":["agent:use","sessions:read"],"auth":"on"}'
        await page.evaluate("identity => localStorage.setItem('avm.identity', identity)", other)
        await page.goto(address)
        await expect(page.locator(".banner")).to_be_visible()
        await expect(page.locator(".row")).to_have_count(0)
        await expect(page.locator(".answer, .bubble")).to_have_count(0)


async def test_an_answer_goes_on_after_the_server_was_killed(open_page: Open, tmp_path: Path) -> None:
    port = free_port()
    async with server_process(tmp_path, port, "wait"):
        page = await open_page(f"http://127.0.0.1:{port}")
        await say(page, "Tell me")
        await expect(page.locator(".answer")).to_have_text("before")
    await expect(page.locator(".banner")).to_be_visible()
    async with server_process(tmp_path, port, "go"):
        await expect(page.locator(".answer")).to_have_text(re.compile("before .*after|before after"), timeout=60_000)
        await expect(page.locator(".bill")).to_be_visible()
        await expect(page.locator(".said")).to_have_text(["Tell me"])
        await equals_the_store(page)


async def test_six_cuts_in_one_answer_lose_nothing(open_page: Open) -> None:
    script = Stepwise(8)
    async with start_server(IN_MEMORY, drivers=driver(script)) as server:
        page = await open_page(server.url)
        await say(page, "slowly")
        shown = ""
        for number, gate in enumerate(script.gates):
            gate.set()
            shown += f"piece{number} "
            await expect(page.locator(".answer")).to_have_text(shown.strip())
            if number < 6:
                cut(server)
        await expect(page.locator(".bill")).to_be_visible()
        await equals_the_store(page)
