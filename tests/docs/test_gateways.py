"""Every gateway has a page with the few lines that its user types, and the index and README lead to it."""

import re

import pytest
from tests.docs.documents import DOCS, ROOT

from agentvm.gateways.routes import Gateway
from agentvm.server.http.gateways import GATEWAYS

PAGES = {
    "openai": "openai.md",
    "anthropic": "anthropic.md",
    "mcp": "mcp.md",
    "langgraph": "langgraph.md",
    "agui": "ag-ui.md",
    "ai_sdk": "ai-sdk.md",
    "a2a": "a2a.md",
}
OTHERS = ("plain-http.md", "protocol-2x.md", "channels.md", "webhooks.md")
LINES_MAX = 5


def test_every_gateway_has_a_page() -> None:
    assert PAGES.keys() == {gateway.name for gateway in GATEWAYS}


@pytest.mark.parametrize("gateway", GATEWAYS, ids=lambda gateway: gateway.name)
def test_a_page_begins_with_the_lines_that_a_user_types(gateway: Gateway) -> None:
    page = (DOCS / PAGES[gateway.name]).read_text(encoding="utf-8")
    title, block = re.match(r"# .+\n\n```\w+\n(.*?)```", page, re.DOTALL), re.findall(r"```\w+\n(.*?)```", page, re.DOTALL)
    assert title is not None
    assert len([line for line in title[1].splitlines() if line.strip()]) <= LINES_MAX
    assert any(prefix in "".join(block) for prefix in gateway.prefixes)


@pytest.mark.parametrize("page", [*PAGES.values(), *OTHERS])
def test_the_index_leads_to_every_page(page: str) -> None:
    assert f"({page})" in (DOCS / "gateways.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("readme", ["README.md", "README.zh-CN.md"])
def test_the_readme_has_a_table_of_what_connects(readme: str) -> None:
    text = (ROOT / readme).read_text(encoding="utf-8")
    assert "docs/gateways.md" in text
    for address in ("/v1", "/anthropic", "/mcp", "/langgraph", "/a2a/", "/ag-ui/", "/ai-sdk/", "/ws"):
        assert re.search(rf"(localhost:8080|…){address}", text), address
