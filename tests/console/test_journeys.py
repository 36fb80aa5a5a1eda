"""What people do in the console, in a real browser against a real server."""

from collections.abc import Iterable

import anyio
import pytest
from playwright.async_api import Page, WebSocketRoute, expect
from tests.console.conftest import PHONE, Open
from tests.console.network import Cable, cut

from agentvm import ImageConfig, ScriptedDriver, ServerConfig, start_server, tool
from agentvm.config import MEMORY, SystemSettings
from agentvm.drivers.base import Prompt, UserEntry
from agentvm.drivers.scripted import Pause, Script, ScriptStep, echo, last_user_text, reply, tool_calls
from agentvm.model.definition import Definition

IN_MEMORY = ServerConfig(system=SystemSettings(port=0, data_dir=MEMORY))


def driver(script: Script = echo) -> dict[str, ScriptedDriver]:
    return {"scripted": ScriptedDriver(script)}


async def say(page: Page, text: str) -> None:
    await page.get_by_label("Message", exact=True).fill(text)
    await page.keyboard.press("Enter")


class Stepwise:
    """An answer of pieces, each of which waits for its gate."""

    def __init__(self, pieces: int = 5) -> None:
        self.gates = [anyio.Event() for _ in range(pieces)]

    def __call__(self, prompt: Prompt) -> Iterable[ScriptStep]:
        start, text, *pieces = reply(*(f"piece{number} " for number in range(len(self.gates))))
        steps: list[ScriptStep] = [start, text]
        for gate, piece in zip(self.gates, pieces, strict=False):
            steps += [Pause(gate), piece]
        return [*steps, *pieces[len(self.gates) :]]


async def test_a_message_that_waits_its_turn_stands_after_the_answer_before_it(open_page: Open) -> None:
    script = Stepwise()

    def slow_first(prompt: Prompt) -> Iterable[ScriptStep]:
        return script(prompt) if last_user_text(prompt) == "slowly" else echo(prompt)

    async with start_server(IN_MEMORY, drivers=driver(slow_first)) as server:
        page = await open_page(server.url)
        await say(page, "slowly")
        script.gates[0].set()
        await expect(page.locator(".answer")).to_have_text("piece0")
        await say(page, "second")
        rows = page.locator(".said, .answer")
        await expect(rows).to_have_text(["slowly", "piece0", "second"])
        for gate in script.gates:
            gate.set()
        for is_loaded_again in (False, True):
            if is_loaded_again:
                await page.reload()
            await expect(rows).to_have_text(["slowly", "piece0 piece1 piece2 piece3 piece4", "second", "second"])
            await expect(page.locator(".bill")).to_have_count(2)


