import json
import re
from pathlib import Path

from tests.provision.clients import Clients

from agentvm import gateways
from agentvm.server.cors import cors_headers, preflight_headers

PAGE = [(b"origin", b"https://app.example")]
CLIENTS = (Path(__file__).parent / "headers.mjs").read_text(encoding="utf-8")


def test_only_pages_of_allowed_origins_are_answered() -> None:
    assert cors_headers(PAGE, ()) == {}
    assert cors_headers([], ("*",)) == {}
    assert cors_headers(PAGE, ("https://other.example",)) == {}
    for allowed in ("https://app.example/", "*"):
        assert cors_headers(PAGE, (allowed,))["Access-Control-Allow-Origin"] == "https://app.example"


def test_a_preflight_names_the_methods_and_the_headers_of_the_official_clients() -> None:
    asked = (b"access-control-request-headers", b"authorization, x-stainless-os, x-evil")
    headers = preflight_headers([*PAGE, asked], "GET, OPTIONS")
    assert headers["Access-Control-Allow-Methods"] == "GET, OPTIONS"
    allowed = headers["Access-Control-Allow-Headers"].split(", ")
    assert {"authorization", "x-stainless-os", "last-event-id"} <= set(allowed)
    assert "x-evil" not in allowed


def test_pages_may_send_every_header_that_a_gateway_reads() -> None:
    (folder,) = gateways.__path__
    sources = [path.read_text(encoding="utf-8") for path in Path(folder).rglob("*.py")]
    constants = [line for source in sources for line in re.findall(r"^[A-Z_, ]*_HEADER\b.* = (.*)$", source, re.MULTILINE)]
    read = {name for line in constants for name in re.findall(r'"([a-z0-9-]+)"', line)}
    read |= {name for source in sources for name in re.findall(r'headers\.get\("([a-z-]+)"', source)}
    assert {"x-avm-agent", "last-event-id", "mcp-name"} <= read
    # A page sends `accept` without being allowed to.
    allowed = preflight_headers(PAGE, "POST")["Access-Control-Allow-Headers"].split(", ")
    assert read - {"accept"} <= set(allowed)


async def test_pages_may_send_every_header_that_the_official_clients_send(clients: Clients) -> None:
    sent: list[str] = json.loads(await clients.run(CLIENTS))
    assert {"x-api-key", "last-event-id", "anthropic-version", "mcp-method", "a2a-version"} <= set(sent)
    asked = (b"access-control-request-headers", ",".join(sent).encode())
    allowed = preflight_headers([*PAGE, asked], "POST")["Access-Control-Allow-Headers"].split(", ")
    assert set(sent) - {"accept"} <= set(allowed)
