"""Console — the work of a browser while an answer is written into a long conversation, against a bare page that does the same.

    python -m bench.console [--messages 500] [--deltas 800]

The bare page reads the same frames and appends their text to one node. Lexing is counted: a page that parses its whole answer
with every delta against the console, which parses the end of it. Goals: script time at most 2.5 times the bare page, lexing at
least 5 times less, the heap after ten switches at most 1.2 times that after one, first paint twice that of an empty page of the
same server. The first text, which needs the script and one request, is told beside it.
"""

import argparse
import os
from collections.abc import Iterable
from statistics import median
from typing import cast

import anyio
from playwright.async_api import Browser, CDPSession, Page, async_playwright
from tests.console.test_work import fill
from tests.provision.chromium import FLAGS, chromium

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.config import MEMORY, SystemSettings
from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import Pause, ScriptStep, last_user_text, reply
from agentvm.server.console import DIRECTORY, ConsoleFile, load_files
from agentvm.server.local import RunningServer
from bench.measure import table

DELTAS_PER_SECOND = 100
SWITCHES = 10
PAINTS = 15
PAINT = """() => new Promise((done) => {
  const look = () => {
    const [paint] = performance.getEntriesByName("first-contentful-paint");
    paint ? done(paint.startTime) : requestAnimationFrame(look);
  };
  look();
})"""
FIRST_TEXT = """new MutationObserver((_, observer) => {
  if (document.querySelector(".composer") === null) return;
  observer.disconnect();
  requestAnimationFrame(() => requestAnimationFrame(() => { window.firstText = performance.now(); }));
}).observe(document, { childList: true, subtree: true })"""
EMPTY = "<!doctype html><p>Some words"
BARE = """<!doctype html><meta charset=utf-8><div id=log></div><script>
const [sessionId, count] = location.hash.slice(1).split(","), log = document.getElementById("log");
for (let n = 0; n < Number(count); n++) log.append(Object.assign(document.createElement("p"), { textContent: "An answer." }));
const node = document.createTextNode(""), holder = document.createElement("p");
holder.id = "answer"; holder.append(node); log.append(holder);
let text = "", frame;
const socket = new WebSocket(`${location.origin.replace("http", "ws")}/ws`);
socket.onopen = () => { socket.send(JSON.stringify({ type: "subscribe", sessionId })); document.title = "open"; };
socket.onmessage = ({ data }) => {
  const event = JSON.parse(data);
  if (event.type !== "text_delta") return;
  text += event.data.text;
  frame ??= requestAnimationFrame(() => { frame = undefined; node.data = text; scrollTo(0, document.body.scrollHeight); });
};
</script>"""


class Paced:
    """Short answers, and one of many pieces, each behind its gate."""

    def __init__(self, deltas: int) -> None:
        self.gates = [anyio.Event() for _ in range(deltas)]

    def __call__(self, prompt: Prompt) -> Iterable[ScriptStep]:
        if last_user_text(prompt) != "write":
            return reply("A short **answer**.")
        start, text, *rest = reply(*(f"word{n} " if n % 30 else f"word{n}.\n\n" for n in range(len(self.gates))))
        steps: list[ScriptStep] = [start, text]
        for gate, piece in zip(self.gates, rest, strict=False):
            steps += [Pause(gate), piece]
        return [*steps, *rest[len(self.gates) :]]

    async def release(self) -> None:
        for gate in self.gates:
            gate.set()
            await anyio.sleep(1 / DELTAS_PER_SECOND)


async def script_seconds(client: CDPSession) -> float:
    metrics = (await client.send("Performance.getMetrics"))["metrics"]
    return float(next(metric["value"] for metric in metrics if metric["name"] == "ScriptDuration"))


async def streamed(page: Page, script: Paced, end: str) -> float:
    """Returns the seconds of script while the answer comes in."""
    client = await page.context.new_cdp_session(page)
    await client.send("Performance.enable")
    before = await script_seconds(client)
    await script.release()
    await page.get_by_text(end).wait_for()
    return await script_seconds(client) - before


async def run_console(browser: Browser, server: RunningServer, address: str, script: Paced, end: str) -> dict[str, float]:
    page = await browser.new_page()
    await page.goto(server.url)
    await page.evaluate("() => sessionStorage.setItem('avm.count', '1')")
    await page.goto(address)
    await page.locator(".log[aria-busy=false]").wait_for()
    await page.get_by_label("Message", exact=True).fill("write")
    await page.keyboard.press("Enter")
    await page.locator(".answer-live").wait_for(state="attached")
    lexed = await page.evaluate("() => avmCounted.lexed()")
    seconds = await streamed(page, script, end)
    lexed = await page.evaluate("() => avmCounted.lexed()") - lexed
    await page.locator(".answer-live").wait_for(state="detached")
    heap = await heaps(page, server, address)
    return {"script": seconds, "lexed": lexed, "heap": heap}