async def test_a_fresh_server_answers_the_first_message_without_a_key(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(server.url)
        await say(page, "Hello **there**")
        await expect(page.locator(".bubble .said")).to_have_text("Hello **there**")
        await expect(page.locator(".answer strong")).to_have_text("there")
        await expect(page.locator(".bill")).to_contain_text("tokens")
        await expect(page.locator(".row[aria-current]")).to_contain_text("Hello")
        await page.reload()
        await expect(page.locator(".answer strong")).to_have_text("there")
        await expect(page.locator(".bill")).to_contain_text("scripted")


async def test_an_answer_survives_cuts_and_a_reload_and_equals_what_is_stored(open_page: Open) -> None:
    script = Stepwise()
    async with start_server(IN_MEMORY, drivers=driver(script)) as server:
        page = await open_page(server.url)
        await say(page, "slowly")
        shown = ""
        for number, gate in enumerate(script.gates):
            gate.set()
            shown += f"piece{number} "
            await expect(page.locator(".answer")).to_have_text(shown.strip())
            if number == 2:
                await page.reload()
                await expect(page.locator(".answer")).to_have_text(shown.strip())
            elif number < 4:
                cut(server)
        await expect(page.locator(".bill")).to_contain_text("scripted")
        live = await page.locator(".log-inner").text_content() or ""
        await page.reload()
        await expect(page.locator(".bill")).to_contain_text("scripted")
        await expect(page.locator(".log")).to_have_attribute("aria-busy", "false")
        await expect(page.locator(".log-inner")).to_have_text(live)


async def test_two_tabs_and_a_phone_show_the_same_answer_and_what_is_stored(open_page: Open) -> None:
    script = Stepwise()
    async with start_server(IN_MEMORY, drivers=driver(script)) as server:
        tab = await open_page(server.url)
        await say(tab, "slowly")
        script.gates[0].set()
        await expect(tab.locator(".answer")).to_have_text("piece0")
        other = await tab.context.new_page()
        await other.goto(tab.url)
        phone = await open_page(tab.url, viewport=PHONE)
        pages = (tab, other, phone)
        shown = "piece0"
        for number, gate in enumerate(script.gates[1:], start=1):
            gate.set()
            shown += f" piece{number}"
            for page in pages:
                await expect(page.locator(".answer")).to_have_text(shown)
            cut(server)
        for page in pages:
            await expect(page.locator(".bill")).to_contain_text("scripted")
            live = await page.locator(".log-inner").text_content() or ""
            await page.reload()
            await expect(page.locator(".log")).to_have_attribute("aria-busy", "false")
            await expect(page.locator(".log-inner")).to_have_text(live)


async def test_two_windows_show_the_same_and_either_may_stop(open_page: Open) -> None:
    script = Stepwise()

    def silent(prompt: Prompt) -> Iterable[ScriptStep]:
        return [Pause(anyio.Event())] if last_user_text(prompt) == "wait" else script(prompt)

    async with start_server(IN_MEMORY, drivers=driver(silent)) as server:
        first = await open_page(server.url)
        await say(first, "slowly")
        script.gates[0].set()
        await expect(first.locator(".answer")).to_have_text("piece0")
        second = await open_page(first.url)
        await expect(second.locator(".answer")).to_have_text("piece0")
        await second.get_by_role("button", name="Stop").click()
        for page in (first, second):
            await expect(page.get_by_role("button", name="Stop")).to_have_count(0)
            await expect(page.locator(".answer")).to_have_text("piece0")
            await expect(page.locator(".bill .stopped")).to_have_text("Stopped")
            await expect(page.locator("main > .unseen")).to_have_text("Stopped")
        # One that is stopped before its first word says so too, and does after a reload.
        await say(first, "wait")
        await first.get_by_role("button", name="Stop").click()
        for page in (first, second):
            await expect(page.locator(".item-user .stopped")).to_have_text("Stopped")
        await first.reload()
        await expect(first.locator(".item-user .stopped")).to_have_text("Stopped")


async def test_addresses_that_nothing_has_say_so_and_lead_back(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(f"{server.url}/nowhere/at/all")
        await expect(page.get_by_role("heading", name="Nothing here")).to_be_visible()
        await page.get_by_role("main").get_by_role("link", name="Conversations").click()
        await expect(page.get_by_label("Message", exact=True)).to_be_visible()
        # A part that is cut within a letter is no address either.
        await page.goto(f"{server.url}/resources/%E0%A4")
        await expect(page.get_by_role("alert")).to_contain_text("Not there, or not yours.")
        await page.goto(f"{server.url}/c/sess_nothing")
        await expect(page.get_by_role("alert")).to_contain_text("The conversation is not there, or not yours.")
        await expect(page.get_by_label("Message", exact=True)).to_have_count(0)


async def test_messages_written_without_a_connection_arrive_once_and_in_order(open_page: Open) -> None:
    heard: list[str] = []

    def script(prompt: Prompt) -> Iterable[ScriptStep]:
        heard.append(last_user_text(prompt))
        return echo(prompt)

    async with start_server(IN_MEMORY, drivers=driver(script)) as server:
        page, cable = await open_page(server.url), Cable()
        await cable.lay(page)
        await say(page, "first")
        await expect(page.locator(".answer")).to_have_text("first")
        await cable.unplug()
        await expect(page.get_by_role("status").filter(has_text="No connection")).to_be_visible()
        await say(page, "second")
        await say(page, "third")
        await expect(page.locator(".bubble-pending")).to_have_count(2)
        await cable.plug()
        await expect(page.locator(".answer")).to_have_text(["first", "second", "third"])
        await expect(page.locator(".bubble-pending")).to_have_count(0)
    assert heard == ["first", "second", "third"]


@tool(effect="destructive", world="closed")
async def delete_order(order: int) -> str:
    """Delete an order for good."""
    return f"order {order} is deleted"


def asks(prompt: Prompt) -> Iterable[ScriptStep]:
    if isinstance(prompt.conversation[-1], UserEntry):
        return tool_calls(("call_1", "delete_order", {"order": 7}))
    return reply("Finished.")


DECISIONS = [("Approve", "order 7 is deleted"), ("Edit", "order 8 is deleted"), ("Deny", "The customer has paid")]


@pytest.mark.parametrize(("button", "state"), DECISIONS)
async def test_a_call_waits_for_a_decision_also_over_a_reload(open_page: Open, button: str, state: str) -> None:
    clerk = Definition(name="clerk", tools=("delete_order",))
    async with start_server(IN_MEMORY, definitions=[clerk], drivers=driver(asks), tools=[delete_order]) as server:
        image = await server.agentx.images.create(ImageConfig(definition="clerk"))
        page = await open_page(f"{server.url}/c/{image.session_id}")
        await say(page, "Delete order 7")
        await expect(page.locator(".decision")).to_contain_text("it may delete or overwrite something")
        await page.reload()
        if button == "Deny":
            await page.get_by_label("Reason").fill(state)
        await page.locator(".decision").get_by_role("button", name=button, exact=True).click()
        if button == "Edit":
            await page.get_by_label("Input", exact=True).fill('{"order": 8')
            await page.locator(".decision").get_by_role("button", name="Approve with").click()
            await expect(page.locator(".decision [role=alert]")).to_contain_text("JSON")
            await page.get_by_label("Input", exact=True).fill('{"order": 8}')
            await page.locator(".decision").get_by_role("button", name="Approve with").click()
        await expect(page.locator(".answer")).to_have_text("Finished.")
        await page.locator(".tool summary").click()
        await expect(page.locator(".tool")).to_contain_text(state)
        await expect(page.locator(".decision")).to_have_count(0)


def asks_twice(prompt: Prompt) -> Iterable[ScriptStep]:
    """Two questions in two turns. As with some models, both calls have the same id."""
    entry = prompt.conversation[-1]
    if isinstance(entry, UserEntry):
        options: dict[str, object] = {} if last_user_text(prompt) == "First" else {"options": ["red", "blue"], "multiple": True}
        return tool_calls(("call_1", "ask_user", {"question": f"{last_user_text(prompt)}: which?", **options}))
    return reply("Thank you.")


async def test_a_question_is_answered_in_its_own_form(open_page: Open) -> None:
    clerk = Definition(name="clerk", tools=("ask_user",))
    async with start_server(IN_MEMORY, definitions=[clerk], drivers=driver(asks_twice)) as server:
        image = await server.agentx.images.create(ImageConfig(definition="clerk"))
        page = await open_page(f"{server.url}/c/{image.session_id}")
        await say(page, "First")
        await expect(page.get_by_label("First: which?")).to_be_visible()
        # Who answers where messages are written has answered, too.
        await say(page, "the small one")
        await expect(page.locator(".answer")).to_have_text("Thank you.")
        await expect(page.locator(".said")).to_have_text(["First"])
        await say(page, "Second")
        # Only a message that is shown is stored, and survives the reload.
        await expect(page.locator(".said", has_text="Second").first).to_be_visible()
        await expect(page.locator(".tool").nth(0).locator(".decision")).to_have_count(0)
        await page.reload()
        for colour in ("red", "blue"):
            await page.get_by_role("checkbox", name=colour).check()
        await page.get_by_role("button", name="Answer", exact=True).click()
        await expect(page.locator(".answer")).to_have_text(["Thank you.", "Thank you."])
        for place, answer in enumerate(("the small one", "red, blue")):
            await page.locator(".tool summary").nth(place).click()
            await expect(page.locator(".tool").nth(place)).to_contain_text(answer)


async def test_a_search_leads_to_the_message(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(server.url)
        await say(page, "上海天气 <b>怎么样</b>")
        await expect(page.locator(".answer")).to_be_visible()
        await page.goto(f"{server.url}/search?q=天气")
        await expect(page.locator(".hits mark").first).to_have_text("天气")
        await page.locator(".hits a").first.click()
        await expect(page.locator(".bubble .said")).to_have_text("上海天气 <b>怎么样</b>")


async def test_a_conversation_is_renamed_deleted_and_brought_back(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(server.url)
        await say(page, "Hello")
        await expect(page.locator(".answer")).to_be_visible()
        await page.get_by_role("button", name="More").click()
        await page.get_by_role("button", name="Rename").click()
        await page.get_by_label("Title").fill("Greetings")
        await page.keyboard.press("Enter")
        await expect(page.locator(".row[aria-current]")).to_contain_text("Greetings")
        await page.get_by_role("button", name="More").click()
        await page.get_by_role("button", name="Delete conversation").click()
        await expect(page.locator(".row")).to_have_count(0)
        await page.get_by_role("button", name="Undo").click()
        await expect(page.locator(".row")).to_contain_text("Greetings")


async def test_a_phone_shows_one_pane_in_chinese_without_scrolling_sideways(open_page: Open) -> None:
    wide = "| a | b |\n|---|---|\n" + f"| {'x' * 300} | 2 |\n\n```\n{'y' * 300}\n```\n"
    async with start_server(IN_MEMORY, drivers=driver(lambda prompt: reply(wide))) as server:
        page = await open_page(server.url, viewport=PHONE, language="zh-CN")
        await page.get_by_label("消息", exact=True).fill("你好")
        await page.get_by_role("button", name="发送").click()
        await expect(page.locator(".answer table")).to_be_visible()
        await expect(page.locator(".list")).to_be_hidden()
        overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert await page.evaluate(overflow) == 0
        await page.get_by_role("link", name="对话列表").click()
        await expect(page.locator(".list .row")).to_have_count(1)
        assert await page.evaluate(overflow) == 0


async def test_enter_that_chooses_a_word_of_an_input_method_does_not_send(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(server.url)
        field = page.get_by_label("Message", exact=True)
        await field.fill("ni hao")
        for about in ({"isComposing": True}, {"keyCode": 229}):
            await field.dispatch_event("keydown", {"key": "Enter", "bubbles": True, "cancelable": True, **about})
        await expect(page.locator(".bubble")).to_have_count(0)
        await expect(field).to_have_value("ni hao")


HOSTILE = r"""
<script>window.hit=1</script>
<img src=x onerror=window.hit=1>
<svg onload=window.hit=1>
[a](javascript:window.hit=1)
[a](JaVaScRiPt:window.hit=1)
[a](data:text/html,<script>window.hit=1</script>)
[a](vbscript:x)
![a](javascript:window.hit=1)
![a](https://tracker.example/x.png)
<iframe src=//evil.example>
<a href=javascript:window.hit=1>x</a>
`<img src=x onerror=window.hit=1>`
<math><mtext></form><style></style>
[a][x]
<https://evil.example>
&lt;img src=x onerror=window.hit=1&gt;
<details open ontoggle=window.hit=1>
<style>@import '//evil.example'</style>
</textarea><script>1</script>
""".strip().splitlines()
BLOCKS = """
```html
<script>window.hit=1</script>
```

| <img src=x onerror=window.hit=1> |
|---|
| <b onclick=window.hit=1>x |

[x]: javascript:window.hit=1
"""
FOREIGN = ".log :is(img, script, svg:not(.icon), iframe, style, math, [onclick])"


async def test_hostile_texts_become_no_element_and_no_request(open_page: Open) -> None:
    text = "\n\n".join([*HOSTILE, BLOCKS])
    async with start_server(IN_MEMORY, drivers=driver(lambda prompt: reply(text))) as server:
        page = await open_page(server.url)
        requested: list[str] = []
        page.on("request", lambda request: requested.append(request.url))
        await say(page, text)
        await expect(page.locator(".bill")).to_be_visible()
        await expect(page.locator(FOREIGN)).to_have_count(0)
        assert await page.evaluate("window.hit") is None
        links = await page.eval_on_selector_all(".log a", "all => all.map(a => a.protocol)")
        assert set(links) <= {"https:", "http:"}
        assert [url for url in requested if not url.startswith(server.url)] == []


async def test_a_message_written_before_the_connection_is_open_is_sent_when_it_is(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver(lambda prompt: reply("Here I am."))) as server:
        page = await open_page(server.url)
        opens = anyio.Event()

        async def connect(route: WebSocketRoute) -> None:
            await opens.wait()
            route.connect_to_server()

        await page.route_web_socket("**/ws", connect)
        await page.reload()
        await say(page, "Anybody there?")
        await expect(page.get_by_label("Message", exact=True)).to_have_value("")
        opens.set()
        await expect(page.locator(".answer")).to_have_text("Here I am.")


async def test_a_session_that_nobody_has_used_is_not_listed(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(server.url)
        await server.agentx.images.create(ImageConfig(name="Unused"))
        await say(page, "Hello there")
        await expect(page.locator(".bill")).to_be_visible()
        await expect(page.locator(".list .row")).to_have_count(1)
