import pytest

from agentvm.errors.resource import ResourceInvalid
from agentvm.resources.tool_entry import (
    McpEntry,
    WebAddress,
    arguments_of,
    fill,
    parse_address,
    parse_command,
    parse_http,
    parse_mcp,
    parse_openapi,
    secrets_of,
)

DIGEST = f"sha256:{'0' * 64}"


def test_an_http_entry_has_a_method_an_address_and_arguments_in_its_path() -> None:
    entry = parse_http("POST https://API.example.org:8443/v1/orders/{id}/notes/{note}")
    assert (entry.method, entry.arguments) == ("POST", ("id", "note"))
    assert entry.address == WebAddress("https", "api.example.org", 8443, "/v1/orders/{id}/notes/{note}")
    assert entry.address.origin == "https://api.example.org:8443"


def test_an_address_without_a_method_is_read_with_get() -> None:
    assert parse_http("https://example.org/").method == "GET"


@pytest.mark.parametrize(
    "url",
    [
        "example.org", "ftp://example.org/", "https://", "https:///path", "https://user@example.org/", "https://a:b@c/",
        "https://{host}/", "https://example.org\\@evil.org/", "https://example.org:0/", "https://example.org:99999/",
        "https://example.org/?a=b", "https://example.org/#x", "https://exa mple.org/", "https://example.org/a b",
        "https://-a.org/", "https://a..org/", "https://exämple.org/", "https://example.org\t/",
    ],
)  # fmt: skip
def test_an_address_that_programs_could_read_differently_is_refused(url: str) -> None:
    with pytest.raises(ResourceInvalid, match="entry: "):
        parse_address(url)


@pytest.mark.parametrize(
    "entry", ["FETCH https://a.org/", "GET https://a.org/../b", "GET https://a.org/{1}", "GET  https://a.org/"]
)
def test_an_http_entry_that_cannot_be_is_refused(entry: str) -> None:
    with pytest.raises(ResourceInvalid, match="entry: "):
        parse_http(entry)


def test_an_mcp_entry_names_a_server_and_at_most_one_tool() -> None:
    assert parse_mcp("stdio:files") == McpEntry(None, "files", None)
    assert parse_mcp("https://mcp.example.org/mcp#get_issue") == McpEntry(
        WebAddress("https", "mcp.example.org", None, "/mcp"), None, "get_issue"
    )


def test_an_openapi_entry_has_the_digest_of_its_document() -> None:
    assert parse_openapi(f"blob:{DIGEST}").address is None
    there = parse_openapi(f"https://a.example.org/openapi.json@{DIGEST}")
    assert (there.digest, there.address) == (DIGEST, WebAddress("https", "a.example.org", None, "/openapi.json"))


def test_an_argument_fills_one_element_of_a_command_and_is_not_read_again() -> None:
    elements = parse_command('["git", "log", "--author={who}", "-n", "{count}"]')
    values = {"who": "{count} $(reboot)", "count": "3"}
    assert [fill(element, values) for element in elements] == ["git", "log", "--author={count} $(reboot)", "-n", "3"]


def test_arguments_and_secrets_of_a_template_are_told_apart() -> None:
    assert list(arguments_of("Bearer ${secret:KEY}")) == []
    assert list(secrets_of("Bearer ${secret:KEY}")) == ["KEY"]
    assert list(arguments_of("{a}/{b}")) == ["a", "b"]
