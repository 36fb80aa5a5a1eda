"""Setting — the vocabulary in which settings are declared: types, bounds and properties.

A group of settings is a frozen dataclass below `Group`; each of its fields is annotated with a type and `setting(…)`. The
key in a file, the variable, the flag, the documentation, the JSON Schema, validation and masking follow from that one line. A
`Secret` is masked everywhere, a tuple is a list, and a field whose default is None has no value unless one is set or derived.
"""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache, lru_cache
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from msgspec import Meta

from agentvm.model.secret import Secret

Applies = Literal["live", "restart", "boot"]
"""The effect of a change at run time: at once, with the next start, or never, because it is needed before the database."""

NAMES_MAX = 1_024
"""Names whose form in JSON is remembered: there are a few hundred, and each start asks for all of them."""

TenantValue = Literal["no", "any", "lower"]
"""Whether a tenant may have a value of its own: no, any, or only a lower one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """The properties of a setting besides its type, its default and its sentence."""

    applies: Applies
    tenant: TenantValue
    variable: str | None
    shared_variable: str | None
    """A variable that other programs read as well; every other source takes precedence over it."""
    flag: str | None
    metavar: str | None
    """The word for the flag's value in the help text."""
    url: bool
    """An address may carry credentials, which are never shown."""
    unset: str | None
    """The effect of having no value, for a setting without a default."""


def setting(
    doc: str,
    applies: Applies = "live",
    *,
    tenant: TenantValue = "no",
    variable: str | None = None,
    shared_variable: str | None = None,
    flag: str | None = None,
    metavar: str | None = None,
    url: bool = False,
    unset: str | None = None,
) -> Meta:
    """Declares a setting; the sentence is its documentation."""
    declaration = Declaration(
        applies=applies,
        tenant=tenant,
        variable=variable,
        shared_variable=shared_variable,
        flag=flag,
        metavar=metavar,
        url=url,
        unset=unset,
    )
    return Meta(description=doc, extra={"declaration": declaration})


@dataclass(frozen=True, slots=True)
class Setting:
    """One declared setting; a `*` in its key stands for names that the operator chooses."""

    key: str
    name: str
    """The name of the field that declares it."""
    # The annotation as it was declared: only msgspec has to understand it.
    type: Any
    default: Any
    doc: str
    declaration: Declaration

    @property
    def kind(self) -> Any:
        """The bare type: str, int, float, Decimal, Secret, tuple, Rate, Allowance or a Literal."""
        bare = self.type
        while hasattr(bare, "__metadata__") or NoneType in get_args(bare):
            bare = next(part for part in get_args(bare) if part is not NoneType)
        return bare

    @property
    def is_secret(self) -> bool:
        return self.kind is Secret

    @property
    def is_list(self) -> bool:
        return get_origin(self.kind) is tuple

    @property
    def options(self) -> tuple[str, ...]:
        """The values of a setting that has only a few."""
        return tuple(option for option in get_args(self.kind) if isinstance(option, str))

    @property
    def items(self) -> tuple[str, ...]:
        """The values that a list may hold, if they are only a few."""
        item = get_args(self.kind)[0] if self.is_list else None
        return tuple(option for option in get_args(item) if isinstance(option, str))

    @property
    def bounds(self) -> tuple[Any, Any]:
        """The smallest and the largest value of a number."""
        parts = [self.type, *get_args(self.type), *(inner for part in get_args(self.type) for inner in get_args(part))]
        metas = [meta for part in parts for meta in getattr(part, "__metadata__", ())]
        smallest, largest = (
            next((getattr(meta, name) for meta in metas if getattr(meta, name) is not None), None) for name in ("ge", "le")
        )
        return smallest, largest


class Group:
    """Base of the groups of settings. Its repr leaves out addresses, which may carry credentials, and unset values."""

    __slots__ = ()

    def __repr__(self) -> str:
        shown = []
        for field in fields(self):  # type: ignore[arg-type]  # Every group is a dataclass.
            value, declared = getattr(self, field.name), _declared(field.type)
            if field.repr and value not in (None, (), {}) and not (declared is not None and declared[1].url):
                shown.append(f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


def declared_settings(group: type[Group], prefix: str = "") -> Iterator[Setting]:
    """Every setting of a group and of the groups in it, in the order of their declaration."""
    for field in fields(group):  # type: ignore[arg-type]  # Every group is a dataclass.
        key, kind = prefix + camel(field.name), field.type
        if declared := _declared(kind):
            yield Setting(key, field.name, kind, None if field.default is MISSING else field.default, *declared)
        elif isinstance(kind, type) and issubclass(kind, Group):
            yield from declared_settings(kind, f"{key}.")
        elif (named := named_kind(kind)) is not None:
            if isinstance(named, type):
                yield from declared_settings(named, f"{key}.*.")
            elif declared := _declared(named):
                yield Setting(f"{key}.*", field.name, named, None, *declared)


def flatten(group: Group, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields every value of a group and of the groups in it under its key, without unset ones."""
    for member, last, is_declared in _members(type(group)):  # type: ignore[arg-type]  # A class is hashable.
        value, key = getattr(group, member), prefix + last
        if isinstance(value, Group):
            yield from flatten(value, f"{key}.")
        elif isinstance(value, Mapping):
            for name, entry in value.items():
                yield from flatten(entry, f"{key}.{name}.") if isinstance(entry, Group) else ((f"{key}.{name}", entry),)
        elif value is not None and is_declared:
            yield key, value


@cache
def _members(kind: type[Group]) -> tuple[tuple[str, str, bool], ...]:
    """The name of each field of a group, its last part of a key, and whether it is a setting."""
    members = fields(kind)  # type: ignore[arg-type]  # Every group is a dataclass.
    return tuple((field.name, camel(field.name), _declared(field.type) is not None) for field in members)


def named_kind(kind: Any) -> Any:
    """Returns the type of the values of a mapping; None for a field that is not a mapping."""
    parts = get_args(kind)
    return parts[1] if len(parts) == 2 and parts[0] is str else None


@lru_cache(maxsize=NAMES_MAX)
def camel(name: str) -> str:
    """Returns the name of a field as in files and in JSON."""
    head, *tail = name.split("_")
    return head + "".join(part.capitalize() for part in tail)


def _declared(annotation: Any) -> tuple[str, Declaration] | None:
    for meta in getattr(annotation, "__metadata__", ()):
        if isinstance(meta, Meta) and meta.extra is not None:
            return meta.description or "", meta.extra["declaration"]
    return None


Text = Annotated[str, Meta(min_length=1, max_length=4_096)]
Port = Annotated[int, Meta(ge=0, le=65_535)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Amount = Annotated[int, Meta(ge=1, le=2**53 - 1)]
Seconds = Annotated[float, Meta(ge=0, le=31_536_000)]
PositiveSeconds = Annotated[float, Meta(ge=0.001, le=31_536_000)]
Milliseconds = Annotated[int, Meta(ge=1, le=86_400_000)]
Switch = Literal["on", "off", "auto"]
OnOff = Literal["on", "off"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequest:
    """The author and the conditions of a change."""

    actor: str
    request_id: str | None = None
    note: str | None = None
    revision: int | None = None
    """The revision that the author has seen: nothing is changed if there is a newer one."""
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeResult:
    """The effect of a change, or of a dry run. Values are as they are stored."""

    revision: int
    changed: Mapping[str, tuple[object, object]]
    live: tuple[str, ...]
    restart: tuple[str, ...]
