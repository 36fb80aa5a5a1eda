"""Records — how a record lies in a table: one column for each field of its struct, in the order of the fields.

Truth values are stored as numbers; tuples, dicts and structs as JSON. The fields of an `inline` struct are columns of the same
row.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, get_args, get_origin

import msgspec

from agentvm.model.ids import TenantId
from agentvm.storage.sql.connection import Args, Connection, Database

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

_encode = msgspec.json.Encoder().encode


def _optional(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


class Columns(Generic[S]):
    """The columns of a kind of record, but those that are left out."""

    def __init__(self, kind: type[S], *, without: Collection[str] = (), inline: str | None = None) -> None:
        self._kind = kind
        self._inline = inline
        self._inner: Columns[Any] | None = None
        paths: list[tuple[str, Any]] = []
        for field in msgspec.structs.fields(kind):
            if field.name == inline:
                self._inner = Columns(field.type)
                paths += [(f"{inline}.{inner.name}", inner.type) for inner in msgspec.structs.fields(field.type)]
            elif field.name not in without:
                paths.append((field.name, field.type))
        self.names: tuple[str, ...] = tuple(path.rpartition(".")[2] for path, _ in paths)
        self.text = ", ".join(self.names)
        """For a SELECT or an INSERT."""
        self.marks = ", ".join("?" * len(self.names))
        self._get = attrgetter(*(path for path, _ in paths))
        self._conversions = [(at, *both) for at, (_, kind) in enumerate(paths) if (both := _conversion(kind)) is not None]

    def select(self, prefix: str = "", **expressions: str) -> str:
        """The columns of a table behind a prefix, with expressions for those that are no columns."""
        return ", ".join(expressions.get(name, f"{prefix}{name}") for name in self.names)

    def encode(self, record: S) -> tuple[Any, ...]:
        row: tuple[Any, ...] = self._get(record)
        if not self._conversions:
            return row
        values = list(row)
        for at, _, write in self._conversions:
            values[at] = write(values[at])
        return tuple(values)

    def decode(self, row: Sequence[Any]) -> S:
        values = list(row)
        for at, read, _ in self._conversions:
            values[at] = read(values[at])
        named = dict(zip(self.names, values, strict=True))
        if self._inner is not None and self._inline is not None:
            named[self._inline] = self._inner._kind(**{name: named.pop(name) for name in self._inner.names})
        return self._kind(**named)


def _conversion(kind: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]] | None:
    """How a value is read from a column and written to it; None for as it is."""
    if kind is bool:
        return bool, int
    kinds = [member for member in get_args(kind) if member is not NoneType] if get_origin(kind) is UnionType else [kind]
    if get_origin(kinds[0]) in (tuple, dict) or (isinstance(kinds[0], type) and issubclass(kinds[0], msgspec.Struct)):
        return _optional(msgspec.json.Decoder(kind).decode), _optional(_encode)
    return None


class Scope:
    """A part of the database, and the statements on it that are one query each."""

    __slots__ = ("_database",)

    def __init__(self, database: Database) -> None:
        self._database = database

    async def _all(self, decode: Callable[[Any], T], sql: str, args: Args) -> tuple[T, ...]:
        return await self._database.read(lambda connection: tuple(map(decode, connection.fetch(sql, args))))

    async def _first(self, decode: Callable[[Any], T], sql: str, args: Args = ()) -> T | None:
        def read(connection: Connection) -> T | None:
            return next(map(decode, connection.fetch(sql, args)), None)

        return await self._database.read(read)

    async def _execute(self, sql: str, args: Args) -> bool:
        """Whether a row was changed."""
        return await self._database.write(lambda connection: connection.execute(sql, args) > 0)


class TenantScope(Scope):
    """The part of the database that belongs to one tenant."""

    __slots__ = ("_tenant_id",)

    def __init__(self, database: Database, tenant_id: TenantId) -> None:
        super().__init__(database.of(tenant_id))
        self._tenant_id = tenant_id


Conditions = Iterable[tuple[str, str, object]]
"""Conditions of a query: the name of a parameter, the SQL, and the value; None for one that does not narrow."""


def narrow(conditions: Conditions, values: dict[str, Any]) -> str:
    """The conditions that narrow a query, each behind an AND; their values are added to `values`."""
    narrowing = [(name, sql, value) for name, sql, value in conditions if value is not None]
    values |= {name: value for name, _, value in narrowing}
    return "".join(f" AND {sql}" for _, sql, _ in narrowing)
