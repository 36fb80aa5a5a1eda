"""Reference — writes docs/events.json and .md, docs/commands.json and .md from the catalogue and the command table, and the
table of settings in docs/config.md and docs/config.schema.json from their declarations, and the generated modules of
clients/typescript.

    python -m docs.generate

What a type cannot say, docs/notes.py says; a test keeps both complete and the files current.
"""

import ast
import json
import re
from collections.abc import Iterable
from inspect import cleandoc
from pathlib import Path
from typing import Any

import msgspec
from docs.notes import EVENT_NOTES
from docs.typescript import render_client

from agentvm.config.catalogue import SETTINGS, expects, find, shown
from agentvm.config.load import VARIABLES
from agentvm.config.schema import config_schema
from agentvm.events import CATALOGUE, EventData, EventScope
from agentvm.events.message import MessageEvent
from agentvm.model import message
from agentvm.model.secret import Secret
from agentvm.model.setting import Setting
from agentvm.operations.table import ADDITIVE, BY_COMMAND, BY_REQUEST, COMMANDS
from agentvm.protocol.requests import Request
from agentvm.version import VERSION

Schema = dict[str, object]

DOCS = Path(__file__).parent
MARK = "<!-- Written by docs/generate.py; edit docs/notes.py or the types, then run it. -->"


def any_value(kind: type) -> Schema:
    """JSON Schema for `object`, which msgspec leaves to us: anything."""
    if kind is object:
        return {"description": "any JSON value"}
    raise NotImplementedError


def schema_of(kind: type) -> tuple[Schema, dict[str, Schema]]:
    """The kind's own schema, and those it refers to."""
    schema = msgspec.json.schema(kind, schema_hook=any_value)
    defs: dict[str, Schema] = schema["$defs"]
    return defs.pop(str(schema["$ref"]).rpartition("/")[2]), defs


def data_kind(kind: type[EventData]) -> type:
    """What an event's data is: its own members, or the message it tells of."""
    if not issubclass(kind, MessageEvent):
        return kind
    found: type = getattr(message, kind.__name__.removesuffix("Event"))
    return found


def events_json() -> str:
    events = {}
    for name, kind in sorted(CATALOGUE.items()):
        schema, defs = schema_of(data_kind(kind))
        bare = {key: value for key, value in schema.items() if key not in ("title", "description")}
        if defs:
            bare["$defs"] = {key: {k: v for k, v in value.items() if k != "description"} for key, value in defs.items()}
        events[name] = {
            "description": EVENT_NOTES[name],
            "source": kind.source,
            "category": kind.category,
            "intent": kind.intent,
            "data": bare,
        }
    context, _ = schema_of(EventScope)
    catalogue = {"agentvm": VERSION, "protocol": "AgentX 1.x", "context": context["properties"], "events": events}
    return json.dumps(catalogue, indent=2, ensure_ascii=False) + "\n"


def events_md() -> str:
    lines = [
        "# Events",
        "",
        MARK,
        "",
        f"Every kind of event a client can receive: {len(CATALOGUE)}. The same catalogue with a JSON Schema for each event's "
        "`data` is [events.json](events.json). The envelope, who receives what, and the order of events are in "
        "[protocol.md](protocol.md).",
        "",
        "A field marked `?` is optional.",
        "",
        "One frame is not in the catalogue, because it is not an event: `server_hello`, the first of each connection, whose "
        "`data` is empty. It detects whether the client supports [the reliable form](protocol.md#the-reliable-form).",
    ]
    for category in dict.fromkeys(kind.category for kind in sorted(CATALOGUE.values(), key=lambda kind: kind.category)):
        lines += ["", f"## {category}", "", "| type | source, intent | data | |", "|---|---|---|---|"]
        for name, kind in CATALOGUE.items():
            if kind.category == category:
                lines.append(f"| `{name}` | {kind.source}, {kind.intent} | {_data_text(kind)} | {EVENT_NOTES[name]} |")
    return "\n".join(lines) + "\n"


