"""Additions — what JSON and CSV of `avm` have beside the server's own members: times as ISO 8601, money in decimal dollars.

The server counts milliseconds and nano-dollars, which are exact and which nobody reads. `createdAt` stays, and `createdAtIso`
stands beside it; `price` stays, and so does `priceUsd`. Only members that the server itself writes are looked at: what users
have stored may be called the same and mean something else.
"""

import csv
import io
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec

NOBODY: Mapping[object, object] = {}
ISO, DOLLARS = "Iso", "Usd"
MONEY = frozenset({"cost", "price", "margin", "balance", "credited", "spent", "amount", "held"})
"""Members in nano-dollars."""
_TIMES = frozenset({"at", "timestamp"})
"""Members in milliseconds that do not end in `At`."""
_LIMITS = frozenset({"hard", "soft", "used"})
_LIMIT_OF_MONEY = "budget_per_month"
_WITHIN = frozenset(
    {"items", "wallet", "image", "calls", "tools", "moments", "layers", "resource", "version", "versions", "manifest"}
)
"""Members of the server's whose own members are looked at too."""


def added(value: object) -> object:
    """The same value, with the additions."""
    if isinstance(value, msgspec.Struct):
        value = msgspec.to_builtins(value)
    if isinstance(value, list | tuple):
        return [added(one) for one in value]
    if not isinstance(value, dict):
        return value
    found: dict[object, Any] = {}
    money = MONEY | _LIMITS if value.get("metric") == _LIMIT_OF_MONEY else MONEY
    for name, member in value.items():
        found[name] = added(member) if name in _WITHIN else member
        if not isinstance(name, str) or not isinstance(member, int) or isinstance(member, bool):
            continue
        if name in money:
            found.setdefault(f"{name}{DOLLARS}", dollars(member))
        elif (name in _TIMES or name.endswith("At")) and (text := iso(member)) is not None:
            found.setdefault(f"{name}{ISO}", text)
    return found


def added_csv(text: str, users: Mapping[object, object] = NOBODY) -> str:
    """A table in CSV, with a column in dollars for each of money behind all others, and one of the names of `users`."""
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
    """A moment as other programs read it; None for what is none."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None


def dollars(nano: int) -> str:
    """Exact, without an exponent: `0.000105`."""
    return f"{Decimal(nano).scaleb(-9).normalize():f}"


def _name(value: object) -> str:
    """Names are chosen by others, and a spreadsheet runs what looks like a formula."""
    text = str(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _cell(text: str) -> str:
    digits = text.removeprefix("-")
    return dollars(int(text)) if digits.isascii() and digits.isdigit() else ""
