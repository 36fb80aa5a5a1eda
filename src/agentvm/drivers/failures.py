"""Failures — the one place where a provider's failure becomes an error of ours.

Every message names the provider, the event and the remedy. Text that came from the provider is shortened, and anything that
looks like a credential is struck out of it, because some providers echo the key they refuse.
"""

import email.utils
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass

import httpx2
import msgspec

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
from agentvm.log import SECRET_CHARACTERS_MIN, get_logger
from agentvm.model.secret import Secret

logger = get_logger(__name__)

RETRY_AFTER_MAX_SECONDS = 30.0
"""Seconds. A provider that asks for a longer pause is reported at once instead of being waited for."""

YEAR_SECONDS = 31_536_000.0
"""One year. A longer wait is ignored; a provider could send hundreds of digits."""

_DETAIL_MAX = 400

_BY_STATUS: dict[int, type[ProviderError]] = {
    401: ProviderAuthFailed,
    402: ProviderAuthFailed,
    403: ProviderAuthFailed,
    408: ProviderTimeout,
    409: ProviderOverloaded,
    429: ProviderRateLimited,
    504: ProviderTimeout,
}

# Error types and codes of Anthropic, OpenAI and llama.cpp; they share no word with two meanings.
_BY_KIND: dict[str, type[ProviderError]] = {
    "api_error": ProviderOverloaded,
    "authentication_error": ProviderAuthFailed,
    "billing_error": ProviderAuthFailed,
    "context_length_exceeded": ProviderBadRequest,
    "exceed_context_size_error": ProviderBadRequest,
    "insufficient_quota": ProviderAuthFailed,
    "internal_error": ProviderOverloaded,
    "invalid_api_key": ProviderAuthFailed,
    "invalid_request_error": ProviderBadRequest,
    "model_not_found": ProviderBadRequest,
    "not_found_error": ProviderBadRequest,
    "overloaded_error": ProviderOverloaded,
    "permission_error": ProviderBadRequest,
    "rate_limit_error": ProviderRateLimited,
    "rate_limit_exceeded": ProviderRateLimited,
    "request_too_large": ProviderBadRequest,
    "server_error": ProviderOverloaded,
    "timeout_error": ProviderTimeout,
    "unavailable_error": ProviderOverloaded,
}

# Says more than the status it comes with: an account without credit answers 429 for ever, and a model that the account may
# not use is refused with 403, which says nothing about the account's other models.
_BEYOND_STATUS = frozenset({"insufficient_quota", "billing_error", "model_not_found", "permission_error"})

_OVERFLOW = frozenset({"context_length_exceeded", "exceed_context_size_error"})
_OVERFLOW_TEXT = re.compile(r"(?i)prompt is too long|maximum context length|exceeds? the (available |model's )?context")

_DID: dict[type[ProviderError], str] = {
    ProviderAuthFailed: "refused the key or the account",
    ProviderBadRequest: "refused the request",
    ProviderRateLimited: "limits the rate of requests",
    ProviderOverloaded: "failed or is overloaded",
    ProviderTimeout: "timed out",
    ProviderProtocolError: "gave an unexpected answer",
    ProviderError: "reported an error",
}

_CREDENTIAL = re.compile(r"(?i)bearer\s+\S+|\b(?:sk|pk|key|gsk|xai)[-_][\w*.\-]{4,}")
_MODEL = re.compile(r"(?i)\bmodels?\b")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")


def _unanswered(error: ProviderError) -> ProviderError:
    error.unanswered = True
    return error


