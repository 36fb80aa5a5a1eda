"""OpenAPI — the management API as one document, made of the routes themselves.

Theory of operation. An operation declares its path, permissions, request type and statuses; the annotation of its function is
the type of its reply; msgspec knows the JSON Schema of both. So nothing is written twice, and a new operation is in the
document. The errors that every operation can have are listed here; an operation declares the others as `raises`.
"""

import inspect
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from http import HTTPStatus
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, UnsetType

from agentvm.errors import (
    AccessDenied,
    AgentVMError,
    InvalidInput,
    NotFound,
    PreconditionFailed,
    QuotaExceeded,
    Refused,
    Unauthenticated,
)
from agentvm.model.base import Record
from agentvm.operations.http_face import HttpFace
from agentvm.operations.http_reply import HttpReply, Streamed
from agentvm.server.errors import Failure, status_of
from agentvm.version import VERSION

Json = dict[str, Any]

ABOUT: Final = (
    "Tenants, their users and keys, quotas, usage and cost. Times are Unix milliseconds, money is in nano-USD. "
    "Fields that are not set are absent; unknown fields are refused."
)
JSON: Final = "application/json"

_REF = "#/components/schemas/"
_ALWAYS: tuple[type[AgentVMError], ...] = (
    InvalidInput, Unauthenticated, AccessDenied, QuotaExceeded, AgentVMError, Refused,
)  # fmt: skip
_BODILESS = frozenset({204, 304})
_REQUEST_ID: Json = {"X-Request-Id": {"$ref": "#/components/headers/RequestId"}}
_EXTRA_HEADERS: dict[int, Json] = {
    401: {"WWW-Authenticate": {"schema": {"type": "string"}}},
    429: {"Retry-After": {"description": "In seconds.", "schema": {"type": "integer"}}},
}


class Liveness(Record):
    status: str


class Health(Liveness):
    version: str


class ServedGateway(Record, omit_defaults=False):
    """A protocol of other clients that is served now, and the paths below which it is."""

    name: str
    prefixes: tuple[str, ...]


class AuthMethods(Record, omit_defaults=False):
    """How callers sign in, and which clients connect."""

    auth: Literal["on", "off"]
    methods: tuple[Literal["key", "oidc"], ...]
    version: str
    oidc: str | UnsetType = UNSET
    """The name of the identity provider."""
    gateways: tuple[ServedGateway, ...] = ()
    public_url: str | UnsetType = UNSET
    """The address that the operator has given to this server."""


def document(faces: Iterable[HttpFace]) -> Json:
    """Returns the OpenAPI 3.1 document of these operations and of the public routes, as plain data."""
    shown = [face for face in faces if not face.http.hidden]
    schemas = _Schemas([Failure, Liveness, Health, AuthMethods, *(kind for face in shown for kind in _kinds(face))])
    paths: Json = _public(schemas)
    failures: set[int] = set()
    for face in shown:
        statuses = sorted({status_of(kind) for kind in _errors(face)} | _of_bodies(face))
        failures.update(statuses)
        operation = _operation(face, schemas)
        operation["responses"] |= {str(status): {"$ref": f"#/components/responses/Error{status}"} for status in statuses}
        paths.setdefault(face.path, {})[face.method.lower()] = operation
    responses = {f"Error{status}": _failure(status, schemas) for status in sorted(failures)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "AgentVM", "version": VERSION, "description": ABOUT},
        "servers": [{"url": "/"}],
        "tags": [{"name": noun} for noun in dict.fromkeys(["server", *(face.operation.group for face in shown)])],
        "paths": paths,
        "components": {
            "schemas": schemas.used([paths, responses]),
            "responses": responses,
            "headers": {"RequestId": {"description": "Id of the request, in logs too.", "schema": {"type": "string"}}},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer", "description": "An API key: `avm_…`"}},
        },
        "security": [{"bearer": []}],
    }


_NAMED = {"resource_id": "An id, or a percent-encoded URI: `resource%3A%2F%2Fprompts%2Fname`."}
"""Descriptions of path parameters whose names are not enough."""