def commands_md() -> str:
    records: dict[str, Schema] = {}
    lines = [
        "# Commands",
        "",
        MARK,
        "",
        f"Every command: {len(COMMANDS)}. Send `<command>_request`; the reply is `<command>_response`. Frames, subscriptions "
        "and errors are in [protocol.md](protocol.md); [commands.json](commands.json) has a JSON Schema of "
        "each. Commands marked + are AgentVM's own; AgentX 1.x has the others.",
        "",
        "The `data` of a request also has a `requestId`, which the reply repeats. The `data` of a reply can have `error` and "
        "`errorCode`; its other fields may then be empty. Any command can fail with `invalid_input`; those marked + also for "
        "an unknown field of `data`, which the others ignore as 1.x does. A field marked `?` is optional.",
    ]
    for name, kind in COMMANDS.items():
        lines += ["", f"## {name}{' +' if name in ADDITIVE else ''}", "", _note(name)]
        lines += _command_tables(kind, records)
    for event in CATALOGUE.values():
        # Records that only events hold are linked to from their page.
        for record, schema in schema_of(event)[1].items():
            records.setdefault(record, schema)
    lines += ["", "## Records"]
    for record in sorted(records):
        lines += ["", f"### {record}", ""]
        if about := records[record].get("description"):
            # Python 3.13 removes the indentation of docstrings itself.
            lines += [_camel(cleandoc(str(about))), ""]
        lines += _table("field", _members(records[record]))
    return "\n".join(lines) + "\n"


def commands_json() -> str:
    """The commands with a JSON Schema of the `data` of each request and reply; records that they share are in `$defs`."""
    records: dict[str, Schema] = {}
    commands = {}
    for name, kind in sorted(COMMANDS.items()):
        schemas = {}
        for part, struct in (("request", kind), ("reply", BY_REQUEST[kind].reply)):
            schema, defs = schema_of(struct)
            schemas[part] = {key: value for key, value in schema.items() if key not in ("title", "description")}
            records.update((key, {k: v for k, v in value.items() if k != "description"}) for key, value in defs.items())
        needs = BY_COMMAND[name].needs
        commands[name] = {"description": _note(name), "needs": list(needs), "agentx": name not in ADDITIVE, **schemas}
    catalogue = {"agentvm": VERSION, "protocol": "AgentX 1.x", "commands": commands, "$defs": dict(sorted(records.items()))}
    return json.dumps(catalogue, indent=2, ensure_ascii=False) + "\n"


def _note(name: str) -> str:
    operation = BY_COMMAND[name]
    return f"{operation.summary} {operation.description}".strip()


def _command_tables(kind: type[Request[Any]], records: dict[str, Schema]) -> Iterable[str]:
    for title, struct in (("request", kind), ("reply", BY_REQUEST[kind].reply)):
        schema, defs = schema_of(struct)
        records.update(defs)
        rows = [row for row in _members(schema) if row[0] not in ("`error`?", "`errorCode`?")]
        if rows:
            yield ""
            yield from _table(title, rows)


def _table(title: str, rows: list[tuple[str, str]]) -> Iterable[str]:
    yield f"| {title} | |"
    yield "|---|---|"
    for member, kind in rows:
        yield f"| {member} | {kind} |"


def _members(schema: Schema) -> list[tuple[str, str]]:
    properties, required = schema["properties"], schema.get("required", [])
    assert isinstance(properties, dict)
    assert isinstance(required, list)
    rows = []
    for name, kind in properties.items():
        optional = name not in required
        rows.append((f"`{name}`{'?' if optional else ''}", _type_text(kind, nullable=not optional)))
    return rows


def _data_text(kind: type[EventData]) -> str:
    if issubclass(kind, MessageEvent):
        name = data_kind(kind).__name__
        return f"[{name}](commands.md#{name.lower()})"
    schema, _ = schema_of(kind)
    return "<br>".join(f"{name} {text}" for name, text in _members(schema)) or "empty"


