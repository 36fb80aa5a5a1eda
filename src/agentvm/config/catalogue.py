"""Catalogue — the settings as a flat list: looked up by key, converted, validated, and shown without secrets.

A key is the path in the file with dots between: `llm.apiKey`. A `*` stands for a name that the operator chooses:
`llm.providers.*.model`, `plans.*.limits`. The name of a price may hold dots itself and is all that follows `billing.prices.`.
"""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from functools import lru_cache
from urllib.parse import urlsplit

import msgspec

from agentvm.config.allowance import plain_allowance, read_allowance
from agentvm.config.document import DocumentError, parse_value
from agentvm.config.policy import EXPECTED as POLICY_EXPECTED
from agentvm.config.policy import plain_policy, read_policy
from agentvm.errors import shorten
from agentvm.model.account import Allowance
from agentvm.model.money import ModelRate
from agentvm.model.policy import Policy
from agentvm.model.secret import Secret
from agentvm.model.setting import Setting, Text, camel, declared_settings
from agentvm.model.settings import Settings

Value = str | int | float | Decimal | Secret | ModelRate | Allowance | Policy | tuple[str, ...]

MASK = "***"
MONEY_MAX = Decimal(10) ** 9
MONEY_EXPONENT_MIN = -12
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
"""The name of a provider or a plan."""
PRICE_NAME_MAX = 200
COMPARED_KEY_MAX = 128
"""Characters of an unknown key that are compared with the known ones: comparing takes the square of the length."""
SPLIT_KEYS_MAX = 1_024
"""Keys whose parts are remembered: an ordinary server has a few hundred, and splits each of them often."""

_SWITCH_WORDS = {"true": "on", "yes": "on", "false": "off", "no": "off"}
_NUMBER = re.compile(r"-?\d{1,20}(\.\d{1,20})?([eE][-+]?\d{1,3})?", re.ASCII)


class InvalidValue(ValueError):
    """A value that a setting cannot have. The text describes valid values and never quotes the invalid one."""


SETTINGS: dict[str, Setting] = {setting.key: setting for setting in declared_settings(Settings)}
DEFAULTS: dict[str, Value] = {key: setting.default for key, setting in SETTINGS.items() if setting.default is not None}

_NAMED = {prefix for prefix, star, rest in (key.partition("*") for key in SETTINGS) if star and rest}
"""The prefixes before the name of a group: of a provider, of a plan."""
_NAMED_VALUES = {prefix for prefix, star, rest in (key.partition("*") for key in SETTINGS) if star and not rest}
"""The prefixes before the name of a single value: of a price."""


def find(key: str) -> Setting | None:
    """Returns the setting of a key, which has a name in the place of a `*`."""
    *_, last = parts = split(key)
    prefix = ".".join(parts[:-1]) + "."
    if prefix in _NAMED_VALUES:
        valid = 0 < len(last) <= PRICE_NAME_MAX and last.isprintable() and " " not in last
        return SETTINGS[f"{prefix}*"] if valid else None
    prefix = ".".join(parts[:-2]) + "."
    if prefix in _NAMED:
        return SETTINGS.get(f"{prefix}*.{last}") if NAME.fullmatch(parts[-2]) else None
    return None if "*" in key else SETTINGS.get(key)


def is_group(key: str) -> bool:
    """Whether a key leads to several settings."""
    prefix, _, name = key.rpartition(".")
    if f"{prefix}." in _NAMED:
        return NAME.fullmatch(name) is not None
    return "*" not in key and any(setting.startswith(f"{key}.") for setting in SETTINGS)


@lru_cache(maxsize=SPLIT_KEYS_MAX)
def split(key: str) -> tuple[str, ...]:
    """The parts of a key; a chosen name is one part, also with dots in it."""
    for prefix in _NAMED_VALUES:
        if key.startswith(prefix):
            return (*prefix.removesuffix(".").split("."), key.removeprefix(prefix))
    return tuple(key.split("."))


