"""Hostile and odd texts: in answers, titles, results of tools, names of files, snippets; long ones; ones from right to left."""

import base64
from collections.abc import Iterable

from playwright.async_api import Page, expect
from tests.console.conftest import PHONE, Open
from tests.console.test_attachments import give
from tests.console.test_journeys import BLOCKS, HOSTILE, IN_MEMORY, driver, say

from agentvm import ImageConfig, start_server, tool
from agentvm.drivers.base import Prompt, UserEntry
from agentvm.drivers.scripted import ScriptStep, last_user_text, reply, tool_calls
from agentvm.model.definition import Definition
from agentvm.operations.session import SessionSetTitle

MORE = r"""
<body onload=window.hit=1>
<input autofocus onfocus=window.hit=1>
<video src=x onerror=window.hit=1></video>
<object data="javascript:window.hit=1"></object>
<embed src="//evil.example/x">
<base href="//evil.example/">
<meta http-equiv=refresh content="0;url=//evil.example">
<link rel=stylesheet href=//evil.example>
<form action=//evil.example><button>x</button></form>
[a](<javascript:window.hit=1>)
[a](java&#115;cript:window.hit=1)
[a](java%0ascript:window.hit=1)
[a](https://user:secret@evil.example/)
[a](blob:https://evil.example/1)
[a](file:///etc/passwd)
[a](//evil.example "title")
![](data:image/svg+xml;base64,PHN2Zy8+)
![a](//evil.example/x.png)
"><svg/onload=window.hit=1>
$\href{javascript:window.hit=1}{x}$ and $\includegraphics{https://evil.example/x}$
$\style{background:url(//evil.example)}{x}$
""".strip().splitlines()
PAYLOADS = [*HOSTILE, *MORE]
FOREIGN = (
    "body :is(.log, .list, .hits, .lines) :is(img, script, svg:not(.icon), iframe, style, object, embed, base, meta, link, "
    "form:not(.questions), video, [onclick], [onload], [style])"
)
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


@tool(effect="read", world="closed")
async def fetch_page() -> str:
    """Fetch a page that an enemy wrote."""
    return "\n".join(PAYLOADS)


def script(prompt: Prompt) -> Iterable[ScriptStep]:
    if isinstance(prompt.conversation[-1], UserEntry):
        return tool_calls(("call_1", "fetch_page", {}))
    return reply("\n\n".join([*PAYLOADS, BLOCKS]))


async def clean(page: Page) -> None:
    await expect(page.locator(FOREIGN)).to_have_count(0)
    assert await page.evaluate("window.hit") is None
    links = await page.eval_on_selector_all(".log a[target]", "all => all.map(a => a.protocol + (a.username || ''))")
    assert set(links) <= {"https:", "http:"}


async def test_forty_payloads_become_no_element_and_no_request_wherever_they_are(open_page: Open) -> None:
    assert len(PAYLOADS) >= 40
    clerk = Definition(name="clerk", tools=("fetch_page",))
    async with start_server(IN_MEMORY, definitions=[clerk], drivers=driver(script), tools=[fetch_page]) as server:
        image = await server.agentx.images.create(ImageConfig(definition="clerk"))
        title = " ".join(PAYLOADS)[:290]
        await server.agentx.ask(SessionSetTitle(session_id=image.session_id, title=title))
        page = await open_page(f"{server.url}/c/{image.session_id}")
        requested: list[str] = []
        page.on("request", lambda request: requested.append(request.url))
        await give(page, "drop", "<img src=x onerror=window.hit=1>.txt", "text/plain", b"<script>window.hit=1</script>")
        await expect(page.locator(".file")).to_have_count(1)
        await say(page, "\n".join(PAYLOADS))
        await expect(page.locator(".bill")).to_be_visible()
        await page.locator(".tool summary").click()
        await expect(page.locator(".tool pre").last).to_contain_text("<script>window.hit=1</script>")
        await expect(page.locator(".heading h1")).to_have_text(title)
        await clean(page)
        await page.goto(f"{server.url}/search?q=window.hit")
        await expect(page.locator(".hits mark").first).to_be_visible()
        await clean(page)
        assert [url for url in requested if not url.startswith((server.url, "blob:"))] == []


MIXED = {
    "arabic": "مرحبا بالعالم، هذا `kubectl get pods` في الجملة.",
    "hebrew": "שלום עולם\n\n```python\nprint('ltr')\n```",
    "maths": "Then $e^{i\\pi} + 1 = 0$ costs $5 and $6.\n\n$$\\int_0^1 x\\,dx = \\frac12$$",
    "code": "```python\ndef f(x):\n    return 'text'  # comment\n```",
    "picture": "![A cat](https://tracker.example/cat.png)",
}


