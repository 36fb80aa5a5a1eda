"""Prompts — texts with variables and with parts of other texts.

Values are the caller's arguments, else the defaults of the prompt's own schema. A text is inserted unchanged, any other value
as JSON; an inserted value is never read as a template again, so an argument cannot add anything but itself. An included prompt
sees the same arguments and its own defaults; its schema checks the arguments that it names, and no others.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

import msgspec

from agentvm.errors import shorten
from agentvm.errors.resource import PromptUnresolved, ResourceInvalid, ResourceTooLarge
from agentvm.model.resource import ResourceType, VersionId
from agentvm.resources.kind import Content, ContentType, JsonObject, RenderContext, check_json, check_reference, check_rendered
from agentvm.resources.schema import check_schema, misfits
from agentvm.resources.sections import section, section_names
from agentvm.resources.template import Include, TemplatePart, Variable, parse

PROMPT_TEXT_MAX = 1024 * 1024
INCLUDES_MAX = 10_000
PARTS_MAX = 100_000
"""Both in one rendering, however little each adds: prompts that include each other twice, sixteen levels deep, are many."""

_NOTHING = object()


class PromptContent(Content):
    """`variables` is the JSON Schema of the arguments, an object; `plain` is text without variables."""

    text: Annotated[str, msgspec.Meta(max_length=PROMPT_TEXT_MAX)]
    variables: JsonObject | None = None
    format: Literal["mustache-lite", "plain"] = "mustache-lite"


class Prompts:
    """Prompts. A fragment is a section of the text as written, before it is rendered."""

    type: ResourceType = "prompts"
    content: ContentType = PromptContent

    def check(self, content: PromptContent) -> None:
        if content.variables is not None:
            check_schema("variables", content.variables, of_object=True)
        if content.format != "plain" and len(parse(content.text)) > PARTS_MAX:
            raise ResourceInvalid(f"text has more than {PARTS_MAX} variables and pieces of text")
        for alias, uri in self.references(content).items():
            target = check_reference(alias, uri, "prompts", "knowledge", fragment=True)
            if target.type == "knowledge" and target.fragment is None:
                raise ResourceInvalid(f"{alias} must name a document: {shorten(uri)}#its-id")

    def references(self, content: PromptContent) -> Mapping[str, str]:
        if content.format == "plain":
            return {}
        uris = dict.fromkeys(part.uri for part in parse(content.text) if isinstance(part, Include))
        return {f"includes.{index}": uri for index, uri in enumerate(uris)}

    def text(self, content: PromptContent) -> str:
        return content.text

    def render(self, context: RenderContext) -> str:
        """`PromptUnresolved` names every variable of the whole tree that has no value."""
        check_json(context.args, "args")
        rendering = _Rendering()
        rendering.add(context)
        if rendering.unresolved:
            raise PromptUnresolved(context.uri, list(rendering.unresolved))
        return "".join(rendering.pieces)


@dataclass(frozen=True, slots=True)
class _Judged:
    """One prompt in a rendering: its text is parsed and its arguments are checked once, however often it is included."""

    content: PromptContent
    sections: dict[str | None, list[TemplatePart]] = field(default_factory=dict)


class _Rendering:
    """One prompt and all that it includes, in order, within common limits."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.unresolved: dict[str, None] = {}
        self._size = 0
        self._includes = 0
        self._parts_left = PARTS_MAX
        self._judged: dict[VersionId, _Judged] = {}
        self._documents: dict[tuple[VersionId, str | None], str] = {}

    def add(self, context: RenderContext) -> None:
        judged = self._judge(context)
        parts = self._parts(context, judged)
        self._parts_left -= len(parts)
        if self._parts_left < 0:
            raise ResourceTooLarge(f"{context.uri} is part of a prompt with more than {PARTS_MAX} variables and pieces of text")
        for part in parts:
            match part:
                case str():
                    self._add_text(context, part)
                case Include(uri):
                    self._include(context, uri)
                case Variable(name):
                    value = _value(part.path, context.args, judged.content.variables)
                    if value is _NOTHING:
                        self.unresolved[name] = None
                    else:
                        self._add_text(context, value if isinstance(value, str) else msgspec.json.encode(value).decode())

    def _include(self, context: RenderContext, uri: str) -> None:
        self._includes += 1
        if self._includes > INCLUDES_MAX:
            raise ResourceTooLarge(f"{context.uri} is part of a prompt that includes others more than {INCLUDES_MAX} times")
        inner = context.follow(uri)
        if inner.kind.type == "prompts":
            self.add(inner)
            return
        key = (inner.node.version.version_id, inner.fragment)
        if key not in self._documents:
            self._documents[key] = str(inner.render())
        self._add_text(context, self._documents[key])

    def _add_text(self, context: RenderContext, text: str) -> None:
        self._size += len(text) if text.isascii() else len(text.encode())
        check_rendered(context.uri, self._size)
        self.pieces.append(text)

    def _judge(self, context: RenderContext) -> _Judged:
        version_id = context.node.version.version_id
        judged = self._judged.get(version_id)
        if judged is None:
            judged = _Judged(context.content)
            if judged.content.variables is not None:
                self._judge_args(context, judged.content.variables, is_included=bool(self._judged))
            self._judged[version_id] = judged
        return judged

    def _judge_args(self, context: RenderContext, schema: Mapping[str, object], *, is_included: bool) -> None:
        named = schema.get("properties")
        properties = named if isinstance(named, Mapping) else {}
        args = {name: value for name, value in context.args.items() if name in properties or not is_included}
        defaults = {
            name: spec["default"] for name, spec in properties.items() if isinstance(spec, Mapping) and "default" in spec
        }
        wrong: dict[str, str] = {}
        for misfit in misfits("variables", schema, {**defaults, **args}):
            if misfit.missing is not None and not misfit.path:
                self.unresolved[misfit.missing] = None
            else:
                wrong.setdefault(str(misfit.path[0]) if misfit.path else "", str(misfit))
        if wrong:
            why = "; ".join(wrong.values())
            raise ResourceInvalid(f"The args do not fit {context.uri}: {why}", details={"args": wrong})

    def _parts(self, context: RenderContext, judged: _Judged) -> list[TemplatePart]:
        fragment = context.fragment
        if fragment not in judged.sections:
            text = judged.content.text if fragment is None else section(judged.content.text, fragment)
            if text is None:
                raise context.missing_fragment("section", section_names(judged.content.text))
            judged.sections[fragment] = [text] if judged.content.format == "plain" else parse(text)
        return judged.sections[fragment]


