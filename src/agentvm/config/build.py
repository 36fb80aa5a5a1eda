"""Build — resolved values as a `ServerConfig`, and a `ServerConfig` as values. Pure; the declarations say how."""

from collections.abc import Collection, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

from agentvm.config.conflicts import faults_of, place_of
from agentvm.config.file import Problem, refuse
from agentvm.config.layers import Layer, SettingValue, Values, merge, nest
from agentvm.config.server import ServerConfig
from agentvm.model.setting import Group, camel, flatten, named_kind
from agentvm.model.settings import Settings

G = TypeVar("G", bound=Group)


def build(values: Values, *, layers: tuple[Layer, ...] = ()) -> ServerConfig:
    """The config of values that are valid one by one. `ConfigInvalid` when they conflict."""
    refuse(conflicts(values))
    return _group(ServerConfig, _tree(values), layers=layers)


def conflicts(values: Values, unread: Collection[str] = ()) -> list[Problem]:
    """The reasons why values cannot be used together, with their places; for `unread` see `faults_of`."""
    return [Problem(place_of(values, key), key, text) for key, text in faults_of(assemble(values), unread)]


def assemble(values: Values) -> Settings:
    """The settings of values, which are not checked against each other."""
    return _group(Settings, _tree(values))


def base_of(config: ServerConfig) -> tuple[Layer, ...]:
    """The layers that a config was loaded from, and above them the values that a program has set."""
    loaded = {key: resolved.value for key, resolved in merge(config.layers).items()}
    own = {key: SettingValue(value, "ServerConfig") for key, value in flatten(config) if loaded.get(key) != value}
    return (*config.layers, Layer("code", own)) if own else config.layers


def _tree(values: Values) -> dict[str, Any]:
    return nest({key: resolved.value for key, resolved in values.items()})


def _group(kind: type[G], tree: Mapping[str, Any], **more: Any) -> G:
    values: dict[str, Any] = {}
    for member, key, group, entry_group in _members(kind):  # type: ignore[arg-type]  # A class is hashable.
        node = tree.get(key)
        if node is None:
            continue
        if group is not None:
            values[member] = _group(group, node)
        elif entry_group is not None:
            values[member] = {name: _group(entry_group, entry) for name, entry in node.items()}
        else:
            values[member] = node
    return kind(**values, **more)


@cache
def _members(kind: type[Group]) -> tuple[tuple[str, str, type[Group] | None, type[Group] | None], ...]:
    """The name of each field of a group, its key, and the group that it is, or that each entry of it is."""
    return tuple(
        (field.name, camel(field.name), _group_of(field.type), _group_of(named_kind(field.type)))
        for field in fields(kind)  # type: ignore[arg-type]  # Every group is a dataclass.
    )


def _group_of(kind: Any) -> type[Group] | None:
    return kind if isinstance(kind, type) and issubclass(kind, Group) else None