async def heaps(page: Page, server: RunningServer, address: str) -> float:
    """Returns the heap after ten switches over that after one."""
    client = await page.context.new_cdp_session(page)

    async def heap() -> float:
        await client.send("HeapProfiler.collectGarbage")
        return float((await client.send("Runtime.getHeapUsage"))["usedSize"])

    async def switch() -> None:
        await page.locator(".list header button").click()
        await page.locator(".welcome").wait_for()
        await page.locator(f".row[href='{address.removeprefix(server.url)}']").click()
        await page.locator(".log[aria-busy=false] .bill").first.wait_for()

    await switch()
    once = await heap()
    for _ in range(SWITCHES):
        await switch()
    return await heap() / once


async def first_paints(browser: Browser, server: RunningServer) -> tuple[float, float]:
    """Returns the first paint of the console, and its first text, over the first paint of an empty page.

    Each page is opened with nothing in the cache, one after the other, so that the load of the machine is the same for all.
    The empty page comes with the same headers: one that asks for a process of its own is slower than one that does not.
    """
    files = cast(dict[str, ConsoleFile], load_files(DIRECTORY))
    files["assets/empty.html"] = ConsoleFile.of(EMPTY.encode(), "text/html")
    empty: list[float] = []
    painted: list[float] = []
    told: list[float] = []
    for _ in range(PAINTS):
        for path, paints in (("/assets/empty.html", empty), ("/", painted)):
            async with await browser.new_context(service_workers="block") as context:
                page = await context.new_page()
                await page.add_init_script(FIRST_TEXT)
                await page.goto(server.url + path)
                paints.append(await page.evaluate(PAINT))
                if paints is painted:
                    await page.wait_for_function("() => window.firstText !== undefined")
                    told.append(await page.evaluate("window.firstText"))
    return median(painted) / median(empty), median(told) / median(empty)


async def run_bare(browser: Browser, server: RunningServer, messages: int, script: Paced, end: str) -> dict[str, float]:
    page = await browser.new_page()
    image = await server.agentx.images.create()
    # An address without a policy of its own.
    await page.goto(f"{server.url}/health#{image.session_id},{messages}")
    await page.set_content(BARE)
    await page.wait_for_function("() => document.title === 'open'")
    agent = await server.agentx.images.run(image.image_id)
    await agent.receive("write")
    return {"script": await streamed(page, script, end)}


async def run(messages: int, deltas: int) -> None:
    program = chromium()
    config = ServerConfig(system=SystemSettings(port=0, data_dir=MEMORY))
    end = f"word{deltas - 1}"
    scripts = [Paced(deltas), Paced(deltas)]
    asked = iter(scripts)
    current = next(asked)
    async with async_playwright() as playwright:
        env: dict[str, str | float | bool] = {**os.environ, **program.env}
        browser = await playwright.chromium.launch(executable_path=program.executable, args=list(FLAGS), env=env)
        async with (
            browser,
            start_server(config, drivers={"scripted": ScriptedDriver(lambda prompt: current(prompt))}) as server,
        ):
            address = await fill(server, messages)
            ours = await run_console(browser, server, address, current, end)
            current = next(asked)
            bare = await run_bare(browser, server, messages, current, end)
            paint, text = await first_paints(browser, server)
    # A page that parses all of its answer with each delta.
    length = len("".join(f"word{n} " for n in range(deltas)))
    rows = [
        ("ratio", "measured", "goal"),
        ("script time / bare page", f"{ours['script'] / bare['script']:.2f}", "2.5 at most"),
        ("lexed if all is parsed each time / lexed", f"{length * deltas / 2 / max(1, ours['lexed']):.1f}", "5 at least"),
        ("heap after ten switches / after one", f"{ours['heap']:.2f}", "1.2 at most"),
        ("first paint / empty page", f"{paint:.2f}", "2 at most"),
        ("first text / first paint of an empty page", f"{text:.2f}", "—"),
    ]
    print(f"{messages} messages, {deltas} deltas at {DELTAS_PER_SECOND} per second; script {ours['script'] * 1000:.0f} ms")
    print(table(rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=500)
    parser.add_argument("--deltas", type=int, default=800)
    arguments = parser.parse_args()
    anyio.run(run, arguments.messages, arguments.deltas)