@dataclass(frozen=True, slots=True)
class Reported:
    """The error object of a provider's body or stream."""

    message: str
    kind: str | None = None
    code: str | int | None = None
    param: str = ""
    """The part of the request that the error is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Classifies the failures of one provider."""

    provider: str
    remedy_key: str
    """The remedy when the key is refused."""
    remedy_reach: str
    """The remedy when the provider does not answer."""
    secret: Secret | None = None
    address: str | None = None
    """The address, if the operator configured one: for the log only. Users do not learn how the server is run."""

    def status(self, status: int, body: bytes, headers: Mapping[str, str]) -> ProviderError:
        """An HTTP answer that is not a success."""
        reported = read_error(body)
        return self._build(_class_of(status, reported), f"HTTP {status}", reported, retry_after(headers))

    def reported(self, reported: Reported) -> ProviderError:
        """An error object inside a stream that had begun well."""
        status = reported.code if isinstance(reported.code, int) else None
        return self._build(_class_of(status, reported), "mid-stream", reported, None)

    def transport(self, error: httpx2.HTTPError) -> ProviderError:
        """Returns the error for a connection that failed, broke, or carried anything but an event stream."""
        self._note(error)
        failure = self._transport(error)
        # Another document came instead of an answer: it is not charged.
        return failure if isinstance(failure, ProviderProtocolError) else _unanswered(failure)

    def _transport(self, error: httpx2.HTTPError) -> ProviderError:
        match error:
            case httpx2.TimeoutException():
                return ProviderTimeout(f"{self.provider} did not answer in time; {self.remedy_reach}")
            case httpx2.SSEError() | httpx2.DecodingError():
                detail = self.redact(str(error))
                return ProviderProtocolError(f"{self.provider} did not send an event stream: {detail} {self.remedy_reach}")
            case httpx2.ConnectError():
                return ProviderUnreachable(f"{self.provider} could not be reached; {self.remedy_reach}")
            case _:
                return ProviderUnreachable(f"the connection to {self.provider} broke; try again")

    def unreachable(self, cause: BaseException | None) -> ProviderError:
        """The request engine gave up connecting."""
        if isinstance(cause, httpx2.HTTPError):
            return self.transport(cause)
        self._note(cause)
        return _unanswered(ProviderUnreachable(f"{self.provider} could not be reached; {self.remedy_reach}"))

    def _note(self, error: BaseException | None) -> None:
        """Logs without a tenant: a tenant may read its own log, and how the server is run is the operator's business."""
        about = {"provider": self.provider, "address": self.address, "error": type(error).__name__}
        logger.warning("provider_unreachable", tenant_id=None, **about)

    def timeout(self, seconds: float) -> ProviderError:
        """The call as a whole took too long."""
        text = f"{self.provider} did not finish within {seconds:g} s; ask for less or raise the timeout"
        return _unanswered(ProviderTimeout(text, waited=seconds))

    def silent(self, seconds: float) -> ProviderError:
        """Returns the error for a provider that was silent too long."""
        text = f"{self.provider} was silent for {seconds:g} s; try again, or raise defaults.timeout"
        return _unanswered(ProviderTimeout(text, waited=seconds))

    def protocol(self, problem: str) -> ProviderError:
        """The provider broke its own rules."""
        return ProviderProtocolError(f"{self.provider} gave an unexpected answer: {problem}")

    def too_large(self, part: str, most: int) -> ProviderError:
        """Returns the error for an answer, or a part of it, that is not read to its end."""
        return self.protocol(f"{part} of more than {most:,} bytes; ask for a shorter one")

    def bad_request(self, problem: str) -> ProviderError:
        """Returns the error for a prompt with a part that this provider cannot take."""
        return ProviderBadRequest(f"{self.provider} cannot be sent this: {problem}")

    def hide(self, content: bytes) -> bytes:
        """Returns an answer without the key, which some providers echo. One shorter than any key stays: it is part of words."""
        key = "" if self.secret is None else self.secret.reveal()
        return content.replace(key.encode(), b"***") if len(key) >= SECRET_CHARACTERS_MIN else content

    def redact(self, text: str) -> str:
        """The text, short, in one line and without credentials."""
        text = self.hide(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
        text = _CONTROL.sub(" ", _CREDENTIAL.sub("***", text)).strip()
        return text if len(text) <= _DETAIL_MAX else f"{text[:_DETAIL_MAX]}…"

    def _build(self, kind: type[ProviderError], where: str, reported: Reported, wait: float | None) -> ProviderError:
        did = _DID[kind]
        if kind is ProviderBadRequest and _overflows(reported):
            did = (
                "cannot take a conversation of this length: it exceeds the model's context window. Summarize older messages "
                "(compact), send less at once, begin a new conversation, or choose a model with a larger window"
            )
        text = f"{self.provider} {did} ({where})"
        if detail := self.redact(reported.message):
            text += f": {detail}"
        if kind is ProviderAuthFailed:
            text += f"; {self.remedy_key}"
        elif wait is not None:
            text += f"; try again in {wait:g} s"
        error = kind(text, retry_after=wait)
        if isinstance(error, ProviderBadRequest):
            error.provider_message, error.param = detail, self.redact(reported.param)
            error.reason = str(reported.code or reported.kind or "")
        return error


def _overflows(reported: Reported) -> bool:
    return bool(_OVERFLOW & {reported.kind, reported.code}) or _OVERFLOW_TEXT.search(reported.message) is not None


def _class_of(status: int | None, reported: Reported) -> type[ProviderError]:
    words = [word for word in (reported.code, reported.kind) if isinstance(word, str)]
    for word in words:
        if word in _BEYOND_STATUS:
            return _BY_KIND[word]
    if status == 403 and _MODEL.search(reported.message):
        return ProviderBadRequest
    if status is not None and status in _BY_STATUS:
        return _BY_STATUS[status]
    if status is None or status < 300:
        return next((_BY_KIND[word] for word in words if word in _BY_KIND), ProviderError)
    if status < 400:
        return ProviderProtocolError
    return ProviderBadRequest if status < 500 else ProviderOverloaded


def read_error(body: bytes) -> Reported:
    """Finds the error in any of the shapes providers use; a body that is not JSON says nothing fit to show."""
    try:
        return find_error(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Reported("")


def find_error(body: object) -> Reported:
    """The same, of decoded JSON: `{"error": {…}}`, `{"error": "…"}`, `{"message": …}` or `{"detail": …}`."""
    match body:
        case {"error": {**error}}:
            return _reported(error)
        case {"error": str(message)} | {"detail": str(message)} | str(message):
            return Reported(message)
        case {**error}:
            return _reported(error)
        case _:
            return Reported("")


def _reported(error: dict[object, object]) -> Reported:
    message, kind, code, param = error.get("message"), error.get("type"), error.get("code"), error.get("param")
    return Reported(
        message if isinstance(message, str) else "",
        kind if isinstance(kind, str) else None,
        code if isinstance(code, str | int) else None,
        param if isinstance(param, str) else "",
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Returns the seconds that the provider asks us to wait: milliseconds, seconds or a date, whichever it used."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            wait = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        return min(max(0.0, wait), YEAR_SECONDS) if math.isfinite(wait) else None
    try:
        at = email.utils.parsedate_to_datetime(headers.get("retry-after", "")).timestamp()
    except (ValueError, OverflowError):
        # Covers a year that no calendar has.
        return None
    return min(max(0.0, at - time.time()), YEAR_SECONDS)


async def refuse_long_waits(response: httpx2.Response) -> None:
    """A response hook for the SDKs' retry loops, which honour `x-should-retry`.

    The anthropic SDK obeys any Retry-After, up to 49 days, and the openai SDK up to two minutes: while it sleeps, the
    user sees nothing.
    """
    wait = retry_after(response.headers)
    if wait is not None and wait > RETRY_AFTER_MAX_SECONDS:
        response.headers["x-should-retry"] = "false"
