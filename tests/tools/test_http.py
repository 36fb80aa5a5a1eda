from typing import Any

import anyio
import msgspec
import pytest
from tests.support.web import Asked, Replied, Reply, web

from agentvm.drivers.base import ToolSpec
from agentvm.errors import ToolFailed
from agentvm.errors.resource import ResourceInvalid
from agentvm.errors.tool import EgressRefused, SecretNotGranted
from agentvm.model.ids import TenantId
from agentvm.model.long_json import LONG_BYTES
from agentvm.model.public_address import AddressRules
from agentvm.model.secret import Secret
from agentvm.model.secret_grant import SecretUse
from agentvm.resources.tool import HttpRequestParts
from agentvm.tools.base import CallContext, Caller, CallResult, CallTraits, ResultFile, ResultImage
from agentvm.tools.http import HttpTool, pointed
from agentvm.tools.safe_http import SafeHttp
from agentvm.tools.secrets import CallSecrets

LOOPBACK = AddressRules.parse(["127.0.0.0/8"])
TRAITS = CallTraits()
SPEC = ToolSpec(name="note", description="Adds a note.", input_schema={"type": "object"})


class Granted(CallSecrets):
    """One secret, for a header and the query of requests to this machine."""

    async def for_host(self, name: str, use: SecretUse, host: str, port: int) -> Secret:
        if (name, host) != ("ACME", "127.0.0.1"):
            raise SecretNotGranted(name, "note", use, host)
        return Secret("s3cr3t-of-acme")


CONTEXT = CallContext(
    key="turn_1/call_1",
    caller=Caller("acme", "alice"),
    deadline=0,
    secrets=Granted(None, None, TenantId("acme"), ()),  # type: ignore[arg-type]  # Neither is used.
)


def tool(entry: str, http: SafeHttp, traits: CallTraits = TRAITS, **parts: Any) -> HttpTool:
    return HttpTool(spec=SPEC, entry=entry, parts=msgspec.convert(parts, HttpRequestParts), traits=traits, http=http)


async def called(reply: Reply, entry: str, input: dict[str, object], **parts: Any) -> tuple[CallResult, Asked]:
    with anyio.fail_after(60):
        async with web(reply) as server, SafeHttp(LOOPBACK) as http:
            method, _, path = entry.partition(" ")
            result = await tool(f"{method} {server.url(path)}", http, **parts).run(input, CONTEXT)
            return result, server.asked[-1]


def json(value: object) -> Replied:
    return Replied(body=msgspec.json.encode(value), headers={"content-type": "application/json; charset=utf-8"})


async def test_the_example_of_the_documentation() -> None:
    result, asked = await called(
        lambda asked: json({"note": {"id": 7}}),
        "POST /v1/orders/{id}/notes",
        {"id": "a/b ü", "text": "hello", "tags": ["x"]},
        headers={"Authorization": "Bearer ${secret:ACME}"},
        body="json",
        pick="/note",
    )
    assert (asked.method, asked.target) == ("POST", "/v1/orders/a%2Fb%20%C3%BC/notes")
    assert asked.headers["authorization"] == "Bearer s3cr3t-of-acme"
    assert asked.headers["content-type"] == "application/json"
    assert msgspec.json.decode(asked.body) == {"text": "hello", "tags": ["x"]}
    assert result == CallResult(type="json", value={"id": 7})
    assert "idempotency-key" not in asked.headers


@pytest.mark.parametrize("value", ["..", ".", ""])
async def test_an_argument_never_becomes_another_path(value: str) -> None:
    async with SafeHttp(LOOPBACK) as http:
        with pytest.raises(ToolFailed, match="part of the address"):
            await tool("GET https://api.acme.org/v1/{id}/x", http).run({"id": value}, CONTEXT)
        with pytest.raises(ToolFailed, match="'id' is missing"):
            await tool("GET https://api.acme.org/v1/{id}/x", http).run({}, CONTEXT)


@pytest.mark.parametrize(
    "value", ["../../admin", "x?admin=1", "x#y", "%2e%2e%2f", "a\\b", "a\nb", "http://evil/", "{other}", "${secret:ACME}"]
)
async def test_an_argument_is_one_segment_whatever_it_holds(value: str) -> None:
    _, asked = await called(lambda asked: json(1), "GET /v1/{id}/x", {"id": value})
    assert asked.target.count("/") == 3
    assert asked.target.startswith("/v1/")
    assert asked.target.endswith("/x")
    assert "?" not in asked.target
    assert "s3cr3t" not in asked.target


