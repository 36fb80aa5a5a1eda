"""A server with something on every page of the console, and the way to each of them."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
from playwright.async_api import Page, WebSocketRoute, expect
from tests.console.network import Cable

from agentvm import ImageConfig, ScriptedDriver, ServerConfig, start_server, tool
from agentvm.config import MEMORY, SystemSettings
from agentvm.drivers.base import Prompt, UserEntry
from agentvm.drivers.scripted import ScriptStep, last_user_text, reply, tool_calls
from agentvm.model.definition import Definition
from agentvm.operations.session import SessionArchive, SessionDelete
from agentvm.server.local import RunningServer

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
ENGLISH, CHINESE = "How does an answer go on after a lost network?", "断线之后，回答怎样继续？"
ANSWER = """A turn belongs to the **server**, not to the connection:

1. The answer keeps being written, and every event has a `cursor`.
2. Your browser remembers the last one it has seen.

```python
async for event in socket:
    yield event  # first what was missed, then what is live
```

| transport | after a lost network |
|---|---|
| plain SSE | starts again |
| **AgentX** | exact |

> See [the protocol](https://example.com/protocol)."""
ANSWER_ZH = (
    "会话的**每个事件**都有连续的 `游标`，所以断线之后不会丢失：\n\n1. 服务器继续写完回答。\n2. 浏览器只要求游标之后的事件。"
)

QUESTION = {"question": "Which of the orders do you mean?", "options": ["order 7", "order 8"], "other": True}


@tool(effect="destructive", world="closed")
async def delete_order(order: int) -> str:
    """Delete an order for good."""
    return f"order {order} is deleted"


def script(prompt: Prompt) -> Iterable[ScriptStep]:
    text = last_user_text(prompt)
    if isinstance(prompt.conversation[-1], UserEntry):
        if text.startswith("Delete"):
            return tool_calls(("call_1", "delete_order", {"order": 7}))
        if text.startswith("Ask"):
            return tool_calls(("call_1", "ask_user", QUESTION))
    return reply(ANSWER if text == ENGLISH else ANSWER_ZH if text == CHINESE else f"You said: {text}")


@dataclass(frozen=True)
class Filled:
    """The server, and the addresses of four conversations of it."""

    server: RunningServer
    long: str
    chinese: str
    waiting: str
    asking: str


@asynccontextmanager
async def filled_server() -> AsyncIterator[Filled]:
    config = ServerConfig(system=SystemSettings(port=0, data_dir=MEMORY))
    clerk = Definition(name="clerk", description="Looks after orders.", tools=("delete_order", "ask_user"))
    drivers = {"scripted": ScriptedDriver(script)}
    async with start_server(config, definitions=[clerk], drivers=drivers, tools=[delete_order]) as server:
        agentx = server.agentx
        ended = anyio.Semaphore(0)
        agentx.runtime.on("turn_response", lambda _: ended.release())
        addresses = []
        for definition, texts in (
            ("assistant", (ENGLISH, "A second question", "And a third one")),
            ("assistant-zh", (CHINESE,)),
            ("clerk", ("Show the orders",)),
            ("clerk", ()),
        ):
            image = await agentx.images.create(ImageConfig(definition=definition))
            agent = await agentx.images.run(image.image_id)
            for text in texts:
                await agent.receive(text)
                await ended.acquire()
            addresses.append(f"{server.url}/c/{image.session_id}")
        put_away = await agentx.images.create(ImageConfig(definition="translator"))
        await agentx.ask(SessionArchive(session_id=put_away.session_id, archived=True))
        gone = await agentx.images.create(ImageConfig(definition="translator"))
        await agentx.ask(SessionDelete(session_id=gone.session_id))
        yield Filled(server, *addresses)


async def chat(page: Page, filled: Filled) -> None:
    await page.goto(filled.long)
    await expect(page.locator(".bill").first).to_be_visible()


async def chinese_chat(page: Page, filled: Filled) -> None:
    await page.goto(filled.chinese)
    await expect(page.locator(".bill")).to_be_visible()


async def editing(page: Page, filled: Filled) -> None:
    await chat(page, filled)
    # A touch screen gives the field no focus.
    await page.locator(".composer textarea").press("ArrowUp")
    await expect(page.locator(".editor")).to_be_visible()


async def menu(page: Page, filled: Filled) -> None:
    await chat(page, filled)
    await page.locator("[popovertarget]").first.click()
    await expect(page.locator(".menu")).to_be_visible()


async def approval(page: Page, filled: Filled) -> None:
    await page.goto(filled.waiting)
    await expect(page.locator(".bill")).to_be_visible()
    if await page.locator(".decision").count() == 0:
        await page.locator(".composer textarea").fill("Delete order 7")
        await page.locator(".composer .btn-ink").click()
    await expect(page.locator(".decision")).to_be_visible()


async def question(page: Page, filled: Filled) -> None:
    await page.goto(filled.asking)
    await expect(page.locator(".log")).to_have_attribute("aria-busy", "false")
    if await page.locator(".questions").count() == 0:
        await page.locator(".composer textarea").fill("Ask me")
        await page.locator(".composer .btn-ink").click()
    await expect(page.locator(".questions")).to_be_visible()


async def taken_back(page: Page, filled: Filled) -> None:
    await chat(page, filled)
    if await page.locator(".taken").count() == 0:
        await page.locator(".item-user").last.hover()
        await page.locator(".item-user .actions button").last.click()
    await page.locator(".taken summary").first.click()
    await expect(page.locator(".taken-item").first).to_be_visible()


async def branches(page: Page, filled: Filled) -> None:
    await chat(page, filled)
    if await page.locator(".branches").count() == 0:
        await page.locator(".bill .actions button").last.click()
        await expect(page).not_to_have_url(filled.long)
    await page.locator("[popovertarget]").first.click()
    await page.locator(".menu-item").nth(2).click()
    await expect(page.locator(".tree [aria-current]")).to_be_visible()


async def attached(page: Page, filled: Filled) -> None:
    """A message with files and one that was refused, a draft of another device, and coloured code."""
    await chat(page, filled)
    data = "attachment:sha256:" + "0" * 64
    picture = {"type": "image", "data": PIXEL, "mediaType": "image/png", "name": "plan.png"}
    notes = {"type": "file", "data": data, "mediaType": "text/plain", "filename": "notes.txt"}

    def connect(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        def received(message: str | bytes) -> None:
            frame = json.loads(message)
            if frame.get("type") == "session_history_response":
                question = next(one for one in frame["data"]["messages"] if one["subtype"] == "user")
                question["content"] = [{"type": "text", "text": "What is on it?"}, picture, notes]
            if frame.get("type") == "session_drafts_response":
                draft = {
                    "sessionId": "s",
                    "containerId": "c",
                    "imageId": "i",
                    "text": "and then we",
                    "updatedAt": 1,
                    "device": "phone-1",
                }
                frame["data"]["drafts"] = [draft]
            socket.send(json.dumps(frame))

        def sent(message: str | bytes) -> None:
            frame = json.loads(message)
            if frame["type"] == "message_send_request":
                about = {"requestId": frame["data"]["requestId"], "error": "The balance is 0", "errorCode": "wallet_empty"}
                socket.send(
                    json.dumps({"type": "message_send_response", "timestamp": 1, "category": "response", "data": about})
                )
            else:
                server.send(message)

        server.on_message(received)
        socket.on_message(sent)

    await page.route_web_socket("**/ws", connect)
    await page.reload()
    await expect(page.locator(".picture")).to_be_visible()
    await expect(page.locator(".other-draft")).to_be_visible()
    await page.locator(".composer textarea").fill("Go on")
    await page.locator(".composer .btn-ink").click()
    await expect(page.locator(".refusal .btn").first).to_be_visible()


async def turn_panel(page: Page, filled: Filled) -> None:
    await chat(page, filled)
    await page.locator(".bill-amounts").first.click()
    await expect(page.locator(".panel .bars")).to_be_visible()


async def share_links(page: Page, filled: Filled) -> None:
    await chat(page, filled)
    await page.locator("[popovertarget]").first.click()
    await page.locator(".menu-item").nth(4).click()
    await page.locator("dialog .btn-ink").click()
    await expect(page.locator(".share-links code").first).to_be_visible()


async def shared(page: Page, filled: Filled) -> None:
    await share_links(page, filled)
    await page.goto(await page.locator(".share-links code").first.inner_text())
    await expect(page.locator(".shared .answer").first).to_be_visible()


async def home(page: Page, filled: Filled) -> None:
    await page.goto(filled.server.url)
    await expect(page.locator(".agent").first).to_be_visible()


async def search(page: Page, filled: Filled) -> None:
    await page.goto(f"{filled.server.url}/search?q=游标")
    await expect(page.locator(".hits li").first).to_be_visible()


async def search_nothing(page: Page, filled: Filled) -> None:
    await page.goto(f"{filled.server.url}/search?q=nothing-has-this")
    await expect(page.locator(".empty")).to_be_visible()


async def archive(page: Page, filled: Filled) -> None:
    await page.goto(f"{filled.server.url}/archive")
    await expect(page.locator("main .btn").nth(1)).to_be_visible()


async def palette(page: Page, filled: Filled) -> None:
    await chat(page, filled)
    await page.keyboard.press("Control+k")
    await expect(page.locator(".line").first).to_be_visible()


async def keys(page: Page, filled: Filled) -> None:
    await chat(page, filled)
    await page.locator(".log").focus()
    await page.keyboard.press("?")
    await expect(page.locator(".keys")).to_be_visible()


async def login(page: Page, filled: Filled) -> None:
    answer = '{"error": {"code": "unauthorized", "message": "Sign in", "requestId": "r"}}'
    await page.route("**/v1/auth/whoami", lambda route: route.fulfill(status=401, body=answer, content_type="application/json"))
    await page.goto(filled.server.url)
    await expect(page.locator(".login")).to_be_visible()


async def nowhere(page: Page, filled: Filled) -> None:
    await page.goto(f"{filled.server.url}/nowhere")
    await expect(page.locator(".nothing")).to_be_visible()


async def missing(page: Page, filled: Filled) -> None:
    """A page whose code cannot be loaded."""
    await page.route("**/health", lambda route: route.abort())
    await page.route("**/assets/archive-*.js", lambda route: route.abort())
    await page.goto(f"{filled.server.url}/archive")
    await expect(page.locator("main [role=alert]")).to_be_visible()


async def offline(page: Page, filled: Filled) -> None:
    await chat(page, filled)
    cable = Cable()
    await cable.lay(page)
    await expect(page.locator(".log")).to_have_attribute("aria-busy", "false")
    await cable.unplug()
    await expect(page.locator(".banner")).to_be_visible()
    await page.locator(".composer textarea").fill("Kept until the server is back")
    await page.locator(".composer .btn-ink").click()
    await expect(page.locator(".bubble-pending")).to_be_visible()


Visit = Callable[[Page, Filled], Awaitable[None]]
PAGES: tuple[Visit, ...] = (
    home,
    chat,
    chinese_chat,
    editing,
    menu,
    approval,
    question,
    taken_back,
    branches,
    attached,
    turn_panel,
    share_links,
    shared,
    search,
    search_nothing,
    archive,
    palette,
    keys,
    login,
    nowhere,
    missing,
    offline,
)
