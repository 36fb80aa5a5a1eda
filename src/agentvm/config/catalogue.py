"""Catalogue — the settings as a flat list: found by key, checked, and shown without what is secret.

A key is the path in the file with dots between: `llm.apiKey`. A `*` stands for a name that the operator chooses:
`llm.providers.*.model`, `plans.*.limits`. The name of a price may hold dots itself and is all that follows `billing.prices.`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from typing import Any, get_args, get_origin
from urllib.parse import urlsplit

import msgspec

from agentvm.config.allowance import plain_allowance, read_allowance
from agentvm.config.declarations import About, Group, Root
from agentvm.config.document import Unreadable, parse_value
from agentvm.errors import shorten
from agentvm.model.account import Allowance
from agentvm.model.money import ModelRate
from agentvm.model.secret import Secret

Value = str | int | float | Decimal | Secret | ModelRate | Allowance | tuple[str, ...]

MASK = "***"
PRICES = "billing.prices."
MOST_MONEY = Decimal(10) ** 9
_SMALLEST = -12
_WORDS = {"true": "on", "yes": "on", "false": "off", "no": "off"}
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
"""Of a provider."""
_NUMBER = re.compile(r"-?\d{1,20}(\.\d{1,20})?([eE][-+]?\d{1,3})?", re.ASCII)


class Unfit(ValueError):
    """A value that a setting cannot have. The text says what it can have, never what was given."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, or with a `*` in its key one for each name."""

    key: str
    # The annotation as it was declared: only msgspec has to understand it.
    type: Any
    default: Value | None
    doc: str
    about: About

    @property
    def kind(self) -> Any:
        """The bare type: str, int, float, Decimal, tuple, Rate or a Literal."""
        inner = [part for part in get_args(get_args(self.type)[0]) if part is not type(None)]
        bare = get_args(self.type)[0]
        if type(None) in get_args(bare):
            bare = inner[0]
        return get_args(bare)[0] if hasattr(bare, "__metadata__") else bare


def _declared(kind: type[Group], prefix: str) -> Iterator[Setting]:
    for field in msgspec.structs.fields(kind):
        key = prefix + field.encode_name
        if get_origin(field.type) is dict:
            inner = get_args(field.type)[1]
            if isinstance(inner, type):
                yield from _declared(inner, f"{key}.*.")
            else:
                yield _setting(f"{key}.*", inner, None)
        elif isinstance(field.type, type) and issubclass(field.type, Group):
            yield from _declared(field.type, f"{key}.")
        else:
            yield _setting(key, field.type, field.default)


def _setting(key: str, annotation: Any, default: Value | None) -> Setting:
    meta = next(part for part in annotation.__metadata__ if part.extra)
    return Setting(key, annotation, default, meta.description, meta.extra["about"])


SETTINGS: dict[str, Setting] = {setting.key: setting for setting in _declared(Root, "")}
DEFAULTS: dict[str, Value] = {key: one.default for key, one in SETTINGS.items() if one.default is not None}


COMPARED_KEY_MAX = 128
"""Characters of an unknown key that are compared with the known ones: comparing takes the square of the length."""


def find(key: str) -> Setting | None:
    """The setting of a key, with a name in the place of a `*`."""
    if key.startswith(PRICES):
        name = key.removeprefix(PRICES)
        return SETTINGS[f"{PRICES}*"] if name and len(name) <= 200 and name.isprintable() and " " not in name else None
    parts = key.split(".")
    if len(parts) == 4 and parts[:2] == ["llm", "providers"]:
        return SETTINGS.get(f"llm.providers.*.{parts[3]}") if NAME.fullmatch(parts[2]) else None
    if len(parts) == 3 and parts[0] == "plans":
        return SETTINGS.get(f"plans.*.{parts[2]}") if NAME.fullmatch(parts[1]) else None
    return None if "*" in key else SETTINGS.get(key)