async def test_a_query_takes_arguments_lists_and_secrets_and_leaves_out_what_was_not_given() -> None:
    _, asked = await called(
        lambda asked: json([]),
        "GET /find",
        {"words": "a&b=c", "tags": ["x", "y"], "page": 2, "deep": {"a": True}},
        query={"q": "{words}", "tag": "{tags}", "p": "page-{page}", "none": "{missing}", "key": "${secret:ACME}"},
    )
    assert asked.target == "/find?q=a%26b%3Dc&tag=x&tag=y&p=page-2&key=s3cr3t-of-acme&deep=%7B%22a%22%3Atrue%7D"
    assert asked.body == b""


async def test_a_form_and_no_body() -> None:
    _, asked = await called(lambda asked: json(1), "POST /form", {"a": "1 2", "b": ["x", "y"]}, body="form")
    assert (asked.body, asked.headers["content-type"]) == (b"a=1+2&b=x&b=y", "application/x-www-form-urlencoded")
    _, asked = await called(lambda asked: json(1), "DELETE /item/{id}", {"id": 5})
    assert (asked.target, asked.body) == ("/item/5", b"")
    with pytest.raises(ToolFailed, match="takes no 'extra'"):
        await called(lambda asked: json(1), "POST /ping", {"extra": 1}, body="none")


async def test_a_keyed_tool_sends_the_key_of_the_call() -> None:
    with anyio.fail_after(60):
        async with web(lambda asked: json(1)) as server, SafeHttp(LOOPBACK) as http:
            keyed = tool(f"POST {server.url()}", http, CallTraits.of("write", repeat="keyed"))
            await keyed.run({}, CONTEXT)
            await keyed.run({}, CONTEXT)
    assert [asked.headers["idempotency-key"] for asked in server.asked] == ["turn_1/call_1"] * 2
    assert (keyed.effect, keyed.world, keyed.repeat, keyed.timeout_seconds) == ("write", "open", "keyed", 60)


async def test_a_secret_that_is_not_granted_stops_the_call_before_anything_is_sent() -> None:
    with anyio.fail_after(60):
        async with web(lambda asked: json(1)) as server, SafeHttp(LOOPBACK) as http:
            stranger = tool(f"GET {server.url()}", http, headers={"X-Key": "${secret:STRIPE_KEY}"})
            with pytest.raises(SecretNotGranted):
                await stranger.run({}, CONTEXT)
    assert server.asked == []


async def test_a_secret_is_nowhere_in_a_result_an_error_or_a_redirected_request() -> None:
    def echo(asked: Asked) -> Replied:
        if asked.target.startswith("/moved"):
            return Replied(302, headers={"location": "/echo"})
        status = 500 if asked.target.startswith("/fail") else 200
        return Replied(status, body=repr(asked).encode(), headers={"content-type": "text/plain"})

    secret = {"headers": {"X-Key": "${secret:ACME}"}, "query": {"key": "${secret:ACME}"}}
    result, _ = await called(echo, "GET /echo", {}, **secret)
    assert "[secret ACME]" in str(result.value)
    assert "s3cr3t" not in str(result.value)
    result, _ = await called(echo, "GET /fail", {}, **secret)
    assert result.is_error
    assert "s3cr3t" not in str(result.value)
    result, asked = await called(echo, "GET /moved", {}, **secret)
    assert "x-key" not in asked.headers
    assert "s3cr3t" not in asked.target


@pytest.mark.parametrize("place", ["headers", "query"])
async def test_a_call_with_a_secret_does_not_follow_a_redirect_to_another_host(place: str) -> None:
    with anyio.fail_after(60):
        async with web(lambda asked: Replied(body=b"stolen")) as other, SafeHttp(LOOPBACK) as http:
            async with web(lambda asked: Replied(302, headers={"location": other.url("/taken")})) as server:
                plain = tool(f"GET {server.url()}", http)
                assert (await plain.run({}, CONTEXT)).value == "stolen"
                with pytest.raises(EgressRefused, match="the call has a secret"):
                    await tool(f"GET {server.url()}", http, TRAITS, **{place: {"X-Key": "${secret:ACME}"}}).run({}, CONTEXT)
                assert len(other.asked) == 1


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Replied(body=b"plain \x1b[0m", headers={"content-type": "text/plain"}), CallResult(type="text", value="plain [0m")),
        (Replied(204), CallResult(type="text", value="")),
        (Replied(body=b"\xfc", headers={"content-type": "text/html; charset=iso-8859-1"}), CallResult(type="text", value="ü")),
        (
            Replied(body=b"PNG", headers={"content-type": "image/png"}),
            CallResult(type="content", parts=(ResultImage(data=b"PNG", media_type="image/png"),)),
        ),
        (
            Replied(body=b"%PDF", headers={"content-type": "application/pdf"}),
            CallResult(type="content", parts=(ResultFile(data=b"%PDF", media_type="application/pdf"),)),
        ),
        (Replied(body=b"[1]", headers={"content-type": "application/problem+json"}), CallResult(type="json", value=[1])),
    ],
)  # fmt: skip
async def test_a_result_is_what_the_server_says_it_is(reply: Replied, expected: CallResult) -> None:
    result, _ = await called(lambda asked: reply, "GET /", {})
    assert result == expected


