"""Table — what a server answered, for a person to read or for a program (`--json`).

Names come from others. What would move the cursor or colour the terminal is shown, not obeyed. A Chinese character is as wide
as two Latin ones, so columns are aligned by what is seen.
"""

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from agentvm.cli.additions import added
from agentvm.model.money import dollars

# JSON of a server: its members are checked where they are used.
Item = dict[str, Any]
Column = str | Callable[[Item], object]
"""The member to show, or how to make what is shown of an item."""
Columns = Mapping[str, Column]


@dataclass(frozen=True, slots=True)
class Show:
    """How a command answers."""

    as_json: bool = False

    def items(self, items: Iterable[Item], columns: Columns, *, none: str) -> None:
        """A list; `none` is what to say when it is empty."""
        found = list(items)
        if self.as_json:
            self.json(found)
        elif found:
            click.echo(table(list(columns), [[_cell(item, column) for column in columns.values()] for item in found]))
        else:
            click.echo(none, err=True)

    def record(self, item: Item, columns: Columns) -> None:
        """One thing, a line for each member that there is."""
        if self.as_json:
            self.json(item)
            return
        lines = [(title, text) for title, column in columns.items() if (text := plain(_cell(item, column)))]
        widest = max((width(title) for title, _ in lines), default=0)
        for title, text in lines:
            click.echo(f"{_padded(title, widest)}  {text}")

    def json(self, value: object, *, exact: bool = False) -> None:
        """With times and money for other programs; `exact` as it is, for what is not the server's own."""
        shown = value if exact else added(value)
        click.echo(msgspec.json.format(msgspec.json.encode(shown), indent=2).decode())

    def done(self, text: str) -> None:
        """Something was done; a program knows from the exit code."""
        if not self.as_json:
            click.echo(text)


def table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as what is in them; numbers are on the right."""
    texts = [[plain(cell) for cell in row] for row in rows]
    numeric = [all(isinstance(row[index], int) or row[index] is None for row in rows) for index in range(len(titles))]
    widths = [max(width(text) for text in column) for column in zip(titles, *texts, strict=True)]
    lines = [list(titles), *texts]
    return "\n".join("  ".join(map(_padded, line, widths, numeric)).rstrip() for line in lines)


def plain(value: object) -> str:
    """On one line, without anything that a terminal would obey."""
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in str(value))


def lines(text: str, indent: str = "") -> str:
    """With its lines, and without anything else that a terminal would obey. `indent` sets those after the first apart."""
    found = "".join(
        letter if letter.isprintable() or letter in "\n\t" else f"\\x{ord(letter):02x}" for letter in text.replace("\r\n", "\n")
    )
    return found.replace("\n", f"\n{indent}")


def width(text: str) -> int:
    """The columns that a terminal needs for it."""
    return sum(_letter_width(letter) for letter in text)


def moment(member: str) -> Callable[[Item], str | None]:
    """A column of times, in UTC."""
    return lambda item: None if item.get(member) is None else when(item[member])


def money(member: str) -> Callable[[Item], str | None]:
    """A column of nano-USD, in dollars."""
    return lambda item: None if item.get(member) is None else dollars(item[member])


def listed(member: str, *, absent: str = "") -> Callable[[Item], str]:
    """A column of lists."""
    return lambda item: absent if item.get(member) is None else " ".join(map(str, item[member]))


def when(at: int) -> str:
    try:
        return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return str(at)


def _cell(item: Item, column: Column) -> object:
    return column(item) if callable(column) else item.get(column)


def _letter_width(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def _padded(text: str, columns: int, right: bool = False) -> str:
    space = " " * (columns - width(text))
    return space + text if right else text + space
