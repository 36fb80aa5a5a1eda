"""Derived fields — fields that `avm` adds to JSON and CSV output: times as ISO 8601, money in dollars.

The server's milliseconds and nano-dollars are kept: `createdAtIso` is added to `createdAt`, `priceUsd` to `price`. Only
fields of the server's own records get one: user content may use the same names with another meaning.
"""

import csv
import io
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec

NO_NAMES: Mapping[object, object] = {}
ISO, DOLLARS = "Iso", "Usd"
MONEY = frozenset({"cost", "price", "margin", "balance", "credited", "spent", "amount", "held"})
"""Fields in nano-dollars."""
_TIMES = frozenset({"at", "timestamp"})
"""Fields in milliseconds whose names do not end in `At`."""
_LIMITS = frozenset({"hard", "soft", "used"})
_LIMIT_OF_MONEY = "budget_per_month"
_WITHIN = frozenset(
    {"items", "wallet", "image", "calls", "tools", "moments", "layers", "resource", "version", "versions", "manifest"}
)
"""Fields whose values are searched, too."""


def with_derived_fields(value: object) -> object:
    """The value with the derived fields."""
    if isinstance(value, msgspec.Struct):
        value = msgspec.to_builtins(value)
    if isinstance(value, list | tuple):
        return [with_derived_fields(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields: dict[object, Any] = {}
    money = MONEY | _LIMITS if value.get("metric") == _LIMIT_OF_MONEY else MONEY
    for name, field in value.items():
        fields[name] = with_derived_fields(field) if name in _WITHIN else field
        if not isinstance(name, str) or not isinstance(field, int) or isinstance(field, bool):
            continue
        if name in money:
            fields.setdefault(f"{name}{DOLLARS}", dollars(field))
        elif (name in _TIMES or name.endswith("At")) and (text := iso(field)) is not None:
            fields.setdefault(f"{name}{ISO}", text)
    return fields


def with_derived_columns(text: str, users: Mapping[object, object] = NO_NAMES) -> str:
    """A CSV table with appended columns: dollars for each column of money, and the names of `users`."""
    rows = list(csv.reader(io.StringIO(text)))
    if not rows:
        return text
    titles = rows[0]
    columns = [index for index, title in enumerate(titles) if title in MONEY]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    named = [index for index, title in enumerate(titles) if title == "userId" and users]
    writer.writerow([*titles, *(f"{titles[index]}{DOLLARS}" for index in columns), *("user" for _ in named)])
    for row in rows[1:]:
        dollars_of = [_cell(row[index]) for index in columns]
        writer.writerow([*row, *dollars_of, *(_name(users.get(row[index], row[index])) for index in named)])
    return out.getvalue()


def iso(ms: int) -> str | None:
    """A time in ISO 8601; None if it is out of range."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None


def dollars(nano: int) -> str:
    """The exact amount without an exponent: `0.000105`."""
    return f"{Decimal(nano).scaleb(-9).normalize():f}"


def _name(value: object) -> str:
    """A name that a spreadsheet does not execute as a formula."""
    text = str(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _cell(text: str) -> str:
    digits = text.removeprefix("-")
    return dollars(int(text)) if digits.isascii() and digits.isdigit() else ""