def is_group(key: str) -> bool:
    """Whether a key leads to several settings."""
    parts = key.split(".")
    if parts[:2] == ["llm", "providers"] and len(parts) == 3:
        return NAME.fullmatch(parts[2]) is not None
    if parts[0] == "plans" and len(parts) == 2:
        return NAME.fullmatch(parts[1]) is not None
    return any(known.startswith(f"{key}.") for known in SETTINGS) and "*" not in key


def split(key: str) -> tuple[str, ...]:
    if key.startswith(PRICES):
        return ("billing", "prices", key.removeprefix(PRICES))
    return tuple(key.split("."))


def nearest(key: str) -> str | None:
    """The key that was probably meant."""
    key = key[:COMPARED_KEY_MAX]
    parts = key.split(".")
    name = parts[2] if len(parts) > 2 and parts[0] == "llm" else "*"
    known = [one.replace("*", name) for one in SETTINGS]
    groups = {one.rpartition(".")[0] for one in known} | {one.partition(".")[0] for one in known}
    lowered = {one.lower().replace("_", ""): one for one in [*groups, *known]}
    found = get_close_matches(key.lower().replace("_", ""), lowered, n=1, cutoff=0.6)
    if not found:
        # The right word under the wrong heading.
        last = key.lower().replace("_", "").rpartition(".")[2]
        found = [one for one in lowered if one.rpartition(".")[2] == last][:1]
    return lowered[found[0]] if found else None


def unknown(key: str) -> str:
    """What to say of a key that nobody knows."""
    meant = nearest(key)
    if key.startswith("llm.providers.") and not is_group(".".join(key.split(".")[:3])):
        return "the name of a provider has up to 63 small letters, digits, '-' and '_'"
    return f"there is no such setting; did you mean {meant}?" if meant else "there is no such setting"


def convert(setting: Setting, value: object, *, text: bool = False) -> Value:
    """A value of JSON as the setting's type, else `Unfit`.

    With `text`, numbers may be text, and lists and prices too: as JSON, as YAML, and a list also with commas alone.
    """
    try:
        if value is None:
            raise msgspec.ValidationError("nothing")
        if text and isinstance(value, str) and value.lstrip().startswith(_opening(setting)):
            value = parse_value(value)
        return _convert(setting, value, text)
    except (msgspec.ValidationError, InvalidOperation, OverflowError, UnicodeError, Unreadable):
        raise Unfit(f"it must be {expects(setting)}") from None


def _opening(setting: Setting) -> tuple[str, ...]:
    """How a text begins that is a whole list, or a price."""
    return ("[",) if setting.about.kind == "list" else ("{",) if setting.kind in (ModelRate, Allowance) else ()


