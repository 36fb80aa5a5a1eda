"""HTTP face — an operation as a route: fields from the path, the query and the body in, a JSON response out.

Derived from the operation's row. A query or body is decoded into a struct made of the request's own fields, so that a wrong
field is refused in the same words everywhere.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final, get_args
from urllib.parse import quote

import msgspec

from agentvm.errors import InvalidInput, NotFound, shorten
from agentvm.operations.http_reply import NO_CONTENT, HttpReply
from agentvm.operations.operation import Empty, Http, Operation
from agentvm.protocol.requests import Reply, Request, SubscribingReply

Json = dict[str, Any]

_OF_SOCKETS = {field.name for field in (*msgspec.structs.fields(Reply), *msgspec.structs.fields(SubscribingReply))}
_QUERY_NAMES = {"container_id": "container", "image_id": "image", "session_id": "session"}
"""A query names a thing by its noun."""


class NoFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A query or a body without fields."""


NULL: Final = msgspec.UNSET
"""The value of a field that a client sends as null; a field that is None is not sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCall:
    """An operation as a client requests it."""

    method: str
    path: str
    query: dict[str, str | int]
    body: Json | None
    """The JSON of the body; None if the request has none, or carries a file."""


class HttpFace:
    """The types of one operation over HTTP."""

    def __init__(self, operation: Operation, http: Http) -> None:
        self.operation, self.http = operation, http
        self.path_names: Sequence[str] = re.findall(r"\{(\w+)(?::path)?\}", http.path)

    @property
    def method(self) -> str:
        return self.http.method

    @property
    def path(self) -> str:
        return self.http.path.replace(":path}", "}")

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def id(self) -> str:
        """The `operationId`."""
        return self.http.id or f"{self.operation.group}_{self.operation.function.__name__}"

    @property
    def statuses(self) -> tuple[int, ...]:
        """The statuses of success."""
        return self.http.statuses or ((204,) if self.operation.reply is None else (self.http.status,))

    @property
    def has_body(self) -> bool:
        return self.method in ("POST", "PUT")

    @cached_property
    def query(self) -> type[msgspec.Struct]:
        """The struct of the query."""
        fields = [field for field in self._fields if not self.has_body or field.name in self.http.query]
        request = self.operation.request if fields else Empty
        return _part(request, f"{request.__name__}Query", tuple((field.name, self._query_name(field)) for field in fields))

    def _query_name(self, field: msgspec.structs.FieldInfo) -> str:
        return self.http.rename.get(field.name) or _QUERY_NAMES.get(field.name) or field.encode_name

    @cached_property
    def body(self) -> type[msgspec.Struct]:
        """The struct of a JSON body."""
        fields = [field for field in self._fields if self.has_body and field.name not in self.http.query]
        request = self.operation.request
        names = tuple((field.name, self.http.rename.get(field.name, field.encode_name)) for field in fields)
        return _part(request, self.http.names[0] or request.__name__, names)

    @cached_property
    def view(self) -> type[msgspec.Struct] | None:
        """The struct of a response that is made of a reply's fields; None where the response is the function's result
        itself."""
        reply = self.operation.reply
        if self.http.result is not None or not (isinstance(reply, type) and issubclass(reply, Reply)):
            return None
        renamed = {**self.http.rename, **({} if self.http.items is None else {self.http.items: "items"})}
        return _view(reply, self.http.names[1] or reply.__name__, tuple(renamed.items()))

    @property
    def content_type(self) -> Any:
        """The annotation of the response's content."""
        if self.view is not None:
            return self.view
        if self.http.result is None:
            return self.operation.reply
        field = next(field for field in msgspec.structs.fields(self.operation.reply) if field.name == self.http.result)
        return field.type

    @property
    def page_max(self) -> int | None:
        """The largest `limit`; None for an operation without pages."""
        types = {field.name: field.type for field in msgspec.structs.fields(self.query)}
        bounds = (meta.le for meta in get_args(types.get("limit")) if isinstance(meta, msgspec.Meta))
        return next((int(bound) for bound in bounds if bound is not None), None)

    def call(self, path: Sequence[str], fields: Mapping[str, Any]) -> HttpCall:
        """Returns the HTTP request with these values of the path, in order, and these fields of the operation's request."""
        values = {name: value for name, value in fields.items() if value is not None}
        query = {field.name: field.encode_name for field in msgspec.structs.fields(self.query)}
        body = {field.name: field.encode_name for field in msgspec.structs.fields(self.body)}
        names = zip(self.path_names, path, strict=True)
        if unknown := values.keys() - query.keys() - body.keys():
            raise TypeError(f"{self.operation.name} has no field {min(unknown)}")
        return HttpCall(
            method=self.method,
            path=self.path.format_map({name: self._escaped(name, value) for name, value in names}),
            query={query[name]: _as_query(value) for name, value in values.items() if name in query},
            body={body[name]: None if value is NULL else value for name, value in values.items() if name in body}
            if self.has_body and self.http.body == "json"
            else None,
        )

    def _escaped(self, name: str, value: str) -> str:
        """The value in a URL. One that takes the rest of the path has slashes, and nothing that would lead to another route."""
        if f"{{{name}:path}}" not in self.http.path:
            return quote(value, safe="")
        if not {".", ".."}.isdisjoint(value.split("/")):
            raise InvalidInput(f"{name} must not contain `.` or `..`: {shorten(value)}")
        return quote(value.strip("/"), safe="/")

    def request(self, path: Mapping[str, str], query: msgspec.Struct, body: msgspec.Struct | None) -> Request[Any]:
        fields: Json = {name: self._of_path(name, path[name]) for name in self.path_names if name in self._all_names}
        for part in (query, body):
            if part is not None:
                fields |= {name: getattr(part, name) for name in part.__struct_fields__}
        return self.operation.request(**fields)

    def _of_path(self, name: str, text: str) -> object:
        kind = self._numbers.get(name)
        if kind is None:
            return text
        try:
            return msgspec.convert(text, kind, strict=False)
        except msgspec.ValidationError:
            raise InvalidInput(f"{name} must be a whole number, not {shorten(text)}") from None

    @cached_property
    def _numbers(self) -> Mapping[str, Any]:
        """The type of each number in the path, with its bounds."""
        fields = msgspec.structs.fields(self.operation.request)
        return {field.name: field.type for field in fields if field.type is int or get_args(field.type)[:1] == (int,)}

    def reply(self, reply: object, path: Mapping[str, str]) -> HttpReply[object]:
        """The response made of the function's result."""
        content = None if reply is None else self.content(reply, path)
        if content is None:
            return NO_CONTENT
        return HttpReply(
            content=content, status=self.http.status if self.http.status_of is None else self.http.status_of(reply)
        )

    def content(self, reply: object, path: Mapping[str, str]) -> object:
        """The response's content, made of the function's result."""
        if self.http.result is not None:
            result = getattr(reply, self.http.result)
            if result is None and 204 not in self.http.statuses:
                missing = self.operation.raises[0] if self.operation.raises else NotFound
                raise missing("/".join(path.values()))
            return result
        if self.view is not None and isinstance(reply, Reply):
            return self.view(**{name: getattr(reply, name) for name in self.view.__struct_fields__})
        return reply

    @cached_property
    def _all_names(self) -> frozenset[str]:
        return frozenset(self.operation.request.__struct_fields__)

    @cached_property
    def _fields(self) -> list[msgspec.structs.FieldInfo]:
        """The fields that are not in the path, without those that only the server sets (`__ignored`)."""
        fields = msgspec.structs.fields(self.operation.request)
        return [field for field in fields if field.name not in self.path_names and not field.encode_name.startswith("__")]