def key_of(parts: Sequence[str]) -> str:
    """The key of parts in snake case, such as a variable's. A chosen name keeps its underscores."""
    words: list[str] = []
    for part in parts:
        chosen = ".".join(words) + "." in _NAMED | _NAMED_VALUES
        words.append(part if chosen else camel(part))
    return ".".join(words)


def nearest(key: str) -> str | None:
    """The known key that is most similar to an unknown one."""
    key = key[:COMPARED_KEY_MAX]
    name = next((key.removeprefix(prefix).partition(".")[0] for prefix in _NAMED if key.startswith(prefix)), "*")
    settings = [setting.replace("*", name) for setting in SETTINGS]
    groups = {setting.rpartition(".")[0] for setting in settings} | {setting.partition(".")[0] for setting in settings}
    by_word = {setting.lower().replace("_", ""): setting for setting in [*groups, *settings]}
    word = key.lower().replace("_", "")
    similar = get_close_matches(word, by_word, n=1, cutoff=0.6)
    if not similar:
        # The right word under the wrong heading.
        similar = [other for other in by_word if other.rpartition(".")[2] == word.rpartition(".")[2]][:1]
    return by_word[similar[0]] if similar else None


def unknown(key: str) -> str:
    """The error message for an unknown key."""
    for prefix in _NAMED:
        if key.startswith(prefix) and not is_group(prefix + key.removeprefix(prefix).partition(".")[0]):
            kind = prefix.split(".")[-2].removesuffix("s")
            return f"the name of a {kind} has up to 63 small letters, digits, '-' and '_'"
    similar = nearest(key)
    return f"there is no such setting; did you mean {similar}?" if similar else "there is no such setting"


def convert(setting: Setting, value: object, *, text: bool = False) -> Value:
    """Converts a JSON value to the setting's type, else raises `InvalidValue`.

    With `text`, numbers may be text, and lists and prices too: as JSON, as YAML, and a list also separated by commas.
    """
    try:
        if value is None:
            raise msgspec.ValidationError("nothing")
        if text and isinstance(value, str) and value.lstrip().startswith(_opening(setting)):
            value = parse_value(value)
        return _convert(setting, value, text)
    except (msgspec.ValidationError, InvalidOperation, OverflowError, UnicodeError, DocumentError):
        raise InvalidValue(f"it must be {expects(setting)}") from None


def _opening(setting: Setting) -> tuple[str, ...]:
    """The first character of a text that is a whole list, or a price."""
    return ("[",) if setting.is_list or setting.kind is Policy else ("{",) if setting.kind in (ModelRate, Allowance) else ()


def _convert(setting: Setting, value: object, text: bool) -> Value:
    kind = setting.kind
    if isinstance(value, str) and MASK in value and (setting.is_secret or setting.declaration.url):
        # A client that writes back what it was shown would lose the key for it.
        raise InvalidValue(f"{MASK} is shown instead of a secret and is not a value; leave it out, or provide it again")
    if setting.is_secret:
        return Secret(msgspec.convert(_encodable(value), Text))
    if kind is Decimal:
        return _money(setting, value)
    if kind is ModelRate:
        return _rate(setting, value)
    if kind in (Allowance, Policy):
        try:
            return read_policy(value, text=text) if kind is Policy else read_allowance(value, of_users=setting.name == "users")
        except ValueError as error:
            raise InvalidValue(str(error)) from None
    if setting.is_list:
        if text and isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        texts: tuple[str, ...] = msgspec.convert([_encodable(item) for item in _list(value)], setting.type)
        return tuple(_printable(item) for item in texts)
    if "auto" in setting.options:
        value = ("on" if value else "off") if isinstance(value, bool) else value
        value = _SWITCH_WORDS.get(value.lower(), value.lower()) if isinstance(value, str) else value
    if kind is str:
        return _printable(msgspec.convert(_encodable(value), setting.type))
    if text and isinstance(value, str) and kind in (int, float) and not _NUMBER.fullmatch(value):
        raise InvalidValue(f"it must be {expects(setting)}")
    converted: Value = msgspec.convert(value, setting.type, strict=not text)
    return converted