async def test_a_charset_that_takes_for_ever_is_not_used() -> None:
    reply = Replied(body=b"-" * 100_000, headers={"content-type": "text/plain; charset=punycode"})
    result, _ = await called(lambda asked: reply, "GET /", {})
    assert result.value == "-" * 100_000


async def test_a_status_an_unreadable_body_and_a_missing_part_are_errors_that_quote() -> None:
    result, _ = await called(lambda asked: Replied(404, b"no such order"), "GET /", {})
    assert (result.is_error, "404: no such order" in str(result.value)) == (True, True)
    result, _ = await called(lambda asked: Replied(body=b"<html>"), "GET /", {}, pick="/a")
    assert "expected JSON, and got: <html>" in str(result.value)
    result, _ = await called(lambda asked: json({"a": [1]}), "GET /", {}, pick="/a/1")
    assert 'nothing at /a/1: {"a":[1]}' in str(result.value)


async def test_long_json_stays_text() -> None:
    long = {"a": {"b": ["x" * LONG_BYTES]}, "n": 1}
    result, _ = await called(lambda asked: json(long), "GET /", {})
    assert isinstance(result.value, msgspec.Raw)
    assert msgspec.json.decode(result.value) == long
    result, _ = await called(lambda asked: json(long), "GET /", {}, pick="/a")
    assert isinstance(result.value, msgspec.Raw)
    assert msgspec.json.decode(result.value) == long["a"]
    result, _ = await called(lambda asked: json(long), "GET /", {}, pick="/n")
    assert result.value == 1
    result, _ = await called(lambda asked: json({}), "GET /", {}, pick="/a")
    assert result.is_error


async def test_other_statuses_may_be_good() -> None:
    result, _ = await called(
        lambda asked: Replied(404, b"[]", {"content-type": "application/json"}), "GET /", {}, ok=["2xx", "404"]
    )
    assert result == CallResult(type="json", value=[])


@pytest.mark.parametrize(
    "entry", ["GET http://api.acme.org/", "GET https://2130706433/", "GET http://10.0.0.1/", "FETCH https://a.b/"]
)
def test_an_entry_without_tls_or_without_a_host_is_refused(entry: str) -> None:
    with pytest.raises(ResourceInvalid):
        tool(entry, SafeHttp(LOOPBACK))


@pytest.mark.parametrize(
    "name", ["Host", "content-length", "Transfer-Encoding", "Proxy-Authorization", "a b", "x\r\ny", "Idempotency-Key"]
)
def test_a_header_that_steers_the_connection_is_refused(name: str) -> None:
    with pytest.raises(ResourceInvalid):
        tool("GET https://api.acme.org/", SafeHttp(), headers={name: "x"})


async def test_a_header_cannot_be_split_by_an_argument_and_a_private_host_not_be_asked() -> None:
    async with SafeHttp() as http:
        with pytest.raises(ToolFailed, match="printable ASCII"):
            await tool("GET https://api.acme.org/", http, headers={"X-Id": "{id}"}).run({"id": "a\r\nX-Admin: 1"}, CONTEXT)
        with pytest.raises(EgressRefused):
            await tool("GET https://127.0.0.1/", http).run({}, CONTEXT)


def test_a_pointer_finds_a_part() -> None:
    value = {"a/b": [{"~": 1}], "": 2}
    assert pointed(value, "/a~1b/0/~0") == 1
    assert pointed(value, "/") == 2
    for pointer in ("/a~1b/9", "/a~1b/-1", "/nope", "/a~1b/0/~0/x"):
        with pytest.raises(LookupError):
            pointed(value, pointer)
