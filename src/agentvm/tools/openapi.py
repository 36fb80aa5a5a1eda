"""OpenAPI — the operations of a document as HTTP tools, when a set of tools is published.

The document is a stranger's. It is JSON of a bounded size, refers only into itself, and all that it describes lies on one host,
which it names literally. An operation that cannot be expressed as an HTTP tool is left out with the reason. Nothing is fetched.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

import msgspec

from agentvm.errors import shorten
from agentvm.errors.resource import ResourceInvalid, ResourceTooLarge
from agentvm.model.tool import Effect
from agentvm.resources.kind import check_json
from agentvm.resources.schema import check_schema
from agentvm.resources.tool import HttpRequestParts, ToolContent
from agentvm.resources.tool_entry import WebAddress, parse_address, parse_http
from agentvm.tools.mcp.listing import clean
from agentvm.tools.openapi_schema import References, converted

DOCUMENT_MAX_BYTES = 4 * 1024 * 1024
OPERATIONS_MAX = 200
_EFFECTS: Mapping[str, Effect] = {"get": "read", "head": "read", "delete": "destructive"}
BodyKind = Literal["json", "form", "none"]
_METHODS = ("get", "head", "post", "put", "patch", "delete")
_ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_HEADERS_OF_THE_REQUEST = frozenset({"accept", "content-type", "authorization"})
"""Headers that OpenAPI itself tells readers to ignore."""


@dataclass(frozen=True, slots=True)
class OpenApiTools:
    """The tools of a document by name, and the operations that were left out, with the reason."""

    tools: dict[str, ToolContent] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


class _Unsupported(ValueError):
    """Says why an operation cannot be an HTTP tool."""


class _RequestBody(NamedTuple):
    kind: BodyKind
    properties: dict[str, object]
    required: list[str]


class _Operation(NamedTuple):
    method: str
    path: str
    item: Mapping[str, object]
    operation: Mapping[str, object]

    @property
    def name(self) -> str:
        name = self.operation.get("operationId")
        return name if isinstance(name, str) and name else f"{self.method}_{self.path.strip('/')}"

    @property
    def label(self) -> str:
        return f"{self.method.upper()} {self.path}"


def read_openapi(
    body: bytes,
    *,
    select: Sequence[str] = (),
    source: WebAddress | None = None,
    http: HttpRequestParts | None = None,
    secrets: Sequence[str] = (),
) -> OpenApiTools:
    """Reads a document. `select` has patterns of operation ids or of `METHOD /path`; `source` is the document's own address,
    for servers that are given relative to it; `http` adds headers and a query to every tool, with the named `secrets`."""
    document = _document(body)
    origin = _origin(document, source)
    result = OpenApiTools()
    for operation in _operations(document):
        if not _selected(operation, select):
            continue
        if len(result.tools) + len(result.left_out) >= OPERATIONS_MAX:
            raise ResourceInvalid(f"The document has more than {OPERATIONS_MAX} operations; select fewer")
        name = clean(shorten(operation.name))
        try:
            if name in result.tools or name in result.left_out:
                raise _Unsupported("another operation has the same id")
            result.tools[name] = _Tool(document, operation, http or HttpRequestParts()).content(origin, tuple(secrets))
        except (_Unsupported, ResourceInvalid, ResourceTooLarge) as error:
            result.left_out[f"{name} ({operation.label})" if name in result.tools else name] = str(error)
    if select and not result.tools and not result.left_out:
        raise ResourceInvalid("select matches no operation of the document")
    return result


def _document(body: bytes) -> Mapping[str, object]:
    if len(body) > DOCUMENT_MAX_BYTES:
        raise ResourceTooLarge(f"The document has {len(body)} bytes, and may have {DOCUMENT_MAX_BYTES}")
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ResourceInvalid("The document is not JSON; a document in YAML has to be converted first") from None
    check_json(document, "The document")
    if not isinstance(document, Mapping) or not isinstance(document.get("paths"), Mapping):
        raise ResourceInvalid("The document has no paths, so it is not OpenAPI")
    version = str(document.get("openapi", document.get("swagger", "")))
    if not version.startswith("3."):
        raise ResourceInvalid(f"The document is OpenAPI {shorten(version) or 'of no version'}; 3.0 and later are supported")
    return document


def _origin(document: Mapping[str, object], source: WebAddress | None) -> str:
    """Returns the one address below which all operations lie."""
    urls = {_server(server, source) for server in _servers(document)} or {_server("/", source)}
    for operation in _operations(document):
        urls |= {_server(server, source) for part in (operation.item, operation.operation) for server in _servers(part)}
    if len(urls) > 1:
        raise ResourceInvalid(
            f"The document names several servers ({', '.join(sorted(urls)[:3])}); a set of tools has one host"
        )
    return urls.pop()


def _servers(part: Mapping[str, object]) -> Iterator[str]:
    servers = part.get("servers")
    for server in servers if isinstance(servers, list) else ():
        url = server.get("url") if isinstance(server, Mapping) else None
        yield url if isinstance(url, str) else ""


def _server(url: str, source: WebAddress | None) -> str:
    if "{" in url:
        raise ResourceInvalid("The server of the document has variables; a set of tools has one literal host")
    if url.startswith("/"):
        if source is None:
            raise ResourceInvalid("The document does not say on which host its server is")
        url = source.origin + url
    address = parse_address(url)
    return address.origin + address.path.rstrip("/")


def _operations(document: Mapping[str, object]) -> Iterator[_Operation]:
    paths = document["paths"]
    assert isinstance(paths, Mapping)
    for path, item in paths.items():
        if not path.startswith("/") or not isinstance(item, Mapping):
            continue
        for method in _METHODS:
            operation = item.get(method)
            if isinstance(operation, Mapping):
                yield _Operation(method, path, item, operation)


def _selected(operation: _Operation, select: Sequence[str]) -> bool:
    names = (operation.name, operation.label)
    return not select or any(fnmatchcase(name, pattern) for name in names for pattern in select)


class _Tool:
    """Builds the tool of one operation."""

    def __init__(self, document: Mapping[str, object], operation: _Operation, http: HttpRequestParts) -> None:
        self._operation, self._http = operation, http
        self._references = References(document)
        self._properties: dict[str, object] = {}
        self._required: list[str] = []
        self._query: dict[str, str] = {}
        self._headers: dict[str, str] = {}
        self._path = operation.path

    def content(self, origin: str, secrets: tuple[str, ...]) -> ToolContent:
        body = self._body()
        for parameter in self._parameters():
            self._add(parameter, names=set(body.properties))
        if (left := re.search(r"[{}]", re.sub(r"\{[A-Za-z_][A-Za-z0-9_-]{0,63}\}", "", self._path))) is not None:
            raise _Unsupported(f"the path has a {left[0]} that belongs to no parameter")
        missing = [name for name in parse_http(f"GET https://x{self._path}").arguments if name not in self._properties]
        if missing:
            raise _Unsupported(f"the path has {missing[0]!r}, which is not a parameter")
        schema: dict[str, object] = {"type": "object", "properties": {**self._properties, **body.properties}}
        if required := [*self._required, *body.required]:
            schema["required"] = required
        if definitions := self._references.definitions():
            schema["$defs"] = definitions
        check_schema("inputSchema", schema, of_object=True)
        method = self._operation.method
        return ToolContent(
            description=self._description(),
            input_schema=schema,
            runtime="http",
            secrets=secrets,
            entry=f"{method.upper()} {origin}{self._path}",
            effect=_EFFECTS.get(method, "write"),
            http=HttpRequestParts(
                query={**self._query, **(self._http.query or {})} or None,
                headers={**self._headers, **(self._http.headers or {})} or None,
                body=body.kind,
                pick=self._http.pick,
                ok=self._http.ok,
            ),
        )

    def _description(self) -> str:
        texts = (self._operation.operation.get("summary"), self._operation.operation.get("description"))
        return clean("\n\n".join(text for text in texts if isinstance(text, str) and text)) or self._operation.label

    def _parameters(self) -> Iterator[Mapping[str, object]]:
        """Yields the parameters of the operation, and those of its path that it does not repeat."""
        merged: dict[tuple[object, object], Mapping[str, object]] = {}
        for part in (self._operation.item, self._operation.operation):
            parameters = part.get("parameters")
            for parameter in parameters if isinstance(parameters, list) else ():
                resolved = self._references.follow(parameter)
                merged[str(resolved.get("in")), str(resolved.get("name"))] = resolved
        yield from merged.values()

    def _add(self, parameter: Mapping[str, object], names: set[str]) -> None:
        name, where = str(parameter.get("name")), parameter.get("in")
        needed = parameter.get("required") is True or where == "path"
        if where not in ("path", "query", "header") or not self._is_plain(parameter):
            if needed:
                raise _Unsupported(f"the parameter {shorten(name)!r} stands or is written in a way that is not supported")
            return
        if where == "header" and name.lower() in _HEADERS_OF_THE_REQUEST:
            return
        argument = self._argument(name, str(where), names)
        text = parameter.get("description")
        described = {"description": clean(text)} if isinstance(text, str) and text else {}
        self._properties[argument] = {**described, **converted(parameter["schema"], self._references)}
        self._required += [argument] if needed else []
        if where == "path":
            if f"{{{name}}}" not in self._path:
                raise _Unsupported(f"the parameter {shorten(name)!r} is not in the path")
            self._path = self._path.replace(f"{{{name}}}", f"{{{argument}}}")
        else:
            (self._query if where == "query" else self._headers)[name] = f"{{{argument}}}"

    def _is_plain(self, parameter: Mapping[str, object]) -> bool:
        """Whether a value is written as HTTP tools write it: as it is, and a list as several."""
        if parameter.get("schema") is None or parameter.get("style") not in (None, "form", "simple"):
            return False
        several = self._references.follow(parameter["schema"]).get("type") not in ("string", "integer", "number", "boolean")
        return not several or (parameter.get("in") == "query" and parameter.get("explode") is not False)

    def _argument(self, name: str, where: str, names: set[str]) -> str:
        """Returns the name of the argument: the parameter's, unless it has odd characters or is in use."""
        argument = name if _ARGUMENT.fullmatch(name) else re.sub(r"[^A-Za-z0-9_-]", "_", f"p_{name}")[:64]
        if argument in names or argument in self._properties:
            argument = f"{where}_{argument}"[:64]
        if argument in names or argument in self._properties:
            raise _Unsupported(f"two parameters are named {shorten(name)!r}")
        return argument

    def _body(self) -> _RequestBody:
        body = self._operation.operation.get("requestBody")
        if body is None:
            return _RequestBody("none" if self._operation.method in ("post", "put", "patch") else "json", {}, [])
        content = self._references.follow(body).get("content")
        media = content if isinstance(content, Mapping) else {}
        for media_type, kind in (("application/json", "json"), ("application/x-www-form-urlencoded", "form")):
            part = media.get(media_type)
            if isinstance(part, Mapping):
                return self._members(part.get("schema"), "json" if kind == "json" else "form")
        raise _Unsupported(f"its body is {', '.join(map(shorten, media)) or 'not described'}; JSON and forms are supported")

    def _members(self, schema: object, kind: BodyKind) -> _RequestBody:
        whole = converted(self._references.follow(schema), self._references)
        properties = whole.get("properties")
        if not isinstance(properties, Mapping) or not set(whole) <= {"type", "properties", "required", "description", "title"}:
            raise _Unsupported("its body is not a plain object, whose members could be arguments")
        if wrong := next((name for name in properties if not name or len(name) > 200), None):
            raise _Unsupported(f"its body has a member {shorten(wrong)!r}")
        required = whole.get("required")
        return _RequestBody(kind, dict(properties), [str(name) for name in required] if isinstance(required, list) else [])
