"""File — a YAML file as a layer. Everything that is wrong with it is told at once, with line, key and remedy.

`${NAME}` in a value stands for an environment variable, `${NAME:-text}` for one that may be missing, `$${` for `${` itself.
They are put in after the file was read, so whatever a variable holds is a value and never YAML.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from agentvm.config.catalogue import Setting, Unfit, convert, find, is_group, quoted, unknown
from agentvm.config.document import Items, Members, Node, Scalar, Unreadable, parse, read_bytes
from agentvm.config.layers import Given, Layer
from agentvm.errors import ConfigInvalid, shorten

_REFERENCE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-((?:(?!\$\{)[^}])*))?\}|\$\{")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. `place` is `file:line`, a variable or a flag, or empty."""

    place: str
    key: str
    text: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.place, self.key, self.text) if part)


class _Wrong(Exception):
    """A value that cannot be had."""


def read_file(path: Path, environ: Mapping[str, str]) -> tuple[Layer, list[Problem]]:
    """What the file says, and what is wrong with it."""
    try:
        return read_text(read_bytes(path), str(path), environ)
    except OSError as error:
        return Layer("file"), [Problem(str(path), "", f"cannot be read: {error.strerror}")]


def read_text(content: bytes, name: str, environ: Mapping[str, str]) -> tuple[Layer, list[Problem]]:
    try:
        root = parse(content)
    except Unreadable as error:
        return Layer("file"), [Problem(f"{name}:{error.line}", "", error.text)]
    given: dict[str, Given] = {}
    problems: list[Problem] = []
    for key, line, found in _walk(root, "", environ):
        place = f"{name}:{line}"
        if isinstance(found, str):
            problems.append(Problem(place, shorten(key), found))
            continue
        setting, value = found
        if key in given:
            problems.append(Problem(place, key, f"it is said twice; it was first at {given[key].place}"))
            continue
        try:
            given[key] = Given(convert(setting, value, text=True), place)
        except Unfit as error:
            problems.append(Problem(place, key, f"it is {quoted(setting, value)}; {error}"))
    return Layer("file", given), problems


def refuse(problems: list[Problem]) -> None:
    """`ConfigInvalid` with all of them, if there are any."""
    if len(problems) == 1:
        raise ConfigInvalid(str(problems[0]))
    if problems:
        raise ConfigInvalid(f"{len(problems)} settings cannot be used:\n" + "\n".join(f"  {one}" for one in problems))


def _walk(node: Members, prefix: str, environ: Mapping[str, str]) -> Iterator[tuple[str, int, str | tuple[Setting, object]]]:
    """Each key with its line, and its setting and value, or what is wrong with it."""
    for name, line, child in node.members:
        key = prefix + name
        setting = find(key) if "*" not in key else None
        if setting is not None:
            try:
                value = _value(child, environ, line)
            except _Wrong as error:
                yield key, line, str(error)
                continue
            if value is not None:
                yield key, line, (setting, value)
        elif not is_group(key):
            yield key, line, unknown(key)
        elif isinstance(child, Members):
            yield from _walk(child, f"{key}.", environ)
        elif not (isinstance(child, Scalar) and child.text is None):
            yield key, line, "it holds settings, each on a line of its own below it"


def _value(node: Node, environ: Mapping[str, str], line: int) -> object:
    """What a node means: texts with their variables put in. None where nothing is said."""
    match node:
        case Scalar(text=text):
            found = None if text is None else substitute(text, environ)
            # `${NAME:-}` of a variable that is not set says nothing, as the variable itself would.
            return None if found == "" and text else found
        case Items(items=items):
            return [_value(item, environ, line) for item in items]
        case Members(members=members):
            return {name: _value(child, environ, line) for name, _, child in members}


def substitute(text: str, environ: Mapping[str, str]) -> str:
    """With each variable in its place. An empty one counts as unset, as everywhere."""

    def put(found: re.Match[str]) -> str:
        if found.group() == "$${":
            return "${"
        name, otherwise = found[1], found[2]
        if name is None:
            raise _Wrong(
                "after ${ there must be the name of a variable and }, or :- and a text without a further ${; "
                "write $${ for ${ itself"
            )
        value = environ.get(name) or otherwise
        if value is None:
            raise _Wrong(
                f"the environment variable {shorten(name)} is not set; set it, or write ${{{shorten(name)}:-a default}}"
            )
        return value

    return _REFERENCE.sub(put, text)
