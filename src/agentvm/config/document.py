"""Document — parses a YAML file into a tree of texts with line numbers. It knows no settings.

A configuration is one document of mappings, lists and scalars. Anchors, tags, keys that are not text, duplicate keys, and deep
nesting are refused. A scalar stays text, without YAML's own types: the type of the setting decides about `on`, `8080` and
`"8080"`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

DOCUMENT_BYTES_MAX = 262_144
DEPTH_MAX = 12

_NULLS = {"", "~", "null", "Null", "NULL"}


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """One value. `text` is None where the file has null, or nothing."""

    line: int
    text: str | None


@dataclass(frozen=True, slots=True)
class SequenceNode:
    """A list."""

    line: int
    items: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class MappingNode:
    """A mapping: its members in the order of the file, each with the line of its key."""

    line: int
    members: "tuple[tuple[str, int, Node], ...]"


Node = ScalarNode | SequenceNode | MappingNode


class DocumentError(ValueError):
    """A file that cannot be parsed, and the line of the error."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.text = text


def read_bytes(path: Path) -> bytes:
    """Returns the content of a file, at most one byte more than it may have. `OSError` when it cannot be read."""
    with path.open("rb") as file:
        return file.read(DOCUMENT_BYTES_MAX + 1)


def parse(content: bytes) -> MappingNode:
    """Returns the tree of a document; an empty one has no members. `DocumentError` for anything else."""
    node = _root(content)
    if node is None or (isinstance(node, ScalarNode) and node.text is None):
        return MappingNode(1, ())
    if not isinstance(node, MappingNode):
        raise DocumentError(node.line, "a configuration begins with a name and a colon, like `llm:`")
    return node


def parse_value(text: str) -> object:
    """Parses a list or an object of texts, in JSON or in YAML. `DocumentError` for anything else."""
    node = _root(text.encode("utf-8", "surrogatepass"))
    return None if node is None else _plain(node)


def _plain(node: Node) -> object:
    match node:
        case ScalarNode(text=text):
            return text
        case SequenceNode(items=items):
            return [_plain(item) for item in items]
        case MappingNode(members=members):
            return {name: _plain(child) for name, _, child in members}


def _root(content: bytes) -> Node | None:
    if len(content) > DOCUMENT_BYTES_MAX:
        raise DocumentError(1, f"the file has more than {DOCUMENT_BYTES_MAX:,} bytes, too many for a configuration")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DocumentError(content.count(b"\n", 0, error.start) + 1, "the file is not in UTF-8") from None
    try:
        events = _checked(yaml.parse(text, Loader=yaml.SafeLoader))
        node = next((_node(event, events) for event in events), None)
        # Also what follows must be readable, and there must be no second document.
        for _ in events:
            pass
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        if "\\t" in str(error.problem):
            # PyYAML speaks of a character that cannot start any token.
            raise DocumentError(line, "there is a tab; indent with spaces") from None
        raise DocumentError(line, f"this is not YAML: {error.problem or error.context}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise DocumentError(line, "there is a character that YAML does not allow") from None
    except DocumentError:
        raise
    except (ValueError, OverflowError):
        # PyYAML accepts an escape like "\UFFFFFFFF" as a character.
        raise DocumentError(1, "an escape sequence is not a valid character") from None
    return node


def _checked(events: Iterator[Event]) -> Iterator[NodeEvent | MappingEndEvent | SequenceEndEvent]:
    depth = documents = 0
    for event in events:
        line = _line(event)
        if isinstance(event, DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise DocumentError(line, "there is a second document; a configuration is one")
        if isinstance(event, AliasEvent) or getattr(event, "anchor", None) is not None:
            raise DocumentError(line, "anchors and aliases (& and *) are not used here; write the value out, or quote it")
        if isinstance(event, NodeEvent) and getattr(event, "tag", None) is not None:
            raise DocumentError(line, "tags (!) are not used here; leave it out, or quote the value")
        if isinstance(event, MappingStartEvent | SequenceStartEvent):
            depth += 1
            if depth > DEPTH_MAX:
                raise DocumentError(line, "this is nested deeper than any setting")
        elif isinstance(event, MappingEndEvent | SequenceEndEvent):
            depth -= 1
        if isinstance(event, NodeEvent | MappingEndEvent | SequenceEndEvent):
            yield event


def _node(event: Event, events: Iterator[Event]) -> Node:
    line = _line(event)
    if isinstance(event, ScalarEvent):
        return ScalarNode(line, _text(event))
    if isinstance(event, SequenceStartEvent):
        items = []
        while not isinstance(following := next(events), SequenceEndEvent):
            items.append(_node(following, events))
        return SequenceNode(line, tuple(items))
    members: dict[str, tuple[str, int, Node]] = {}
    while not isinstance(following := next(events), MappingEndEvent):
        at = _line(following)
        name = _text(following) if isinstance(following, ScalarEvent) else None
        if name is None:
            raise DocumentError(at, "a name must be a text")
        if name in members:
            raise DocumentError(at, f"{name[:100]!r} is set twice, first in line {members[name][1]}")
        members[name] = (name, at, _node(next(events), events))
    return MappingNode(line, tuple(members.values()))


def _line(event: Event) -> int:
    return 1 if event.start_mark is None else event.start_mark.line + 1


def _text(event: ScalarEvent) -> str | None:
    plain = event.style is None or event.style == ""
    return None if plain and event.value in _NULLS else event.value
