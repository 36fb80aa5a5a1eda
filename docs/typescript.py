"""TypeScript — the types and the verbs of the TypeScript client, written from the operation table and the catalogue of events.

A record that only the server writes has every member that it always sends; one that clients send may leave out what has a
default.
"""

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from importlib import import_module
from pkgutil import iter_modules
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
import msgspec.inspect as mi
from docs.notes import EVENT_NOTES

from agentvm import errors
from agentvm.events import CATALOGUE, EventScope
from agentvm.events.message import MessageEvent
from agentvm.model import message
from agentvm.operations.http_face import HttpFace, NoFields
from agentvm.operations.http_reply import HttpReply, Streamed
from agentvm.operations.operation import Operation
from agentvm.operations.table import OPERATIONS

MARK = "// Written by docs/typescript.py from the operation table. Do not edit: run python -m docs.generate.\n"

_PLAIN: dict[Any, str] = {
    mi.StrType: "string",
    mi.IntType: "number",
    mi.FloatType: "number",
    mi.BoolType: "boolean",
    mi.NoneType: "null",
    mi.AnyType: "unknown",
    mi.RawType: "unknown",
    mi.CustomType: "unknown",
    mi.BytesType: "string",
}
_OF_SOCKETS = ("error", "errorCode", "requestId")
"""Members of every reply, which the client reads itself."""


def camel(name: str) -> str:
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), name.rstrip("_"))


def routes() -> list[tuple[Operation, HttpFace]]:
    """The operations over HTTP. A second route of the same operation is left out, and so is what documents leave out."""
    faces = [(row, HttpFace(row, row.http)) for row in OPERATIONS if row.http is not None and not row.http.hidden]
    return [(row, face) for row, face in faces if not face.id.endswith("_called")]


class Writer:
    """Writes types, and remembers the records that they refer to."""

    def __init__(self) -> None:
        self._sent: set[Any] = set()
        self._records: dict[str, mi.StructType] = {}

    def accept(self, kind: Any) -> None:
        """Notes the records that clients send."""
        self._note(mi.type_info(kind))

    def _note(self, info: Any) -> None:
        if isinstance(info, mi.StructType):
            if info.cls in self._sent:
                return
            self._sent.add(info.cls)
            children: Iterable[Any] = [field.type for field in info.fields]
        else:
            children = [getattr(info, name) for name in ("item_type", "key_type", "value_type") if hasattr(info, name)]
            children = [*children, *getattr(info, "types", ()), *getattr(info, "item_types", ())]
        for child in children:
            self._note(child)

    def of(self, kind: Any) -> str:
        return self._text(mi.type_info(kind))

    def members(self, kind: Any, *, leaving_out: Sequence[str] = (), is_sent: bool = False) -> str:
        """The members of a struct, as an object type."""
        info = mi.type_info(kind)
        assert isinstance(info, mi.StructType)
        parts = [part for name, part in self._members(info, is_sent) if name not in leaving_out and not name.startswith("__")]
        return f"{{ {'; '.join(parts)} }}" if parts else "{}"

    def records(self) -> Iterator[str]:
        """Declares every record that was referred to."""
        written: set[str] = set()
        while waiting := sorted(set(self._records) - written):
            for name in waiting:
                written.add(name)
                info = self._records[name]
                about = (getattr(info.cls, "__doc__", None) or "").strip().partition("\n")[0]
                lines = [f"/** {_member_names(about)} */"] if about and "*/" not in about else []
                lines += [f"export interface {name} {{", *(f"  {part};" for _, part in self._members(info)), "}"]
                yield "\n".join(lines)

    def _members(self, info: mi.StructType, is_sent: bool | None = None) -> Iterator[tuple[str, str]]:
        if info.tag_field is not None:
            yield info.tag_field, f'{info.tag_field}: "{info.tag}"'
        sent = info.cls in self._sent if is_sent is None else is_sent
        omits = (get_origin(info.cls) or info.cls).__struct_config__.omit_defaults
        for field in info.fields:
            options = list(_options(field.type))
            if not sent and not field.required:
                # An optional member that the server has no value for is absent.
                options = [option for option in options if not isinstance(option, mi.NoneType)]
            may_lack = not field.required and (sent or omits)
            text = " | ".join(dict.fromkeys(self._text(option) for option in options)) or "null"
            name = field.encode_name if field.encode_name.isidentifier() else f'"{field.encode_name}"'
            yield field.encode_name, f"{name}{'?' if may_lack else ''}: {text}"

    def _text(self, info: Any) -> str:
        match info:
            case mi.StructType():
                name = _name(info.cls)
                known = self._records.setdefault(name, info)
                assert known.cls == info.cls, f"two records are called {name}"
                return name
            case mi.UnionType():
                return " | ".join(dict.fromkeys(map(self._text, info.types)))
            case mi.LiteralType():
                return " | ".join(f'"{value}"' if isinstance(value, str) else str(value).lower() for value in info.values)
            case mi.VarTupleType() | mi.ListType() | mi.SetType() | mi.FrozenSetType() | mi.CollectionType():
                item = self._text(info.item_type)
                return f"({item})[]" if " | " in item else f"{item}[]"
            case mi.TupleType():
                return f"[{', '.join(map(self._text, info.item_types))}]"
            case mi.DictType():
                return f"Record<string, {self._text(info.value_type)}>"
            case _:
                return _PLAIN[type(info)]