class _Rate(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None
    web_search: Decimal | None = None


def _rate(setting: Setting, value: object) -> ModelRate:
    if not isinstance(value, Mapping):
        raise InvalidValue(f"it must be {expects(setting)}")
    amounts = {name: str(_money(setting, amount)) for name, amount in value.items() if amount is not None}
    return ModelRate(**msgspec.structs.asdict(msgspec.convert(amounts, _Rate)))


def _list(value: object) -> Sequence[object]:
    if not isinstance(value, list | tuple):
        raise msgspec.ValidationError("no list")
    return value


def _encodable(value: object) -> object:
    if isinstance(value, str):
        value.encode()
    return value


def _printable(text: str) -> str:
    if not text.isprintable():
        raise InvalidValue("it must be on one line, without unprintable characters")
    return text


def _money(setting: Setting, value: object) -> Decimal:
    written = str(value) if isinstance(value, int | float | Decimal | str) and not isinstance(value, bool) else ""
    amount = Decimal(written) if _NUMBER.fullmatch(written) else Decimal(-1)
    exponent = amount.normalize().as_tuple().exponent
    if not 0 <= amount <= MONEY_MAX or not isinstance(exponent, int) or exponent < MONEY_EXPONENT_MIN:
        raise InvalidValue(f"it must be {expects(setting)}")
    return amount


def expects(setting: Setting) -> str:
    """Describes the valid values of a setting."""
    kind = setting.kind
    if setting.options:
        return f"one of: {', '.join(setting.options)}"
    if kind in (int, float):
        smallest, largest = setting.bounds
        noun = "a whole number" if kind is int else "a number"
        return f"{noun} from {smallest:g} to {largest}" if isinstance(largest, int) else noun
    if kind is Decimal:
        return "an amount like 1.05, not negative"
    if kind is ModelRate:
        return (
            "dollars per million tokens like {input: 3, output: 15}, with cacheRead and cacheWrite if they differ, "
            "and webSearch per 1,000 searches of the provider"
        )
    if kind is Allowance:
        return "limits by metric like {tokens_per_day: 100000, budget_per_month: {soft: 20, hard: 25}}"
    if kind is Policy:
        return POLICY_EXPECTED
    if setting.is_list:
        return f"a list of: {', '.join(setting.items)}" if setting.items else "a list of texts"
    return "a text of 1 to 4096 characters"


def shown(setting: Setting, value: Value | None) -> object:
    """A value as JSON for display: without secrets, and without the credentials of an address."""
    if isinstance(value, Secret):
        return MASK
    if isinstance(value, str) and setting.declaration.url:
        return _without_credentials(value)
    return None if value is None else plain(value)


def plain(value: Value) -> object:
    """A value as JSON that `convert` reads again; `TypeError` for a `Secret`."""
    match value:
        case Secret():
            raise TypeError("a secret is sealed, not shown")
        case Decimal():
            return f"{value.normalize():f}"
        case ModelRate():
            amounts = msgspec.structs.asdict(value)
            return {camel(name): f"{amount.normalize():f}" for name, amount in amounts.items() if amount is not None}
        case Allowance():
            return plain_allowance(value)
        case Policy():
            return plain_policy(value)
        case tuple():
            return list(value)
        case _:
            return value


def _without_credentials(url: str) -> str:
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        netloc = f"{MASK}@{host}" if "@" in parts.netloc else host
        return parts._replace(netloc=netloc, query=MASK if parts.query else "", fragment="").geturl()
    except ValueError:
        return MASK


def describe_error(setting: Setting, value: object, error: InvalidValue) -> str:
    """The error message for an invalid value, which is shortened, and left out where it may be a secret."""
    if setting.is_secret or setting.declaration.url:
        return str(error)
    return f"it is {shorten(repr(value))}; {error}"
