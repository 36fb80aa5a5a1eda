"""Document — reads a YAML file as a tree of texts that know their lines. Knows no setting.

Only what a configuration needs: one document of mappings, lists and scalars. Anchors, tags, keys that are no text, keys that
are given twice, and depths that no file has are refused. A scalar is its text, whatever YAML would take it for: `on`, `8080`
and `"8080"` become what their setting's type says.
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

MAX_BYTES = 262_144
MAX_DEPTH = 12

_NULLS = {"", "~", "null", "Null", "NULL"}


@dataclass(frozen=True, slots=True)
class Scalar:
    """`text` is None where the file says null, or nothing."""

    line: int
    text: str | None


@dataclass(frozen=True, slots=True)
class Items:
    line: int
    items: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Members:
    """`members` in the order of the file, each with the line of its key."""

    line: int
    members: "tuple[tuple[str, int, Node], ...]"


Node = Scalar | Items | Members


class Unreadable(ValueError):
    """What keeps a file from being read, and at which line."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.text = text


def read_bytes(path: Path) -> bytes:
    """The file, unless it is too large to be one. `OSError` when it cannot be read."""
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def parse(content: bytes) -> Members:
    """The tree of a document; an empty one has no members. `Unreadable` for anything else."""
    node = _root(content)
    if node is None or (isinstance(node, Scalar) and node.text is None):
        return Members(1, ())
    if not isinstance(node, Members):
        raise Unreadable(node.line, "a configuration begins with a name and a colon, like `llm:`")
    return node


def parse_value(text: str) -> object:
    """A list or an object that is written on one line, as JSON or as YAML writes it: of texts. `Unreadable` for others."""
    node = _root(text.encode("utf-8", "surrogatepass"))
    return None if node is None else _plain(node)


def _plain(node: Node) -> object:
    match node:
        case Scalar(text=text):
            return text
        case Items(items=items):
            return [_plain(item) for item in items]
        case Members(members=members):
            return {name: _plain(child) for name, _, child in members}


def _root(content: bytes) -> Node | None:
    if len(content) > MAX_BYTES:
        raise Unreadable(1, f"the file has more than {MAX_BYTES:,} bytes, too many for a configuration")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(content.count(b"\n", 0, error.start) + 1, "the file is not in UTF-8") from None
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
            raise Unreadable(line, "there is a tab; indent with spaces") from None
        raise Unreadable(line, f"this is not YAML: {error.problem or error.context}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise Unreadable(line, "there is a sign that YAML does not allow") from None
    except Unreadable:
        raise
    except (ValueError, OverflowError):
        # PyYAML takes an escape like "\UFFFFFFFF" for a letter.
        raise Unreadable(1, "there is an escape that means no letter") from None
    return node


def _checked(events: Iterator[Event]) -> Iterator[NodeEvent | MappingEndEvent | SequenceEndEvent]:
    depth = documents = 0
    for event in events:
        line = _line(event)
        if isinstance(event, DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise Unreadable(line, "there is a second document; a configuration is one")
        if isinstance(event, AliasEvent) or getattr(event, "anchor", None) is not None:
            raise Unreadable(line, "anchors and aliases (& and *) are not used here; write the value out, or quote it")
        if isinstance(event, NodeEvent) and getattr(event, "tag", None) is not None:
            raise Unreadable(line, "tags (!) are not used here; leave it away, or quote the value")
        if isinstance(event, MappingStartEvent | SequenceStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise Unreadable(line, "this is nested deeper than any setting")
        elif isinstance(event, MappingEndEvent | SequenceEndEvent):
            depth -= 1
        if isinstance(event, NodeEvent | MappingEndEvent | SequenceEndEvent):
            yield event


def _node(event: Event, events: Iterator[Event]) -> Node:
    line = _line(event)
    if isinstance(event, ScalarEvent):
        return Scalar(line, _text(event))
    if isinstance(event, SequenceStartEvent):
        items = []
        while not isinstance(following := next(events), SequenceEndEvent):
            items.append(_node(following, events))
        return Items(line, tuple(items))
    members: dict[str, tuple[str, int, Node]] = {}
    while not isinstance(following := next(events), MappingEndEvent):
        at = _line(following)
        name = _text(following) if isinstance(following, ScalarEvent) else None
        if name is None:
            raise Unreadable(at, "a name must be a text")
        if name in members:
            raise Unreadable(at, f"{name[:100]!r} is said twice; it was first in line {members[name][1]}")
        members[name] = (name, at, _node(next(events), events))
    return Members(line, tuple(members.values()))


def _line(event: Event) -> int:
    return 1 if event.start_mark is None else event.start_mark.line + 1


def _text(event: ScalarEvent) -> str | None:
    plain = event.style is None or event.style == ""
    return None if plain and event.value in _NULLS else event.value
