"""Record — the shape every fact shares: frozen, keyword-only, camelCase in JSON, absent members left out."""

from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

import msgspec


class _RecordMeta(msgspec.StructMeta):
    """Makes `kw_only` hold for subclasses too; msgspec asks for it again at each class."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, object], **options: Any) -> "_RecordMeta":
        return super().__new__(mcls, name, bases, namespace, **{"frozen": True, "kw_only": True, **options})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Record(msgspec.Struct, metaclass=_RecordMeta, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A fact. Optional members that are unset do not appear in its JSON."""


T = TypeVar("T")


def record_from(kind: Callable[..., T], *sources: object, **values: Any) -> T:
    """Returns a `kind` with these values; its other fields are those of the same name of the sources, the last one first."""
    names = kind.__struct_fields__ if isinstance(kind, msgspec.StructMeta) else tuple(vars(kind)["__dataclass_fields__"])
    shared = {name: getattr(source, name) for source in sources for name in names if hasattr(source, name)}
    return kind(**{**shared, **values})
