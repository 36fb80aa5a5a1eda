"""File — a YAML file as a layer. All its errors are reported at once, with line, key and remedy.

`${NAME}` in a value stands for an environment variable, `${NAME:-text}` for one that may be missing, `$${` for `${` itself.
They are replaced after the file was parsed, so the content of a variable is a value and never YAML.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from agentvm.config.catalogue import InvalidValue, convert, describe_error, find, is_group, unknown
from agentvm.config.document import DocumentError, MappingNode, Node, ScalarNode, SequenceNode, parse, read_bytes
from agentvm.config.layers import Layer, SettingValue
from agentvm.errors import ConfigInvalid, shorten
from agentvm.model.setting import Setting

_REFERENCE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-((?:(?!\$\{)[^}])*))?\}|\$\{")


@dataclass(frozen=True, slots=True)
class Problem:
    """One error. `place` is `file:line`, a variable or a flag, or empty."""

    place: str
    key: str
    text: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.place, self.key, self.text) if part)


class _SubstitutionError(Exception):
    """A variable that cannot be put in."""


def read_file(path: Path, environ: Mapping[str, str]) -> tuple[Layer, list[Problem]]:
    """The values of a file, and its errors."""
    try:
        return read_text(read_bytes(path), str(path), environ)
    except OSError as error:
        return Layer("file"), [Problem(str(path), "", f"cannot be read: {error.strerror}")]


def read_text(content: bytes, name: str, environ: Mapping[str, str]) -> tuple[Layer, list[Problem]]:
    """The values of a file's content, and its errors; `name` is the file's in their places."""
    try:
        root = parse(content)
    except DocumentError as error:
        return Layer("file"), [Problem(f"{name}:{error.line}", "", error.text)]
    values: dict[str, SettingValue] = {}
    problems: list[Problem] = []
    for key, line, entry in _walk(root, "", environ):
        place = f"{name}:{line}"
        if isinstance(entry, str):
            problems.append(Problem(place, shorten(key), entry))
            continue
        setting, value = entry
        if key in values:
            problems.append(Problem(place, key, f"it is set twice, first at {values[key].place}"))
            continue
        try:
            values[key] = SettingValue(convert(setting, value, text=True), place)
        except InvalidValue as error:
            problems.append(Problem(place, key, describe_error(setting, value, error)))
    return Layer("file", values), problems


def refuse(problems: list[Problem]) -> None:
    """Raises `ConfigInvalid` with all of them, if there are any."""
    if len(problems) == 1:
        raise ConfigInvalid(str(problems[0]))
    if problems:
        lines = "\n".join(f"  {problem}" for problem in problems)
        raise ConfigInvalid(f"{len(problems)} settings cannot be used:\n{lines}")


def _walk(
    node: MappingNode, prefix: str, environ: Mapping[str, str]
) -> Iterator[tuple[str, int, str | tuple[Setting, object]]]:
    """Yields each key with its line, and its setting and value, or an error message."""
    for name, line, child in node.members:
        key = prefix + name
        setting = find(key) if "*" not in key else None
        if setting is not None:
            try:
                value = _value(child, environ)
            except _SubstitutionError as error:
                yield key, line, str(error)
                continue
            if value is not None:
                yield key, line, (setting, value)
        elif not is_group(key):
            yield key, line, unknown(key)
        elif isinstance(child, MappingNode):
            yield from _walk(child, f"{key}.", environ)
        elif not (isinstance(child, ScalarNode) and child.text is None):
            yield key, line, "it is a group of settings, each on a line of its own below it"


def _value(node: Node, environ: Mapping[str, str]) -> object:
    """The value of a node with its variables replaced; None for an empty one."""
    match node:
        case ScalarNode(text=text):
            value = None if text is None else substitute(text, environ)
            # `${NAME:-}` of a variable that is not set is no value, as the variable itself would be.
            return None if value == "" and text else value
        case SequenceNode(items=items):
            return [_value(item, environ) for item in items]
        case MappingNode(members=members):
            return {name: _value(child, environ) for name, _, child in members}


def substitute(text: str, environ: Mapping[str, str]) -> str:
    """Replaces each variable by its value. An empty variable counts as unset, as everywhere."""

    def replace(match: re.Match[str]) -> str:
        if match.group() == "$${":
            return "${"
        name, default = match[1], match[2]
        if name is None:
            raise _SubstitutionError(
                "after ${ there must be the name of a variable and }, or :- and a text without a further ${; "
                "write $${ for ${ itself"
            )
        value = environ.get(name) or default
        if value is None:
            raise _SubstitutionError(
                f"the environment variable {shorten(name)} is not set; set it, or write ${{{shorten(name)}:-a default}}"
            )
        return value

    return _REFERENCE.sub(replace, text)