def readable(names: Iterable[str]) -> dict[str, str]:
    """Returns readable names of schemas: UserPage, User, KeyRequest. A schema whose name is taken keeps its own."""
    name_set, plain = set(names), dict[str, str]()
    for name in sorted(name_set):
        last = name.rpartition(".")[2]
        page = re.fullmatch(r"Page_(\w+)_", last)
        base = re.sub(r"(?<=\w)(View|Record)$", "", page[1] if page else last)
        short = f"{base}Page" if page else re.sub(r"(?<=\w)Given$", "Request", base)
        used = (name_set - {name}) | set(plain.values())
        plain[name] = next((candidate for candidate in (short, last) if candidate not in used), name)
    return plain


class _Schemas:
    """The schemas of types by name, and the references to them."""

    def __init__(self, kinds: Iterable[Any]) -> None:
        self._kinds = list(dict.fromkeys(kinds))
        refs, named = msgspec.json.schema_components(self._kinds, schema_hook=_anything, ref_template=_REF + "{name}")
        for schema in named.values():
            if "description" in schema:
                # The text of a docstring, with its indentation before Python 3.13.
                schema["description"] = inspect.cleandoc(schema["description"])
        text = msgspec.json.encode([refs, named]).decode()
        for name, plain in readable(named).items():
            text = text.replace(f'"{_REF}{name}"', f'"{_REF}{plain}"').replace(f'"{name}":', f'"{plain}":')
        self._refs, self.named = msgspec.json.decode(text)

    def of(self, kind: Any) -> Json:
        reference: Json = self._refs[self._kinds.index(kind)]
        return reference

    def members(self, kind: type[msgspec.Struct]) -> Iterator[tuple[str, Json, bool]]:
        """Yields the name and schema of each field, and whether it is required."""
        described = self.named[self.of(kind)["$ref"].removeprefix(_REF)]
        for name, schema in described["properties"].items():
            yield name, schema, name in described["required"]

    def used(self, document: object) -> Json:
        """Returns the schemas that a document refers to, which those of queries are not."""
        needed: dict[str, None] = {}
        waiting = [document]
        while waiting:
            text = msgspec.json.encode(waiting.pop()).decode()
            names = [name for name in re.findall(rf'"{_REF}([^"]+)"', text) if name not in needed]
            needed.update(dict.fromkeys(names))
            waiting += [self.named[name] for name in names]
        return {name: schema for name, schema in self.named.items() if name in needed}


def _operation(face: HttpFace, schemas: _Schemas) -> Json:
    row = face.operation
    operation: Json = {
        "operationId": face.id,
        "tags": [row.group],
        "summary": row.summary.removesuffix("."),
        "x-permissions": list(row.needs),
        "parameters": list(_parameters(face, schemas)),
        "responses": {str(status): _success(face, status, schemas) for status in face.statuses},
    }
    if row.description:
        operation["description"] = row.description
    if row.own:
        operation["x-own"] = True
    if face.http.body != "json":
        operation["requestBody"] = {"required": True, "content": {"application/octet-stream": {}}}
    elif face.has_body and (members := list(schemas.members(face.body))):
        content = {JSON: {"schema": schemas.of(face.body)}}
        operation["requestBody"] = {"required": any(needed for *_, needed in members), "content": content}
    return operation


def _parameters(face: HttpFace, schemas: _Schemas) -> Iterator[Json]:
    for name in face.path_names:
        named = {"description": _NAMED[name]} if name in _NAMED else {}
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}, **named}
    for name, schema, needed in schemas.members(face.query):
        yield {"name": name, "in": "query", "required": needed, "schema": _without_null(schema)}
    if face.operation.across:
        about = "Tenant (id or slug). Operators only; default: your own."
        yield {"name": "tenant", "in": "query", "required": False, "description": about, "schema": {"type": "string"}}
        if face.operation.discloses:
            about = "With `tenant`: why an operator reads it. It is entered in the audit log of that tenant."
            yield {"name": "reason", "in": "query", "required": False, "description": about, "schema": {"type": "string"}}
    if 304 in face.statuses:
        yield {"name": "If-None-Match", "in": "header", "required": False, "schema": {"type": "string"}}
    if PreconditionFailed in face.operation.raises:
        yield {"name": "If-Match", "in": "header", "required": False, "schema": {"type": "string"}}