def _options(info: Any) -> Iterator[Any]:
    yield from info.types if isinstance(info, mi.UnionType) else (info,)


def _name(kind: Any) -> str:
    """`Page[KeyView]` is a KeyViewPage."""
    bare: str = (get_origin(kind) or kind).__name__
    return "".join(map(_name, get_args(kind))) + bare


def _member_names(text: str) -> str:
    return re.sub(r"`(\w+)`", lambda found: f"`{camel(found[1])}`", text)


def _contents(kind: Any) -> list[Any]:
    """The types of the contents that a function's annotation names; bytes for streams."""
    if get_origin(kind) in (Union, UnionType, HttpReply):
        return [content for part in get_args(kind) for content in _contents(part)]
    return [bytes if kind is Streamed or get_origin(kind) is AsyncIterator else kind]


def _about(row: Operation) -> str:
    return f"/** {_member_names(f'{row.summary} {row.description}'.strip())} */"


def _verbs(title: str, about: str, rows: Iterable[tuple[str, Operation, str]]) -> Iterator[str]:
    """An interface with a member for each noun, which has a member for each verb."""
    nouns: dict[str, list[str]] = {}
    for name, row, signature in rows:
        noun, _, verb = name.partition(".")
        nouns.setdefault(camel(noun), []).append(f"    {_about(row)}\n    {camel(verb)}{signature};")
    lines = [f"/** {about} */", f"export interface {title} {{"]
    for noun, verbs in nouns.items():
        lines += [f"  {noun}: {{", *verbs, "  };"]
    yield "\n".join([*lines, "}"])


