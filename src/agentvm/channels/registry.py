"""Channel registry — the adapters that are installed: those of AgentVM, and plug-ins of the group `agentvm.channels`."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import get_args, get_type_hints

import msgspec

from agentvm.channels.base import ChannelAdapter
from agentvm.errors import InvalidInput, shorten, suggest
from agentvm.log import get_logger
from agentvm.model.base import Record
from agentvm.model.channel import ChannelKind, ChannelSettings, SettingField

logger = get_logger(__name__)

GROUP = "agentvm.channels"
_BUILT_IN = {
    "wecom": "agentvm.channels.wecom:WeCom",
    "dingtalk": "agentvm.channels.dingtalk:DingTalk",
    "feishu": "agentvm.channels.feishu:Feishu",
    "telegram": "agentvm.channels.telegram:Telegram",
}


@cache
def adapters() -> Mapping[str, type[ChannelAdapter]]:
    """Returns the adapters by name. A plug-in that cannot be loaded is left out, and named in the log."""
    return {**dict(_plug_ins()), **{name: _load(place) for name, place in _BUILT_IN.items()}}


def _load(place: str) -> type[ChannelAdapter]:
    module, _, name = place.partition(":")
    adapter: type[ChannelAdapter] = getattr(import_module(module), name)
    return adapter


def _plug_ins() -> Iterator[tuple[str, type[ChannelAdapter]]]:
    for point in entry_points(group=GROUP):
        try:
            adapter: type[ChannelAdapter] = point.load()
            yield adapter.name, adapter
        except (ImportError, AttributeError) as error:
            logger.error("channel_plug_in_not_loaded", plug_in=point.name, error=str(error))


def find_adapter(kind: str) -> type[ChannelAdapter]:
    """`InvalidInput` when no adapter has the name."""
    adapter = adapters().get(kind)
    if adapter is None:
        raise InvalidInput(f"There is no channel of the kind {shorten(kind)!r}; {suggest(kind, adapters())}")
    return adapter


def describe(adapter: type[ChannelAdapter]) -> ChannelKind:
    """Returns an adapter with its settings, for a form."""
    return ChannelKind(
        name=adapter.name, title=adapter.title, description=adapter.description, fields=tuple(_fields(adapter.settings))
    )


def _fields(settings: type[Record]) -> Iterator[SettingField]:
    hints = get_type_hints(settings, include_extras=True)
    for field in msgspec.structs.fields(settings):
        # One that can be left out is a union with None.
        kinds = (hints[field.name], *get_args(hints[field.name]))
        meta = next(about for kind in kinds for about in getattr(kind, "__metadata__", ()))
        assert isinstance(meta, msgspec.Meta)
        yield SettingField(
            name=field.encode_name,
            description=meta.description or "",
            is_secret=bool((meta.extra or {}).get("secret")),
            required=field.required,
            default=None if field.required else field.default,
        )


def check_settings(kind: str, settings: Mapping[str, str]) -> ChannelSettings:
    """Returns the settings with defaults; `InvalidInput` for one that is missing, unknown or wrong."""
    adapter = find_adapter(kind)
    names = {field.name for field in describe(adapter).fields}
    if unknown := next((name for name in settings if name not in names), None):
        raise InvalidInput(f"{adapter.title} has no setting {shorten(unknown)!r}; {suggest(unknown, names)}")
    try:
        read = msgspec.convert(dict(settings), adapter.settings)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"settings of {adapter.title}: {error}") from None
    values = {field.encode_name: getattr(read, field.name) for field in msgspec.structs.fields(adapter.settings)}
    return {name: value for name, value in values.items() if value is not None}