def _as_query(value: str | int | bool) -> str | int:
    return ("true" if value else "false") if isinstance(value, bool) else value


@cache
def _part(request: type[Request[Any]], name: str, names: tuple[tuple[str, str], ...]) -> type[msgspec.Struct]:
    """The struct of these fields of a request. Cached: operations with the same query or body share its schema."""
    encoded = dict(names)
    fields = [field for field in msgspec.structs.fields(request) if field.name in encoded]
    return _struct(name, fields, encoded, request)


@cache
def _view(reply: type[Reply], name: str, renamed: tuple[tuple[str, str], ...]) -> type[msgspec.Struct]:
    """Cached: operations with the same reply share its schema."""
    fields = [field for field in msgspec.structs.fields(reply) if field.name not in _OF_SOCKETS]
    names = {field.name: dict(renamed).get(field.name, field.encode_name) for field in fields}
    return _struct(name, fields, names, reply, forbid=False)


def _struct(
    name: str,
    fields: Sequence[msgspec.structs.FieldInfo],
    names: Mapping[str, str],
    of: type,
    *,
    forbid: bool = True,
) -> type[msgspec.Struct]:
    if not fields:
        return NoFields

    def declared(field: msgspec.structs.FieldInfo) -> tuple[str, Any, Any]:
        declare: Any = msgspec.field
        # A default that is absent is NODEFAULT.
        default = declare(default=field.default, default_factory=field.default_factory, name=names[field.name])
        return field.name, field.type, default

    return msgspec.defstruct(
        name,
        [declared(field) for field in fields],
        module=of.__module__,
        # A request that hides a value when it is printed hides it here, too.
        namespace={name: vars(of)[name] for name in ("__doc__", "__repr__") if name in vars(of)},
        kw_only=True,
        frozen=True,
        omit_defaults=True,
        forbid_unknown_fields=forbid,
    )
