import email.utils
import time
from dataclasses import replace

import httpx2
import pytest
from structlog.typing import EventDict
from tests.drivers.fixtures import FAILURES, KEY

from agentvm import log
from agentvm.drivers.failures import RETRY_AFTER_MAX_SECONDS, Reported, read_error, refuse_long_waits, retry_after
from agentvm.errors import (
    ProviderAuthFailed,
    ProviderBadRequest,
    ProviderError,
    ProviderOverloaded,
    ProviderProtocolError,
    ProviderRateLimited,
    ProviderTimeout,
    ProviderUnreachable,
)
from agentvm.log import concerning
from agentvm.model.secret import Secret


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (307, ProviderProtocolError),
        (400, ProviderBadRequest),
        (401, ProviderAuthFailed),
        (402, ProviderAuthFailed),
        (403, ProviderAuthFailed),
        (404, ProviderBadRequest),
        (408, ProviderTimeout),
        (413, ProviderBadRequest),
        (418, ProviderBadRequest),
        (429, ProviderRateLimited),
        (500, ProviderOverloaded),
        (503, ProviderOverloaded),
        (504, ProviderTimeout),
        (529, ProviderOverloaded),
    ],
)
def test_every_status_has_its_error(status: int, expected: type[ProviderError]) -> None:
    error = FAILURES.status(status, b'{"error": {"message": "no"}}', {})
    assert type(error) is expected
    assert str(status) in str(error)


@pytest.mark.parametrize(
    "body",
    [
        b'{"error": {"message": "Project `p` does not have access to model `o1-pro`", "code": "model_not_found"}}',
        b'{"error": {"message": "Your key may not use the specified resource", "type": "permission_error"}}',
        b'{"error": {"message": "This model is not available to your account"}}',
    ],
)
def test_a_model_that_the_account_may_not_use_is_the_fault_of_the_request(body: bytes) -> None:
    assert type(FAILURES.status(403, body, {})) is ProviderBadRequest


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("overloaded_error", ProviderOverloaded),
        ("rate_limit_error", ProviderRateLimited),
        ("authentication_error", ProviderAuthFailed),
        ("invalid_request_error", ProviderBadRequest),
        ("timeout_error", ProviderTimeout),
        ("something_new", ProviderError),
    ],
)
def test_an_error_inside_a_stream_is_known_by_its_type(kind: str, expected: type[ProviderError]) -> None:
    assert type(FAILURES.reported(Reported("no", kind))) is expected


def test_an_error_inside_a_stream_may_carry_a_status_as_its_code() -> None:
    assert type(FAILURES.reported(Reported("no", None, 502))) is ProviderOverloaded


def test_an_account_without_credit_is_not_mistaken_for_a_rate_limit() -> None:
    body = b'{"error": {"message": "no credit", "type": "insufficient_quota", "code": "insufficient_quota"}}'
    error = FAILURES.status(429, body, {})
    assert type(error) is ProviderAuthFailed
    assert not error.retryable


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"message": "a", "type": "t", "code": 3}}', "a"),
        (b'{"type": "error", "error": {"type": "x", "message": "b"}}', "b"),
        (b'{"error": "c"}', "c"),
        (b'{"object": "error", "message": "d", "code": 400}', "d"),
        (b'{"detail": "e"}', "e"),
        (b"<html>gateway</html>", ""),
        (b"\xff\xfe", ""),
        (b'{"error": ' + b"[" * 100_000, ""),
        (b"[]", ""),
        (b"", ""),
    ],
)
def test_the_error_is_found_in_every_shape(body: bytes, message: str) -> None:
    assert read_error(body).message == message


def test_keys_that_a_provider_echoes_are_struck_out() -> None:
    body = f'{{"error": {{"message": "bad {KEY}, sk-proj-abc***wxyz and Bearer abc.def"}}}}'.encode()
    text = str(FAILURES.status(401, body, {}))
    assert KEY not in text
    assert "wxyz" not in text
    assert "abc.def" not in text
    assert "check KEY" in text


