"""Front matter — the YAML at the head of a `SKILL.md`: the name and the description of a skill, and a few facts more.

Only texts, one mapping of texts and one list of texts are possible, so a few lines can never stand for a lot.
"""

import re
from collections.abc import Callable

from agentvm.errors import shorten
from agentvm.errors.resource import ResourceInvalid
from agentvm.model.base import Record

HEAD_MAX = 16 * 1024
"""Characters of the front matter."""
NESTING_MAX = 8
"""Levels of lists and mappings, more than any field has. The time to read YAML grows with the square of its levels."""
NAME_MAX = 64
DESCRIPTION_MAX = 1_024
LICENSE_MAX = 1_024
COMPATIBILITY_MAX = 500
METADATA_MAX = 100
ALLOWED_TOOLS_MAX = 100
TOOL_PATTERN_MAX = 200

_HEAD = re.compile(r"\ufeff?---[ \t]*\r?\n(?P<head>.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_TOOL = re.compile(r"(?:[^\s,()]|\([^()]*\))+")


class FrontMatter(Record):
    """The facts about a skill, as its author wrote them."""

    name: str
    description: str
    license: str | None = None
    compatibility: str | None = None
    metadata: dict[str, str] | None = None
    allowed_tools: tuple[str, ...] | None = None
    """The only tools that a model is told to use with the skill; all of its own if unset."""


def read_front_matter(text: str) -> FrontMatter:
    """Returns the front matter of a `SKILL.md`; `ResourceInvalid` names the field and the fault."""
    head = _HEAD.match(text)
    if head is None:
        raise ResourceInvalid("SKILL.md must begin with --- , then name: and description:, then --- again")
    if len(head["head"]) > HEAD_MAX:
        raise ResourceInvalid(f"The front matter of SKILL.md has more than {HEAD_MAX} characters")
    fields = _fields(head["head"])
    if unknown := sorted(fields.keys() - _READERS.keys()):
        raise ResourceInvalid(
            f"SKILL.md: there is no field {shorten(unknown[0])!r} of skills; facts of your own belong under metadata:"
        )
    for name in ("name", "description"):
        if name not in fields:
            raise ResourceInvalid(f"SKILL.md has no {name}: in its front matter")
    values = {name.replace("-", "_"): _READERS[name](name, value) for name, value in fields.items()}
    return FrontMatter(**values)  # type: ignore[arg-type]


def check_skill_name(name: str) -> None:
    """Refuses a name that no skill can have; shorter and simpler than those of other resources."""
    if len(name) > NAME_MAX or _NAME.fullmatch(name) is None:
        raise ResourceInvalid(
            f"SKILL.md, name: {shorten(name)!r} is not the name of a skill: 1 to {NAME_MAX} of a-z, 0-9 and single hyphens, "
            "none at an end"
        )


def _fields(head: str) -> dict[str, object]:
    """The values by name: texts, lists and mappings. Nothing is converted, so `on` and `1.0` stay texts."""
    # Clients load the types of resources too, and have no use for YAML.
    import yaml  # noqa: PLC0415

    def plain(node: yaml.Node) -> object:
        if isinstance(node, yaml.SequenceNode):
            return [plain(item) for item in node.value]
        if not isinstance(node, yaml.MappingNode):
            return str(node.value)
        members: dict[str, object] = {}
        for key, value in node.value:
            name = _scalar("SKILL.md: a name", plain(key))
            if name in members:
                raise ResourceInvalid(f"SKILL.md has {shorten(name)!r} twice")
            members[name] = plain(value)
        return members

    try:
        level = 0
        for event in yaml.parse(head, Loader=yaml.BaseLoader):
            level += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if level > NESTING_MAX:
                raise ResourceInvalid(f"The front matter of SKILL.md is nested more than {NESTING_MAX} levels deep")
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
                raise ResourceInvalid("SKILL.md: anchors and aliases (& and *) are not used in front matter; quote the value")
        root = yaml.compose(head, Loader=yaml.BaseLoader)
        fields = None if root is None else plain(root)
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise ResourceInvalid(f"The front matter of SKILL.md is not YAML: {shorten(str(problem))}") from None
    if not isinstance(fields, dict):
        raise ResourceInvalid("The front matter of SKILL.md must be fields such as name: and description:")
    return fields


def _scalar(where: str, value: object) -> str:
    if not isinstance(value, str):
        raise ResourceInvalid(f"{where} must be a text")
    text = value.strip()
    if any(letter < " " and letter not in "\n\t" for letter in text):
        raise ResourceInvalid(f"{where} has control characters")
    return text


def _text(most: int) -> Callable[[str, object], str]:
    def read(name: str, value: object) -> str:
        text = _scalar(f"SKILL.md, {name}:", value)
        if not 0 < len(text) <= most:
            raise ResourceInvalid(f"SKILL.md, {name}: must have 1 to {most} characters, not {len(text)}")
        return text

    return read


def _name_text(name: str, value: object) -> str:
    text = _scalar(f"SKILL.md, {name}:", value)
    check_skill_name(text)
    return text


def _metadata(name: str, value: object) -> dict[str, str]:
    where = f"SKILL.md, {name}:"
    if not isinstance(value, dict):
        raise ResourceInvalid(f"{where} must be names with a text each")
    if len(value) > METADATA_MAX:
        raise ResourceInvalid(f"{where} has more than {METADATA_MAX} members")
    return {key: _scalar(f"{where} {shorten(key)}", member) for key, member in value.items()}


def _allowed_tools(name: str, value: object) -> tuple[str, ...]:
    """A list, or a text with spaces or commas between the tools; those within parentheses belong to a tool."""
    where = f"SKILL.md, {name}:"
    if isinstance(value, list):
        tools = [_scalar(where, item) for item in value]
    else:
        text = _scalar(where, value)
        tools = _TOOL.findall(text)
        if _TOOL.sub("", text).strip(" \t\n,"):
            raise ResourceInvalid(f"{where} has a parenthesis without its other half")
    if len(tools) > ALLOWED_TOOLS_MAX:
        raise ResourceInvalid(f"{where} names more than {ALLOWED_TOOLS_MAX} tools")
    for tool in tools:
        if not 0 < len(tool) <= TOOL_PATTERN_MAX or not tool.isprintable():
            raise ResourceInvalid(f"{where} {shorten(tool)!r} is not the name of a tool")
    return tuple(dict.fromkeys(tools))


_READERS: dict[str, Callable[[str, object], object]] = {
    "name": _name_text,
    "description": _text(DESCRIPTION_MAX),
    "license": _text(LICENSE_MAX),
    "compatibility": _text(COMPATIBILITY_MAX),
    "metadata": _metadata,
    "allowed-tools": _allowed_tools,
}
