import base64
import hashlib
import re
from html.parser import HTMLParser
from typing import Any, Literal

import pytest
from playwright.async_api import Browser
from tests.server.http.faces import face

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.config import MEMORY, SystemSettings
from agentvm.model.base import Record
from agentvm.operations.operation import Http
from agentvm.protocol.requests import Request
from agentvm.server.http import described
from agentvm.server.http.openapi import document
from agentvm.server.http.reference import HEADERS, SCRIPT, STYLE, addressed, curl, page

HOSTILE = "<script>alert(1)</script>\"'&`x`"
VOID = {"meta", "wbr", "input"}


class Reader(HTMLParser):
    """Which elements a page has, whether each is closed, and where its links lead."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), name
            if name == "id":
                self.ids.append(value or "")
            elif name in ("href", "src"):
                self.links.append(value or "")

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    paths = described()["paths"].items()
    return [(method.upper(), path, about) for path, methods in paths for method, about in methods.items()]


def test_the_page_is_whole_in_itself() -> None:
    read = Reader(page(described()))
    assert read.open == []
    assert read.scripts == [SCRIPT]
    assert not read.seen & {"link", "img", "iframe", "form", "object", "embed", "base"}
    assert {link for link in read.links if not link.startswith("#")} == {"/openapi.json"}


def test_every_link_within_the_page_leads_somewhere_and_every_name_is_there_once() -> None:
    read = Reader(page(described()))
    assert len(set(read.ids)) == len(read.ids)
    assert {link[1:] for link in read.links if link.startswith("#")} <= set(read.ids)


def test_every_operation_is_told_with_all_that_belongs_to_it() -> None:
    text = page(described())
    for method, path, about in operations():
        article = text.split(f'<article id="{about["operationId"]}">')[1].split("</article>")[0]
        plain = re.sub(r"<[^>]+>", "", article)
        for said in (method, path, about["summary"], *about["x-permissions"], *about["responses"], "curl"):
            assert said in plain.replace("&#x27;", "'"), (path, said)
        for parameter in about["parameters"]:
            assert f"<code>{parameter['name']}</code>" in article
    assert "<code>externalId</code>" in text.split('id="users_create"')[1].split("</article>")[0]


def test_nothing_in_the_page_is_taken_for_html() -> None:
    class Odd(Record):
        member: str = HOSTILE

    class Asked(Request[Odd]):
        kind: str = HOSTILE

    async def odd(context: object, request: Asked) -> Odd:

        raise NotImplementedError

    odd.__doc__ = f"{HOSTILE}\n\n{HOSTILE}"
    Odd.__doc__ = HOSTILE
    served = [
        face(odd, Http("POST", "/v1/x"), needs=(HOSTILE,)),
        face(odd, Http("GET", "/v1/<x>")),
    ]
    text = page(document(served) | {"info": {"title": HOSTILE, "version": HOSTILE, "description": HOSTILE}})
    read = Reader(text)
    assert (read.open, read.scripts, "x" in read.seen) == ([], [SCRIPT], False)
    assert "alert(1)" in text


def test_the_policy_lets_the_own_style_in_and_nothing_else() -> None:
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (STYLE, SCRIPT)]
    policy = HEADERS["Content-Security-Policy"]
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digests[0]}'; script-src 'sha256-{digests[1]}';")
    assert f"<style>{STYLE}</style>" in page(described())
    assert f"<script>{SCRIPT}</script>" in page(described())
    assert "unsafe" not in policy


@pytest.mark.parametrize(
    ("method", "path", "said"),
    [
        ("GET", "/health", "curl 'http://localhost:8080/health'"),
        ("DELETE", "/v1/quotas", "'http://localhost:8080/v1/quotas?metric=…' \\\n  -H \"Authorization: Bearer $AVM_KEY\""),
        ("POST", "/v1/users", "-H 'Content-Type: application/json' \\\n  -d '{\"externalId\": \"…\"}'"),
        ("PUT", "/v1/tenants/{tenant}", '-d \'{"slug": "…"}\''),
    ],
)
def test_a_command_shows_how_to_ask(method: str, path: str, said: str) -> None:
    assert said in curl(described(), method, path, described()["paths"][path][method.lower()])


@pytest.mark.parametrize(
    ("scheme", "host", "shown"),
    [
        ("https", "avm.example.org", b"https://avm.example.org"),
        ("http", "[::1]:8080", b"http://[::1]:8080"),
        ("http", "a'; rm -rf ~ #", b"http://localhost:8080"),
        ("http", "<script>", b"http://localhost:8080"),
        ("javascript", "x", b"http://localhost:8080"),
    ],
)
def test_the_examples_name_the_address_that_the_reader_has_used(scheme: str, host: str, shown: bytes) -> None:
    assert addressed(b"curl 'http://localhost:8080/health'", scheme, host) == b"curl '" + shown + b"/health'"


async def test_a_browser_shows_it_and_has_nothing_to_complain_of(browser: Browser) -> None:
    config = ServerConfig(system=SystemSettings(port=0, data_dir=MEMORY, auth="on", shutdown_seconds=0))
    async with start_server(config, drivers={"scripted": ScriptedDriver()}) as running:
        await look(browser, running.url, 1200, "light")
        await look(browser, running.url, 380, "dark")
        await look(browser, running.url, 320, "light")
        assert await sticking_out(browser, running.url, 380) == []


WIDE_FONT = "* { font-family: monospace !important; letter-spacing: .2em !important }"
"""Wider than the fallback fonts of any system: Debian's are a tenth wider than most."""

STICKING_OUT = """width => [...document.querySelectorAll("body, body *")]
    .filter(each => !each.parentElement.closest("pre, .wide") && each.getBoundingClientRect().right > width + 0.5)
    .map(each => each.outerHTML.slice(0, 80))"""


async def sticking_out(browser: Browser, url: str, width: int) -> list[str]:
    """The elements that are wider than a phone though their letters may be, but for those that scroll by themselves."""
    shown = await browser.new_page(viewport={"width": width, "height": 800}, is_mobile=True, has_touch=True, bypass_csp=True)
    await shown.goto(f"{url}/docs")
    await shown.add_style_tag(content=WIDE_FONT)
    assert await shown.evaluate("document.documentElement.scrollWidth") <= width
    found: list[str] = await shown.evaluate(STICKING_OUT, width)
    await shown.close()
    return found


async def look(browser: Browser, url: str, width: int, scheme: Literal["light", "dark"]) -> None:
    shown = await browser.new_page(
        viewport={"width": width, "height": 800}, color_scheme=scheme, is_mobile=width < 600, has_touch=width < 600
    )
    complaints: list[str] = []
    shown.on("console", lambda message: complaints.append(message.text))
    shown.on("pageerror", lambda error: complaints.append(str(error)))
    await shown.goto(f"{url}/docs")
    # By the width that was asked for: a phone's browser makes its window as wide as what it shows.
    assert await shown.evaluate("document.documentElement.scrollWidth") <= width
    ground = await shown.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 26)")
    await shown.get_by_text("Users", exact=True).first.click()
    await shown.get_by_role("link", name="Create a user", exact=True).click()
    assert await shown.locator("#users_create h3").is_visible()
    await shown.get_by_label("Search").fill("rotate key")
    assert await shown.locator("#keys_rotate").is_visible()
    assert not await shown.locator("#users_create").is_visible()
    await shown.get_by_label("Search").fill("")
    assert await shown.locator("#users_create").is_visible()
    assert f"curl '{url}/health'" in await shown.locator("main").inner_text()
    assert complaints == []
    await shown.close()