def _type_text(schema: Schema, *, nullable: bool = True) -> str:
    """A type in a few words. For optional members null is not mentioned: they are absent instead."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return f"[{name}](commands.md#{name.lower()})"
    if "enum" in schema:
        values = schema["enum"]
        assert isinstance(values, list)
        return " or ".join(f"`{value}`" for value in values)
    if "anyOf" in schema:
        options = schema["anyOf"]
        assert isinstance(options, list)
        return " or ".join(_type_text(option) for option in options if nullable or option != {"type": "null"})
    if schema.get("type") == "array":
        items = schema["items"]
        assert isinstance(items, dict)
        text = _type_text(items)
        return f"list of ({text})" if " or " in text else f"list of {text}"
    return str(schema.get("type", "any JSON value"))


def _camel(text: str) -> str:
    """Docstrings name members as Python does; readers of the wire see them in camelCase."""
    return re.sub(r"`(\w+)`", lambda found: f"`{re.sub('_([a-z])', lambda part: part[1].upper(), found[1])}`", text)


def modules_md() -> str:
    """Every module with the first line of its docstring."""
    source = DOCS.parent / "src" / "agentvm"
    lines = ["# Modules", "", MARK, "", "Every module of `src/agentvm`, by folder, with the first line of its docstring."]
    folder = None
    for path in sorted(source.rglob("*.py"), key=lambda path: (path.parent.parts, path.name)):
        name = path.relative_to(source)
        if name.parent != folder:
            folder = name.parent
            heading = "agentvm" if folder == Path() else f"agentvm/{folder.as_posix()}"
            lines += ["", f"## {heading}", "", "| module | |", "|---|---|"]
        document = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        first = " ".join(document.partition("\n\n")[0].split()).replace("|", "\\|")
        lines.append(f"| `{name.name}` | {first} |")
    return "\n".join(lines) + "\n"


SETTINGS_BEGIN, SETTINGS_END = "<!-- settings: written by docs/generate.py -->\n", "<!-- end of settings -->\n"


def config_md() -> str:
    """The page about the configuration, with the tables of settings and of variables as they are declared."""
    page = (DOCS / "config.md").read_text(encoding="utf-8")
    header = ["| setting | default | must be | changes | tenants | |", "|---|---|---|---|---|---|"]
    page = _with_table(page, "settings", [*header, *map(_setting_row, SETTINGS.values())])
    rows = [f"| `{name}` | `{key}` | {setting.doc} |" for name, key in VARIABLES.items() if (setting := find(key)) is not None]
    return _with_table(page, "variables", ["| variable | setting | |", "|---|---|---|", *rows])


def _with_table(page: str, name: str, rows: list[str]) -> str:
    """The page with these rows between the marks of the table."""
    begin, end = f"<!-- {name}: written by docs/generate.py -->\n", f"<!-- end of {name} -->\n"
    before, _, rest = page.partition(begin)
    return before + begin + "\n" + "\n".join(rows) + "\n\n" + end + rest.partition(end)[2]


def _setting_row(setting: Setting) -> str:
    default = shown(setting, setting.default)
    value = (
        setting.declaration.unset or ""
        if default is None
        else f"`{default if isinstance(default, str) else json.dumps(default)}`"
    )
    applies = {"live": "at once", "restart": "restart", "boot": "never"}[setting.declaration.applies]
    tenants = {"no": "", "any": "yes", "lower": "lower"}[setting.declaration.tenant]
    secret = " Secret." if setting.is_secret else ""
    short = "".join(f" `{name}`" for name in (setting.declaration.variable, setting.declaration.shared_variable) if name)
    kind = "text" if setting.kind in (str, Secret) else expects(setting)
    return f"| `{setting.key}` | {value} | {kind} | {applies} | {tenants} | {setting.doc}{secret}{short} |"


def config_schema_json() -> str:
    return json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n"


def render() -> dict[str, str]:
    """The generated files, by name."""
    return {
        "events.json": events_json(),
        "events.md": events_md(),
        "commands.md": commands_md(),
        "commands.json": commands_json(),
        "modules.md": modules_md(),
        "config.md": config_md(),
        "config.schema.json": config_schema_json(),
        **{f"../clients/typescript/src/{name}": text for name, text in render_client().items()},
    }


if __name__ == "__main__":
    for file, text in render().items():
        (DOCS / file).write_text(text, encoding="utf-8")