@pytest.mark.parametrize(("key", "shown"), [("x", "it exceeds"), ("exceeds", "it exceeds"), ("it exceeds", "***")])
def test_a_key_that_could_be_a_word_is_not_cut_out_of_the_text(key: str, shown: str) -> None:
    failures = replace(FAILURES, secret=Secret(key))
    assert (failures.redact("it exceeds"), failures.hide(b"it exceeds")) == (shown, shown.encode())


def test_a_providers_text_is_shortened_and_kept_on_one_line() -> None:
    text = FAILURES.redact("a\r\n\x1b[31m" + "b" * 10_000)
    assert len(text) < 500
    assert text.isprintable()


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e308"}, 31_536_000.0),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, 31_536_000.0),
        ({"retry-after": "Mon, 01 Jan 99999999999 00:00:00 GMT"}, None),
        ({"retry-after": "Mon, 01 Jan 0001 00:00:00 -0000"}, 0.0),
        ({}, None),
    ],
)
def test_retry_after_is_read(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_retry_after_may_be_a_date() -> None:
    wait = retry_after({"retry-after": email.utils.formatdate(time.time() + 100, usegmt=True)})
    assert wait is not None
    assert 90 < wait <= 100


def test_the_error_of_a_rate_limit_says_how_long_to_wait() -> None:
    error = FAILURES.status(429, b"{}", {"retry-after": "12"})
    assert error.retry_after == 12.0
    assert error.retryable
    assert "12 s" in str(error)


async def test_only_long_waits_are_refused() -> None:
    short = httpx2.Response(429, headers={"retry-after": str(RETRY_AFTER_MAX_SECONDS)})
    long = httpx2.Response(429, headers={"retry-after": str(RETRY_AFTER_MAX_SECONDS + 1), "x-should-retry": "true"})
    await refuse_long_waits(short)
    await refuse_long_waits(long)
    assert "x-should-retry" not in short.headers
    assert long.headers["x-should-retry"] == "false"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (httpx2.ConnectError("refused"), ProviderUnreachable),
        (httpx2.ReadError("reset"), ProviderUnreachable),
        (httpx2.RemoteProtocolError("cut"), ProviderUnreachable),
        (httpx2.ReadTimeout("slow"), ProviderTimeout),
        (httpx2.ConnectTimeout("slow"), ProviderTimeout),
        (httpx2.SSEError("html"), ProviderProtocolError),
        (httpx2.DecodingError("gzip"), ProviderProtocolError),
    ],
)
def test_broken_connections_are_told_apart(error: httpx2.HTTPError, expected: type[ProviderError]) -> None:
    assert type(FAILURES.transport(error)) is expected
    assert type(FAILURES.unreachable(error)) is expected


def test_a_connection_that_fails_for_no_known_reason_is_unreachable() -> None:
    assert type(FAILURES.unreachable(OSError("?"))) is ProviderUnreachable
    assert type(FAILURES.unreachable(None)) is ProviderUnreachable


@pytest.mark.parametrize("cause", [httpx2.ConnectError("no"), None])
def test_where_a_provider_is_is_told_to_the_operator_only(cause: httpx2.HTTPError | None) -> None:
    heard: list[EventDict] = []

    def sink(logger: str, level: str, facts: EventDict) -> None:
        heard.append(facts)

    log.sinks.append(sink)
    try:
        with concerning(tenant_id="ten_1", turn_id="turn_1"):
            error = replace(FAILURES, address="10.0.0.5:8000").unreachable(cause)
    finally:
        log.sinks.remove(sink)
    assert "10.0.0.5" not in str(error)
    (entry,) = heard
    assert entry["address"] == "10.0.0.5:8000"
    assert "tenant_id" not in entry
    assert entry["turn_id"] == "turn_1"


@pytest.mark.parametrize(
    "body",
    [
        b'{"error": {"type": "exceed_context_size_error", "message": "the request exceeds the available context size"}}',
        b'{"error": {"code": "context_length_exceeded", "message": "This model\'s maximum context length is 8192 tokens."}}',
        b'{"error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}}',
    ],
)
def test_a_conversation_that_is_too_long_is_explained(body: bytes) -> None:
    error = FAILURES.status(400, body, {})
    assert isinstance(error, ProviderBadRequest)
    assert "context window" in str(error)
    assert "larger window" in str(error)
