"""Build — resolved values as a `ServerConfig`, and a `ServerConfig` as values. Pure; the declarations say how."""

from collections.abc import Collection, Mapping
from dataclasses import fields
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
    for field in fields(kind):  # type: ignore[arg-type]  # Every group is a dataclass.
        node = tree.get(camel(field.name))
        if node is None:
            continue
        if isinstance(field.type, type) and issubclass(field.type, Group):
            values[field.name] = _group(field.type, node)
        elif isinstance(inner := named_kind(field.type), type):
            values[field.name] = {name: _group(inner, entry) for name, entry in node.items()}
        else:
            values[field.name] = node
    return kind(**values, **more)