def _convert(setting: Setting, value: object, text: bool) -> Value:
    kind = setting.kind
    if isinstance(value, str) and MASK in value and (setting.about.secret or setting.about.kind == "url"):
        # Who writes back what was shown to them would lose the key for it.
        raise Unfit(f"{MASK} is shown in the place of what is secret and is no value; leave it away, or say it anew")
    if setting.about.secret:
        return Secret(msgspec.convert(_encodable(value), setting.type))
    if kind is Decimal:
        return _money(setting, value)
    if kind is ModelRate:
        if not isinstance(value, Mapping):
            raise Unfit(f"it must be {expects(setting)}")
        rate = msgspec.convert({name: str(_money(setting, one)) for name, one in value.items() if one is not None}, _Rate)
        return ModelRate(input=rate.input, output=rate.output, cache_read=rate.cache_read, cache_write=rate.cache_write)
    if kind is Allowance:
        try:
            return read_allowance(value, of_users=setting.key.endswith(".users"))
        except ValueError as error:
            raise Unfit(str(error)) from None
    if setting.about.kind == "list":
        if text and isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        texts: tuple[str, ...] = msgspec.convert([_encodable(one) for one in _list(value)], setting.type)
        return tuple(_plain(one) for one in texts)
    if "auto" in get_args(kind):
        value = {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value
        value = _WORDS.get(value.lower(), value.lower()) if isinstance(value, str) else value
    if kind is str:
        return _plain(msgspec.convert(_encodable(value), setting.type))
    if text and isinstance(value, str) and kind in (int, float) and not _NUMBER.fullmatch(value):
        raise Unfit(f"it must be {expects(setting)}")
    found: Value = msgspec.convert(value, setting.type, strict=not text)
    return found


class _Rate(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None


def _list(value: object) -> Sequence[object]:
    if not isinstance(value, list | tuple):
        raise msgspec.ValidationError("no list")
    return value


def _encodable(value: object) -> object:
    if isinstance(value, str):
        value.encode()
    return value


def _plain(text: str) -> str:
    if not text.isprintable():
        raise Unfit("it must be on one line, without signs that cannot be printed")
    return text


def _money(setting: Setting, value: object) -> Decimal:
    written = str(value) if isinstance(value, int | float | Decimal | str) and not isinstance(value, bool) else ""
    amount = Decimal(written) if _NUMBER.fullmatch(written) else Decimal(-1)
    exponent = amount.normalize().as_tuple().exponent
    if not 0 <= amount <= MOST_MONEY or not isinstance(exponent, int) or exponent < _SMALLEST:
        raise Unfit(f"it must be {expects(setting)}")
    return amount


def expects(setting: Setting) -> str:
    """What a value must be, for people."""
    kind, meta = setting.kind, bounds_of(setting.type)
    if options := [option for option in get_args(kind) if isinstance(option, str)]:
        return f"one of: {', '.join(options)}"
    if kind in (int, float):
        what = "a whole number" if kind is int else "a number"
        return f"{what} from {meta['ge']:g} to {meta['le']}" if isinstance(meta["le"], int) else what
    if kind is Decimal:
        return "an amount like 1.05, not negative"
    if kind is ModelRate:
        return "dollars per million tokens like {input: 3, output: 15}, with cacheRead and cacheWrite if they differ"
    if kind is Allowance:
        return "limits by metric like {tokens_per_day: 100000, budget_per_month: {soft: 20, hard: 25}}"
    if setting.about.kind == "list":
        return "a list of texts"
    return "a text of 1 to 4096 characters"


def bounds_of(annotation: Any) -> dict[str, Any]:
    parts = [annotation, *get_args(annotation), *(inner for part in get_args(annotation) for inner in get_args(part))]
    metas = [meta for part in parts for meta in getattr(part, "__metadata__", ())]
    return {
        name: next((getattr(meta, name) for meta in metas if getattr(meta, name) is not None), None) for name in ("ge", "le")
    }


def shown(setting: Setting, value: Value | None) -> object:
    """As JSON, for eyes: no secret is in it, nor what an address may carry."""
    if isinstance(value, Secret):
        return MASK
    if isinstance(value, str) and setting.about.kind == "url":
        return _without_credentials(value)
    return None if value is None else plain(value)


def plain(value: Value) -> object:
    """As JSON that `convert` reads again. Not for a `Secret`."""
    match value:
        case Secret():
            raise TypeError("a secret is sealed, not shown")
        case Decimal():
            return f"{value.normalize():f}"
        case ModelRate():
            members = msgspec.structs.asdict(value)
            return {_camel(name): f"{one.normalize():f}" for name, one in members.items() if one is not None}
        case Allowance():
            return plain_allowance(value)
        case tuple():
            return list(value)
        case _:
            return value


def _camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(part.capitalize() for part in tail)


def _without_credentials(url: str) -> str:
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        netloc = f"{MASK}@{host}" if "@" in parts.netloc else host
        return parts._replace(netloc=netloc, query=MASK if parts.query else "", fragment="").geturl()
    except ValueError:
        return MASK


def quoted(setting: Setting | None, value: object) -> str:
    """What was given, for an error: shortened, and never of a secret."""
    if setting is None or setting.about.secret or setting.about.kind == "url":
        return "what it is"
    return shorten(repr(value))