async def test_odd_texts_are_read_as_they_are_meant(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver(lambda prompt: reply(MIXED[last_user_text(prompt)]))) as server:
        page = await open_page(server.url)
        requested: list[str] = []
        page.on("request", lambda request: requested.append(request.url))
        for number, name in enumerate(MIXED, start=1):
            await say(page, name)
            await expect(page.locator(".bill")).to_have_count(number)
        arabic, hebrew, maths, code, picture = (page.locator(".answer").nth(number) for number in range(5))
        direction = "element => getComputedStyle(element).direction"
        assert await arabic.locator("p").evaluate(direction) == "rtl"
        assert await arabic.locator("code").evaluate(direction) == "ltr"
        assert await hebrew.locator("p").evaluate(direction) == "rtl"
        assert await hebrew.locator("pre").evaluate(direction) == "ltr"
        await expect(maths.locator("math")).to_have_count(2)
        await expect(maths).to_contain_text("costs $5 and $6.")
        await expect(code.locator(".hljs-keyword").first).to_have_text("def")
        await expect(code.locator("code")).to_have_text("def f(x):\n    return 'text'  # comment")
        await expect(picture.locator("img")).to_have_count(0)
        chip = picture.get_by_role("link")
        await expect(chip).to_have_text("Picture: A cat · tracker.example")
        assert [url for url in requested if not url.startswith(server.url)] == []
        # Only a click asks the other host, in a tab of its own that gets no address of ours.
        await page.context.route("https://tracker.example/**", lambda route: route.fulfill(body=PNG, content_type="image/png"))
        async with page.context.expect_page() as opened:
            await chip.click()
        await (await opened.value).wait_for_load_state()
        assert await (await opened.value).evaluate("() => [document.referrer, window.opener]") == ["", None]


TYPE = """async (field) => {
  let touched = 0;
  const watch = new MutationObserver((records) => {
    touched += records.filter(({ target }) => target.parentElement?.closest(".composer-holder") === null).length;
  });
  watch.observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
  const lexed = avmCounted.lexed();
  avmCounted.drawn = 0;
  for (const letter of "still here") {
    field.value += letter;
    field.dispatchEvent(new InputEvent("input", { bubbles: true, data: letter }));
  }
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  watch.disconnect();
  return [avmCounted.drawn, touched, avmCounted.lexed() - lexed];
}"""
TYPE_TRIES = 5


async def check_typing(page: Page) -> None:
    """Types, which must draw nothing, change nothing outside its field, and read no text again, however long those are."""
    field = page.get_by_label("Message", exact=True)
    # The list may have news of its own in these two frames; what typing costs is there every time.
    counted = [await field.evaluate(TYPE) for _ in range(TYPE_TRIES)]
    assert [0, 0, 0] in counted, counted
    await field.press_sequentially("!")
    await expect(field).to_have_value("still here" * TYPE_TRIES + "!")
    await field.fill("")


async def test_very_long_texts_stay_responsive(open_page: Open) -> None:
    rows = "| a | b |\n|---|---|\n" + "| 1 | two |\n" * 5_000
    texts = {"line": "x" * 100_000, "table": rows}

    def long_script(prompt: Prompt) -> Iterable[ScriptStep]:
        text = last_user_text(prompt)
        if text == "tool" and isinstance(prompt.conversation[-1], UserEntry):
            return tool_calls(("call_1", "dump", {}))
        return reply(texts.get(text, "Done."))

    @tool(effect="read", world="closed")
    async def dump() -> str:
        """Return ten megabytes."""
        return "0123456789abcdef " * (10 * 1024 * 1024 // 17)

    clerk = Definition(name="clerk", tools=("dump",))
    async with start_server(IN_MEMORY, definitions=[clerk], drivers=driver(long_script), tools=[dump]) as server:
        image = await server.agentx.images.create(ImageConfig(definition="clerk"))
        page = await open_page(server.url)
        await page.evaluate("() => sessionStorage.setItem('avm.count', '1')")
        await page.goto(f"{server.url}/c/{image.session_id}")
        for number, text in enumerate(("line", "table", "tool"), start=1):
            await say(page, text)
            await expect(page.locator(".bill")).to_have_count(number, timeout=60_000)
            await check_typing(page)
        await page.locator(".tool summary").click()
        shown = await page.locator(".tool pre").last.inner_text()
        assert 0 < len(shown) <= 25_000
        assert await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0


async def test_a_search_of_chinese_words_marks_them_and_opens_at_the_message(open_page: Open) -> None:
    answer = "每个游标只出现一次。上海天气晴朗。"
    async with start_server(IN_MEMORY, drivers=driver(lambda prompt: reply(answer))) as server:
        page = await open_page(server.url)
        await say(page, "断线之后？")
        await expect(page.locator(".bill")).to_be_visible()
        for words in ("游标", "上海天气"):
            await page.goto(f"{server.url}/search?q={words}")
            marks = page.locator(".hits mark")
            await expect(marks.first).to_be_visible()
            assert "".join(await marks.all_inner_texts()) == words
            await page.locator(".hits a").first.click()
            await expect(page.locator(".item-marked .answer")).to_have_text(answer)
            # For the fonts of Chinese and the voice of a reader, whatever the language of the page.
            await expect(page.locator(".item-marked .answer")).to_have_attribute("lang", "zh-CN")


async def test_a_wide_table_scrolls_and_keeps_its_words_whole(open_page: Open) -> None:
    words = [f"column{number}" for number in range(14)]
    table = f"| {' | '.join(words)} |\n|{'---|' * len(words)}\n| {' | '.join(words)} |\n"
    async with start_server(IN_MEMORY, drivers=driver(lambda _: reply(table))) as server:
        page = await open_page(server.url, viewport=PHONE)
        await say(page, "Show it")
        scroll = page.get_by_role("region", name="Table")
        await expect(scroll.locator("td")).to_have_count(len(words))
        shown, whole = await scroll.evaluate("(element) => [element.clientWidth, element.scrollWidth]")
        assert whole > shown
        line, cell = await scroll.locator("th").first.evaluate(
            "(element) => [parseFloat(getComputedStyle(element).lineHeight), element.clientHeight]"
        )
        assert cell < 2 * line + 12