class Typescript:
    """The generated modules of the client."""

    def __init__(self) -> None:
        self._writer = Writer()
        self._commands = [row for row in OPERATIONS if row.command is not None]
        self._routes = routes()
        for row in self._commands:
            self._writer.accept(row.request)
        for _, face in self._routes:
            self._writer.accept(face.query)
            self._writer.accept(face.body)

    def types(self) -> str:
        parts = [
            MARK,
            *self._tables(),
            *_verbs("CommandVerbs", "Every command of the socket, by noun.", self._command_verbs()),
            *_verbs("HttpVerbs", "Every operation of the management API, by noun.", self._http_verbs()),
            _union("ErrorCode", "The codes of errors.", _codes()),
        ]
        return "\n\n".join([*parts, *self._writer.records()]) + "\n"

    def _tables(self) -> Iterator[str]:
        context = self._writer.members(EventScope)
        yield f"/** Where an event happened. */\nexport type Scope = {context};"
        lines = ["/** The data of every event, by its type. */", "export interface Events {"]
        for name, kind in sorted(CATALOGUE.items()):
            lines += [f"  /** {EVENT_NOTES[name]} */", f"  {name}: {self._event(kind)};"]
        yield "\n".join([*lines, "}"])
        lines = ["/** The data of every command and of its reply, by name. */", "export interface Commands {"]
        for row in self._commands:
            request = self._writer.members(row.request, leaving_out=_OF_SOCKETS, is_sent=True)
            reply = self._writer.members(row.reply, leaving_out=_OF_SOCKETS)
            lines += [f"  {_about(row)}", f"  {row.command}: {{ request: {request}; reply: {reply} }};"]
        yield "\n".join([*lines, "}"])
        lines = [
            "/** The fields and the content of every operation over HTTP, by name. */",
            "export interface HttpOperations {",
        ]
        for row, face in self._routes:
            lines += [f"  {_about(row)}", f'  "{row.name}": {{ request: {self._fields(face)}; reply: {self._content(face)} }};']
        yield "\n".join([*lines, "}"])

    def _event(self, kind: Any) -> str:
        if issubclass(kind, MessageEvent):
            return self._writer.of(getattr(message, kind.__name__.removesuffix("Event")))
        return self._writer.members(kind)

    def _fields(self, face: HttpFace) -> str:
        in_path = [camel(name) for name in face.path_names]
        parts = [f"{name}: string" for name in in_path]
        for part in (face.query, face.body):
            if part is not NoFields:
                text = self._writer.members(part, leaving_out=in_path, is_sent=True)
                parts += [text[2:-2]] if text != "{}" else []
        return f"{{ {'; '.join(parts)} }}" if parts else "{}"

    def _content(self, face: HttpFace) -> str:
        plain = {bytes: "Response", None: "undefined", NoneType: "undefined"}
        texts = [plain[kind] if kind in plain else self._writer.of(kind) for kind in _contents(face.content_type)]
        # Without a value it is the 404 of the error table, unless 204 is one of its statuses.
        optional = len(texts) > 1 and 204 not in face.statuses and 304 not in face.statuses
        return " | ".join(dict.fromkeys(text for text in texts if not (optional and text == "undefined")))

    def _command_verbs(self) -> Iterator[tuple[str, Operation, str]]:
        for row in self._commands:
            noun, _, verb = str(row.command).partition("_")
            optional = "?" if _all_optional(row.request) else ""
            of = f'Commands["{row.command}"]'
            yield f"{noun}.{verb}", row, f'(request{optional}: {of}["request"]): Promise<{of}["reply"]>'

    def _http_verbs(self) -> Iterator[tuple[str, Operation, str]]:
        for row, face in self._routes:
            optional = "?" if _all_optional(face.query) and _all_optional(face.body) and not face.path_names else ""
            of = f'HttpOperations["{row.name}"]'
            yield row.name, row, f'(request{optional}: {of}["request"], options?: CallOptions): Promise<{of}["reply"]>'

    def operations(self) -> str:
        """The table that the client finds routes in."""
        lines = [
            MARK,
            "/** A route. `query` names the fields of a POST or PUT that are not in its body. */",
            "export interface Route {",
            "  method: string;",
            "  path: string;",
            "  query?: readonly string[];",
            "  /** Whether the content is bytes or a stream, whatever its type, or may be. */",
            '  bytes?: "always" | "sometimes";',
            "}",
            "",
            "export const ROUTES: Readonly<Record<string, Route>> = {",
        ]
        for row, face in self._routes:
            assert row.http is not None
            path = re.sub(r"\{(\w+)(:path)?\}", lambda found: f"{{{camel(found[1])}{'*' if found[2] else ''}}}", row.http.path)
            query = [field.encode_name for field in msgspec.structs.fields(face.query)] if face.has_body else []
            named = f", query: {msgspec.json.encode(query).decode()}" if query else ""
            kinds = {kind for kind in _contents(face.content_type) if kind not in (None, NoneType)}
            raw = "" if bytes not in kinds else f', bytes: "{"always" if kinds == {bytes} else "sometimes"}"'
            lines.append(f'  "{row.name}": {{ method: "{face.method}", path: "{path}"{named}{raw} }},')
        return "\n".join([*lines, "};"]) + "\n"


def _all_optional(struct: type[msgspec.Struct]) -> bool:
    return not any(field.required for field in msgspec.structs.fields(struct))


def _codes() -> list[str]:
    """The codes of all errors. Their modules are loaded by whoever raises them, so that some may not be yet."""
    for module in iter_modules(errors.__path__):
        import_module(f"{errors.__name__}.{module.name}")
    return sorted(errors.BY_CODE)


def _union(name: str, about: str, values: Sequence[str]) -> str:
    return f"/** {about} */\nexport type {name} =\n" + "\n".join(f'  | "{value}"' for value in values) + ";"


def render_client() -> dict[str, str]:
    """The generated modules of the client, by name."""
    typescript = Typescript()
    types = typescript.types()
    return {
        "types.ts": types.replace(MARK, f'{MARK}\nimport type {{ CallOptions }} from "./api.ts";\n', 1),
        "operations.ts": typescript.operations(),
    }
