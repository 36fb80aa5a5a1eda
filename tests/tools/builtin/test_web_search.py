from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import msgspec
import pytest
from tests.support.web import Asked, Replied, Web, web

from agentvm.errors import ConfigInvalid, ToolFailed
from agentvm.errors.tool import EgressRefused
from agentvm.model.secret import Secret
from agentvm.model.tool_settings import SearchEngine, ToolSearchSettings
from agentvm.resources.schema import check_schema
from agentvm.tools.base import CallContext, Caller, CallResult
from agentvm.tools.builtin.web_search import WebSearch, search_address, search_rules
from agentvm.tools.safe_http import SafeHttp

pytestmark = pytest.mark.anyio
CONTEXT = CallContext(key="k", caller=Caller("acme", "alice"), deadline=0)
FOUND = [
    {"title": "A <b>page</b>", "url": "https://a.example/x", "content": "Some &amp; <strong>text</strong>", "description": ""},
    {"title": "Script", "url": "javascript:alert(1)", "content": "x"},
    {"title": None, "url": "https://b.example/", "description": "t" * 1000},
    "nonsense",
]
RESULTS = [
    {"title": "A page", "url": "https://a.example/x", "text": "Some & text"},
    {"title": "", "url": "https://b.example/", "text": "t" * 500},
]


@asynccontextmanager
async def engine(kind: SearchEngine, reply: Replied) -> AsyncIterator[tuple[Web, WebSearch]]:
    with anyio.fail_after(60):
        async with web(lambda asked: reply) as server:
            settings = ToolSearchSettings(engine=kind, url=server.url("/base"), api_key=Secret("the-key-of-the-operator"))
            async with SafeHttp(search_rules(settings)) as http:
                yield server, WebSearch(settings, http)


async def searched(kind: SearchEngine, body: object, **input: object) -> tuple[CallResult, Asked]:
    async with engine(kind, Replied(body=msgspec.json.encode(body))) as (server, tool):
        return await tool.run({"query": "big cats & dogs", **input}, CONTEXT), server.asked[0]


async def test_searxng_is_asked_for_json() -> None:
    result, asked = await searched("searxng", {"results": FOUND})
    assert asked.target == "/base/search?q=big+cats+%26+dogs&format=json"
    assert result == CallResult(type="json", value=RESULTS)


async def test_brave_gets_its_key_in_a_header() -> None:
    result, asked = await searched("brave", {"web": {"results": FOUND}}, count=1)
    assert asked.target == "/base?q=big+cats+%26+dogs&count=1"
    assert asked.headers["x-subscription-token"] == "the-key-of-the-operator"
    assert result.value == RESULTS[:1]


async def test_tavily_gets_its_key_as_a_token() -> None:
    result, asked = await searched("tavily", {"results": FOUND}, count=99)
    assert asked.headers["authorization"] == "Bearer the-key-of-the-operator"
    assert msgspec.json.decode(asked.body) == {"query": "big cats & dogs", "max_results": 20}
    assert result.value == RESULTS


@pytest.mark.parametrize("body", [{}, {"results": None}, {"results": {}}, [], {"results": [{}]}])
async def test_an_answer_without_results_is_an_empty_list(body: object) -> None:
    result, _ = await searched("searxng", body)
    assert result == CallResult(type="json", value=[])


async def test_a_failure_tells_neither_key_nor_body() -> None:
    async with engine("brave", Replied(401, b"bad key the-key-of-the-operator")) as (_, tool):
        result = await tool.run({"query": "x"}, CONTEXT)
        assert (result.is_error, "the-key" in str(result.value)) == (True, False)
    async with engine("searxng", Replied(200, b"<html>")) as (_, tool):
        with pytest.raises(ToolFailed, match="JSON"):
            await tool.run({"query": "x"}, CONTEXT)
    secret = {"results": [{"title": "the-key-of-the-operator", "url": "https://a.example/"}]}
    result, _ = await searched("tavily", secret)
    assert "the-key" not in str(result.value)


async def test_only_the_endpoint_itself_may_be_inside() -> None:
    async with engine("searxng", Replied(302, headers={"location": "http://127.0.0.1:9/"})) as (_, tool):
        with pytest.raises(EgressRefused):
            await tool.run({"query": "x"}, CONTEXT)


@pytest.mark.parametrize(
    "settings",
    [
        ToolSearchSettings(),
        ToolSearchSettings(engine="searxng"),
        ToolSearchSettings(engine="brave"),
        ToolSearchSettings(engine="searxng", url="ftp://a"),
        ToolSearchSettings(engine="searxng", url="http://user@a"),
        ToolSearchSettings(engine="searxng", url="http://127.1:8080"),
    ],
)
def test_settings_that_cannot_work_are_named(settings: ToolSearchSettings) -> None:
    with pytest.raises(ConfigInvalid, match=r"tools\.search"):
        search_rules(settings)


def test_the_public_engines_have_their_address_and_the_tool_a_description() -> None:
    brave = ToolSearchSettings(engine="brave", api_key=Secret("k"))
    assert search_address(brave).host == "api.search.brave.com"
    assert search_rules(brave).endpoints == {("api.search.brave.com", 443)}
    check_schema("inputSchema", WebSearch(brave, SafeHttp()).spec.input_schema, of_object=True)