def declares(body: bytes) -> bool:
    """Whether a prompt says which variables it has."""
    return msgspec.json.decode(body, type=PromptContent).variables is not None


def variables(body: bytes) -> set[str]:
    """The names of the arguments that a prompt by itself has a use for."""
    content = msgspec.json.decode(body, type=PromptContent)
    declared = (content.variables or {}).get("properties")
    used = {part.path[0] for part in parse(content.text) if isinstance(part, Variable)} if content.format != "plain" else set()
    return used | (set(declared) if isinstance(declared, Mapping) else set())


def _value(path: list[str], args: Mapping[str, object], schema: object) -> object:
    value = _value_at(path, args)
    return _default(path, schema) if value is _NOTHING else value


def _value_at(path: list[str], value: object) -> object:
    for name in path:
        if not isinstance(value, Mapping) or name not in value:
            return _NOTHING
        value = value[name]
    return value


def _default(path: list[str], schema: object) -> object:
    """The innermost: a member's own default goes before that of the object around it."""
    default = _NOTHING
    for index in range(len(path) + 1):
        if not isinstance(schema, Mapping):
            break
        if "default" in schema and (nested := _value_at(path[index:], schema["default"])) is not _NOTHING:
            default = nested
        properties = schema.get("properties")
        schema = properties.get(path[index]) if index < len(path) and isinstance(properties, Mapping) else None
    return default
