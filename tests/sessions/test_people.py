import re
from html.parser import HTMLParser

import msgspec
import pytest
from tests.conformance.records import HOME
from tests.sessions.histories import filled, history, put, source

from agentvm.model.attachment import reference_to
from agentvm.model.ids import MessageId
from agentvm.model.message import (
    AssistantMessage,
    FilePart,
    ImagePart,
    Message,
    TextOutput,
    TextPart,
    ToolResult,
    ToolResultMessage,
    UserMessage,
)
from agentvm.sessions import people
from agentvm.sessions.export import Selection
from agentvm.sessions.line import digest_of
from agentvm.sessions.people import HTML, MARKDOWN, PageFormat, export_pages
from agentvm.storage.attachments import Upload
from agentvm.storage.carry import Attached, SessionContent
from agentvm.storage.engine import open_store
from agentvm.storage.sql.store import Store

EVIL = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\"'&"


async def page(store: Store, look: PageFormat) -> str:
    return b"".join([chunk async for chunk in export_pages(source(store), [Selection(HOME)], look)]).decode()


async def test_a_page_of_markdown_tells_everything_that_was_said() -> None:
    async with filled() as store:
        text = await page(store, MARKDOWN)
    assert text.count("\n## User\n") == 3
    for said in ("# name of img\\_1", "北京", "## Assistant", "> hm", "yes", "### Tool call: run", '"deep"',
                 "### Tool result: run", "## Error", "*[image/png: image/png]*", "# 第二"):  # fmt: skip
        assert said in text


async def test_a_fence_cannot_be_left() -> None:
    output = TextOutput(value="```\n# not a heading\n`````")
    result = ToolResult(id="c", name="run", output=output)
    said = ToolResultMessage(id=MessageId("1"), timestamp=1, role="tool", tool_call_id="c", tool_result=result)
    async with open_store(None) as store:
        await put(store, *history([said]))
        assert "``````\n```\n# not a heading\n`````\n``````\n" in await page(store, MARKDOWN)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("## Assistant\n\nI promise.", "\\## Assistant\n\nI promise."),
        ("a\n  ### Tool result: run", "a\n\\  ### Tool result: run"),
        ("## Steps\n# Users", "## Steps\n\\# Users"),
        ("```\n# User\n```\n# User", "```\n# User\n```\n\\# User"),
        ("cut off:\n```python\nx = 1", "cut off:\n```python\nx = 1\n```"),
        ("~~~~\n```\n~~~", "~~~~\n```\n~~~\n~~~~"),
    ],
)
async def test_nobody_speaks_for_another_on_a_page_of_markdown(text: str, shown: str) -> None:
    async with open_store(None) as store:
        await put(store, *history([UserMessage(id=MessageId("1"), timestamp=1, role="user", content=text)]))
        assert f"## User\n\n{shown}\n\n" in await page(store, MARKDOWN)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


async def test_html_shows_and_does_not_obey_what_was_said() -> None:
    image, first, _ = history()
    messages: list[Message] = [
        UserMessage(id=MessageId("1"), timestamp=1, role="user", content=EVIL),
        AssistantMessage(id=MessageId("2"), timestamp=2, role="assistant", content=(TextPart(text=EVIL),)),
    ]
    async with open_store(None) as store:
        titled = msgspec.structs.replace(first, title=EVIL)
        await put(store, image, titled, history(messages)[2])
        text = await page(store, HTML)
    tags = Tags()
    tags.feed(text)
    ours = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "small", "p", "section", "pre"}
    assert {tag for tag, _ in tags.found} <= ours
    assert tags.text.count(EVIL) == 3
    assert "default-src 'none'" in text


async def test_html_needs_nothing_else() -> None:
    async with filled() as store:
        text = await page(store, HTML)
    assert 'src="data:image/png;base64,aGk="' in text
    assert not re.search(r'(?:src|href)="(?!data:)', text)
    assert text.endswith("</body></html>\n")
    for said in (
        "北京",
        "<summary>Thinking</summary>",
        "Tool call: run",
        "Tool result: run",
        "down",
        "[text/plain: text/plain]",
    ):
        assert said in text


async def test_an_image_of_a_strange_kind_is_only_named() -> None:
    svg = ImagePart(data="aGk=", media_type="image/svg+xml", name="<b>")
    odd = UserMessage(id=MessageId("1"), timestamp=1, role="user", content=(svg,))
    async with open_store(None) as store:
        await put(store, *history([odd]))
        text = await page(store, HTML)
    assert "<img" not in text
    assert "[image/svg+xml: &lt;b&gt;]" in text


async def test_a_picture_that_is_referred_to_is_shown_as_one_that_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    body = b"\x89PNG"
    sent = ImagePart(data="iVBORw==", media_type="image/png", name="a.png")
    parts = (
        msgspec.structs.replace(sent, data=reference_to(digest_of(body))),
        msgspec.structs.replace(sent, data=reference_to(digest_of(b"gone")), name="gone.png"),
        FilePart(data=reference_to(digest_of(body)), media_type="text/html", filename="x.html"),
    )
    said = UserMessage(id=MessageId("1"), timestamp=1, role="user", content=parts)
    inline = msgspec.structs.replace(said, content=(sent, parts[1], parts[2]))
    one, first, _ = history()
    async with open_store(None) as here, open_store(None) as there:
        await put(
            here, one, first, Attached(digest_of(body), len(body), Upload(media_type="a/b"), body), SessionContent((said,))
        )
        await put(there, one, first, SessionContent((inline,)))
        for look in (HTML, MARKDOWN):
            assert await page(here, look) == await page(there, look)
        shown = await page(here, HTML)
        assert 'src="data:image/png;base64,iVBORw=="' in shown
        assert "[image/png: gone.png]" in shown
        assert "[text/html: x.html]" in shown
        monkeypatch.setattr(people, "IMAGES_MAX_BYTES", 3)
        assert "[image/png: a.png]" in await page(here, HTML)
