import anyio
import pytest
from tests.support.web import Asked, Replied, web

from agentvm.errors import ToolFailed
from agentvm.errors.tool import EgressRefused
from agentvm.model.public_address import AddressRules
from agentvm.resources.schema import check_schema
from agentvm.tools.base import CallContext, Caller, CallResult, ResultFile, ResultImage
from agentvm.tools.builtin.web_fetch import TEXT_MAX, WebFetch
from agentvm.tools.safe_http import SafeHttp

pytestmark = pytest.mark.anyio
LOOPBACK = AddressRules.parse(["127.0.0.0/8"])
CONTEXT = CallContext(key="k", caller=Caller("acme", "alice"), deadline=0)


async def fetched(reply: Replied, path: str = "/", **input: object) -> CallResult:
    with anyio.fail_after(60):
        async with web(lambda asked: reply) as server, SafeHttp(LOOPBACK) as http:
            result = await WebFetch(http).run({"url": server.url(path), **input}, CONTEXT)
            assert "authorization" not in server.asked[0].headers
            return result


def html(text: str) -> Replied:
    return Replied(body=text.encode(), headers={"content-type": "text/html; charset=utf-8"})


async def test_a_page_is_its_address_title_and_text() -> None:
    result = await fetched(html("<title>News</title><p>你好 <b>world</b><script>evil()</script>"), "/a")
    assert isinstance(result.value, str)
    address, title, _, text = result.value.split("\n")
    assert address.endswith("/a")
    assert (title, text) == ("News", "你好 world")


async def test_a_long_page_is_read_in_parts() -> None:
    page = html("<p>" + "abcdefghij" * 10_000)
    first = str((await fetched(page)).value)
    assert f"read on with start={TEXT_MAX}]" in first
    second = str((await fetched(page, start=99_990, max=5)).value)
    assert "abcde\n\n[5 more characters; read on with start=99995]" in second
    with pytest.raises(ToolFailed, match="has 100000 characters"):
        await fetched(page, start=100_000)


@pytest.mark.parametrize("media_type", ["text/plain", "application/json", "application/rss+xml", ""])
async def test_other_text_comes_as_it_is(media_type: str) -> None:
    result = await fetched(Replied(body=b'{"a": "<b>\x1b[0m"}', headers={"content-type": media_type} if media_type else {}))
    assert str(result.value).endswith('{"a": "<b>[0m"}')


async def test_images_and_files_are_parts_and_a_failure_is_an_error() -> None:
    image = await fetched(Replied(body=b"PNG", headers={"content-type": "image/png"}))
    assert image.parts == (ResultImage(data=b"PNG", media_type="image/png"),)
    file = await fetched(Replied(body=b"%PDF", headers={"content-type": "application/pdf"}))
    assert file.parts == (ResultFile(data=b"%PDF", media_type="application/pdf"),)
    missing = await fetched(Replied(404, b"nothing here"))
    assert (missing.is_error, "404: nothing here" in str(missing.value)) == (True, True)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/", "http://2130706433/", "http://[::ffff:7f00:1]/", "file:///etc/passwd", "text", ""]
)
async def test_the_inside_is_not_fetched(url: str) -> None:
    async with SafeHttp() as http:
        with pytest.raises(EgressRefused):
            await WebFetch(http).run({"url": url}, CONTEXT)


async def test_a_redirect_to_the_inside_is_not_fetched() -> None:
    with anyio.fail_after(60):
        async with web(lambda asked: Replied(body=b"inside")) as inner:

            def reply(asked: Asked) -> Replied:
                return Replied(302, headers={"location": inner.url()})

            async with web(reply) as server, SafeHttp(AddressRules.parse([f"127.0.0.1:{server.port}"])) as http:
                with pytest.raises(EgressRefused):
                    await WebFetch(http).run({"url": server.url()}, CONTEXT)
        assert inner.asked == []


def test_the_tool_is_described_for_models_and_policy() -> None:
    tool = WebFetch(SafeHttp())
    check_schema("inputSchema", tool.spec.input_schema, of_object=True)
    assert (tool.effect, tool.world, tool.repeat) == ("read", "open", "safe")
