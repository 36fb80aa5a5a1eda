"""HTTP tools — a call is one request to one literal host.

The model chooses values, never the host, a header's name or a further segment of the path. An argument stands in the path, in
`query` or in `headers` where the author put it; the others form the body, or the query of a GET. Secrets are read by name for
each call, sent to the host of the entry only, and redacted from its response.
"""

import re
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from typing import NamedTuple

import msgspec

from agentvm.drivers.base import ToolSpec
from agentvm.errors import ToolFailed, shorten
from agentvm.errors.resource import ResourceInvalid
from agentvm.errors.tool import SecretNotGranted
from agentvm.model.long_json import folded, read_json, unfolded
from agentvm.model.public_address import parse_host
from agentvm.model.secret import Secret
from agentvm.model.secret_grant import SecretUse
from agentvm.resources.tool import HttpRequestParts
from agentvm.resources.tool_entry import arguments_of, fill, parse_http, secrets_of
from agentvm.sharing.large_work import go_through
from agentvm.tools.base import (
    IMAGE_MAX_BYTES,
    CallContext,
    CallResult,
    CallTraits,
    ResultFile,
    ResultImage,
    TraitsOfTool,
    error_result,
    plain_text,
    text_result,
)
from agentvm.tools.redaction import Redaction
from agentvm.tools.safe_http import Fetched, Outgoing, SafeHttp, parse_url

ERROR_BODY_MAX = 2_000
_NO_BODY = frozenset({"GET", "HEAD"})
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_RESERVED = re.compile(
    r"(?i)host|content-length|transfer-encoding|connection|keep-alive|upgrade|te|trailer|expect|accept-encoding|proxy-.*|idempotency-key"
)
_PORTS = {"https": 443, "http": 80}
_parse_entry = lru_cache(maxsize=1024)(parse_http)
_JSON = re.compile(r"(?i)application/(?:[\w.+-]+\+)?json")
_TEXT = re.compile(r"(?i)text/.*|application/(?:xml|javascript|yaml|[\w.+-]+\+xml)")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpTool(TraitsOfTool):
    """A tool of the runtime `http`."""

    spec: ToolSpec
    entry: str
    parts: HttpRequestParts
    traits: CallTraits
    http: SafeHttp

    def __post_init__(self) -> None:
        address = parse_http(self.entry).address
        if parse_host(address.host.removeprefix("[").removesuffix("]")) is None:
            raise ResourceInvalid(f"entry: {shorten(address.host)!r} is not a host")
        if address.scheme != "https" and not self.http.allows_plain(parse_url(address.origin)):
            raise ResourceInvalid("entry: a tool uses https; plain http only to an address that the operator allows")
        for name in self.parts.headers or {}:
            if not _HEADER_NAME.fullmatch(name) or _RESERVED.fullmatch(name):
                raise ResourceInvalid(f"http.headers: {shorten(name)!r} cannot be set by a tool")

    async def run(self, input: Mapping[str, object], context: CallContext) -> CallResult:
        """Makes the request. The result is the picked part of a JSON response, a text, an image or a file."""
        granted = await self._granted(context)
        request = self.request(input, granted, context.key)
        fetched = await self.http.send(request, owner=context.caller.tenant_id, timeout_seconds=self.timeout_seconds)
        return await go_through(context.caller.tenant_id, len(fetched.body), partial(self._read, request, fetched, granted))

    def _read(self, request: Outgoing, fetched: Fetched, granted: Mapping[str, Secret]) -> CallResult:
        """Returns the result that a response holds."""
        # Before anything is cut off: a half of a secret would not be recognised.
        fetched = Fetched(fetched.status, fetched.url, fetched.headers, Redaction(granted).clean(fetched.body))
        if not any(fnmatchcase(str(fetched.status), pattern.replace("x", "?")) for pattern in self.parts.ok):
            body = plain_text(fetched.text[:ERROR_BODY_MAX])
            return error_result(f"{request.url.host} answered with status {fetched.status}: {body}")
        return self._result(fetched)

    async def _granted(self, context: CallContext) -> dict[str, Secret]:
        """Returns the secrets of the request, each granted for every place in which it stands."""
        address = _parse_entry(self.entry).address
        host, port = address.host.removeprefix("[").removesuffix("]"), address.port or _PORTS[address.scheme]
        granted: dict[str, Secret] = {}
        places: tuple[tuple[SecretUse, Mapping[str, str] | None], ...] = (
            ("query", self.parts.query),
            ("header", self.parts.headers),
        )
        for use, templates in places:
            for name in dict.fromkeys(name for template in (templates or {}).values() for name in secrets_of(template)):
                if context.secrets is None:
                    raise SecretNotGranted(name, self.spec.name, use, host)
                granted[name] = await context.secrets.for_host(name, use, host, port)
        return granted

    def request(self, input: Mapping[str, object], granted: Mapping[str, Secret], key: str) -> Outgoing:
        """Returns the request of a call; the same for the same input, secrets and key."""
        entry = _parse_entry(self.entry)
        used = set(entry.arguments)
        query = list(_filled(self.parts.query or {}, input, granted, used))
        headers = list(_filled(self.parts.headers or {}, input, granted, used))
        rest = {name: value for name, value in input.items() if name not in used}
        content, content_type = self._body(entry.method, rest)
        if entry.method in _NO_BODY:
            query += [_Filled(name, text, False) for name, value in rest.items() for text in _texts(value)]
        url = parse_url(entry.address.origin + _path(entry.address.path, input))
        if query:
            # The query may hold a secret; the texts of errors name the host alone.
            url = url.copy_merge_params([(name, text) for name, text, _ in query])
        plain = [(name, _header(name, text)) for name, text, secret in headers if not secret]
        if content_type is not None and not any(name.lower() == "content-type" for name, *_ in headers):
            plain.append(("Content-Type", content_type))
        if self.repeat == "keyed":
            plain.append(("Idempotency-Key", key))
        return Outgoing(
            method=entry.method,
            url=url,
            headers=tuple(plain),
            has_secrets=bool(granted),
            secret_headers=tuple((name, _header(name, text)) for name, text, secret in headers if secret),
            content=content,
        )

    def _body(self, method: str, rest: Mapping[str, object]) -> tuple[bytes, str | None]:
        if method in _NO_BODY or (self.parts.body == "none" and not rest) or (method == "DELETE" and not rest):
            return b"", None
        if self.parts.body == "none":
            raise ToolFailed(f"{self.spec.name} takes no {', '.join(map(repr, rest))}")
        if self.parts.body == "form":
            pairs = [(name, text) for name, value in rest.items() for text in _texts(value)]
            return urllib.parse.urlencode(pairs).encode(), "application/x-www-form-urlencoded"
        return msgspec.json.encode(rest), "application/json"

    def _result(self, fetched: Fetched) -> CallResult:
        media_type = fetched.media_type
        if _JSON.fullmatch(media_type) or self.parts.pick is not None:
            return self._picked(fetched)
        if not fetched.body or not media_type or _TEXT.fullmatch(media_type):
            return text_result(fetched.text)
        if media_type.startswith("image/") and len(fetched.body) <= IMAGE_MAX_BYTES:
            return CallResult(type="content", parts=(ResultImage(data=fetched.body, media_type=media_type),))
        return CallResult(type="content", parts=(ResultFile(data=fetched.body, media_type=media_type),))

    def _picked(self, fetched: Fetched) -> CallResult:
        try:
            value = read_json(fetched.body)
        except ValueError:
            quoted = plain_text(fetched.text[:ERROR_BODY_MAX])
            return error_result(f"{self.spec.name} expected JSON, and got: {quoted}")
        if not self.parts.pick:
            return CallResult(type="json", value=value)
        try:
            return CallResult(type="json", value=folded(pointed(unfolded(value), self.parts.pick)))
        except LookupError:
            quoted = plain_text(fetched.text[:ERROR_BODY_MAX])
            return error_result(f"The response has nothing at {shorten(self.parts.pick)}: {quoted}")
        except ValueError as error:
            raise ToolFailed(f"{self.spec.name} answered with JSON that cannot be read: {error}") from None