def _success(face: HttpFace, status: int, schemas: _Schemas) -> Json:
    response: Json = {"description": HTTPStatus(status).phrase, "headers": _REQUEST_ID}
    if status in _BODILESS:
        return response
    kinds = [kind for kind in _given_back(face) if kind is not NoneType]
    refs = [schemas.of(kind) for kind in kinds if kind is not bytes]
    content: Json = {JSON: {"schema": refs[0] if len(refs) == 1 else {"anyOf": refs}}} if refs else {}
    if bytes in kinds:
        # Text has a schema; other bytes have none.
        content[face.http.media_type] = {"schema": {"type": "string"}} if face.http.media_type.startswith("text/") else {}
    return {**response, "content": content}


def _failure(status: int, schemas: _Schemas) -> Json:
    return {
        "description": HTTPStatus(status).phrase,
        "headers": _REQUEST_ID | _EXTRA_HEADERS.get(status, {}),
        "content": {JSON: {"schema": schemas.of(Failure)}},
    }


def _public(schemas: _Schemas) -> Json:
    def read(name: str, summary: str, content: Json, **others: Json) -> Json:
        response: Json = {"description": "OK", "headers": _REQUEST_ID, "content": content}
        responses = {"200": response, **{status[1:]: other for status, other in others.items()}}
        about: Json = {"operationId": name, "tags": ["server"], "summary": summary, "security": [], "x-permissions": []}
        return {"get": {**about, "parameters": [], "responses": responses}}

    status, health, methods = ({JSON: {"schema": schemas.of(kind)}} for kind in (Liveness, Health, AuthMethods))
    busy: Json = {"description": "No new work is accepted", "headers": _REQUEST_ID, "content": status}
    page: Json = {"text/html": {"schema": {"type": "string"}}}
    unchanged: Json = {"description": "Not Modified", "headers": _REQUEST_ID}
    return {
        "/health": read("server_health", "Check that the server is alive, and its version", health),
        "/ready": read("server_ready", "Check whether the server accepts new work", status, _503=busy),
        "/openapi.json": read("server_openapi", "This document", {JSON: {"schema": {"type": "object"}}}, _304=unchanged),
        "/v1/auth/methods": read("server_auth_methods", "Show how callers sign in", methods),
        "/docs": read("server_docs", "This document for people", page, _304=unchanged),
    }


def _given_back(face: HttpFace) -> list[Any]:
    """Returns the types in the annotation of its function's result; `NoneType` for none."""
    kinds = (kind for option in _either(face.content_type) for kind in _either(*_content(option)))
    # A stream is bytes to its reader.
    return list(dict.fromkeys(bytes if kind is Streamed or get_origin(kind) is AsyncIterator else kind for kind in kinds))


def _content(kind: Any) -> Sequence[Any]:
    return get_args(kind) if get_origin(kind) is HttpReply else (kind,)


def _either(*kinds: Any) -> Iterator[Any]:
    for kind in kinds:
        if get_origin(kind) in (Union, UnionType):
            yield from _either(*get_args(kind))
        else:
            yield kind


def _kinds(face: HttpFace) -> Iterator[Any]:
    """Yields every type that needs a schema."""
    yield face.query
    if face.has_body:
        yield face.body
    yield from (kind for kind in _given_back(face) if kind not in (NoneType, bytes))


def _errors(face: HttpFace) -> Iterator[type[AgentVMError]]:
    yield from _ALWAYS
    yield from face.operation.raises
    if face.operation.across or face.path_names:
        yield NotFound


def _of_bodies(face: HttpFace) -> set[int]:
    return {408, 413} if face.has_body else set()


def _without_null(schema: Json) -> Json:
    """Returns a schema without null: an unset query parameter is absent."""
    plain = {name: value for name, value in schema.items() if not (name == "default" and value is None)}
    kinds = [kind for kind in plain.get("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) != 1:
        return {**plain, "anyOf": kinds} if kinds else plain
    return {name: value for name, value in plain.items() if name != "anyOf"} | dict(kinds[0])


def _anything(kind: type) -> Json:
    """A schema hook of msgspec for types without a schema."""
    if kind is not object:
        raise TypeError(f"{kind} has no schema; describe its JSON")
    return {"description": "Any JSON."}