class _Filled(NamedTuple):
    name: str
    text: str
    secret: bool


def _filled(
    templates: Mapping[str, str], input: Mapping[str, object], granted: Mapping[str, Secret], used: set[str]
) -> Iterator[_Filled]:
    """Yields the pairs of `query` or `headers`. A parameter without an argument is left out; a list adds several."""
    for name, template in templates.items():
        arguments = tuple(arguments_of(template))
        used.update(arguments)
        if any(argument not in input for argument in arguments):
            continue
        secrets = tuple(secrets_of(template))
        for secret in secrets:
            template = template.replace(f"${{secret:{secret}}}", granted[secret].reveal())
        if secrets:
            # A revealed value may hold braces of its own.
            yield _Filled(name, template, True)
        elif len(arguments) == 1 and template == f"{{{arguments[0]}}}":
            yield from (_Filled(name, text, False) for text in _texts(input[arguments[0]]))
        else:
            yield _Filled(name, fill(template, {argument: _text(input[argument]) for argument in arguments}), False)


def _path(template: str, input: Mapping[str, object]) -> str:
    """Fills the path: an argument is (a part of) one segment, with any characters."""
    segments = []
    for segment in template.split("/"):
        arguments = tuple(arguments_of(segment))
        if missing := next((argument for argument in arguments if argument not in input), None):
            raise ToolFailed(f"{missing!r} is missing; the address needs it")
        values = {argument: urllib.parse.quote(_text(input[argument]), safe="") for argument in arguments}
        filled = fill(segment, values) if values else segment
        if arguments and filled in ("", ".", ".."):
            raise ToolFailed(f"{', '.join(map(repr, arguments))} cannot be empty, . or ..: it is a part of the address")
        segments.append(filled)
    return "/".join(segments)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, list | tuple):
        yield from map(_text, value)
    else:
        yield _text(value)


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _header(name: str, text: str) -> str:
    if not text.isascii() or any(character < " " or character == "\x7f" for character in text):
        raise ToolFailed(f"The header {name} may hold printable ASCII only")
    return text


def pointed(value: object, pointer: str) -> object:
    """Returns the part of a JSON value at a JSON pointer; raises `LookupError`."""
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping):
            value = value[name]
        elif isinstance(value, list | tuple) and name.isascii() and name.isdigit() and len(name) < 10:
            value = value[int(name)]
        else:
            raise LookupError(name)
    return value
