"""Table — output of commands: tables and records for people, JSON for programs (`--json`).

Control characters in names are escaped, so that a response cannot steer the terminal. Columns are aligned by display width: a
Chinese character is as wide as two Latin ones.
"""

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from agentvm.cli.derived_fields import with_derived_fields
from agentvm.model.money import dollars

# A JSON object of a response; its fields are checked where they are used.
Item = dict[str, Any]
Column = str | Callable[[Item], object]
"""The field to show, or a function of the item."""
Columns = Mapping[str, Column]


@dataclass(frozen=True, slots=True)
class Show:
    """The output format of a command."""

    as_json: bool = False

    def items(self, items: Iterable[Item], columns: Columns, *, none: str) -> None:
        """Prints a list; `none` is the message for an empty one."""
        rows = list(items)
        if self.as_json:
            self.json(rows)
        elif rows:
            click.echo(table(list(columns), [[_cell(item, column) for column in columns.values()] for item in rows]))
        else:
            click.echo(none, err=True)

    def record(self, item: Item, columns: Columns) -> None:
        """Prints one item, a field per line; further lines of a text are indented as its first."""
        if self.as_json:
            self.json(item)
            return
        cells = {title: _cell(item, column) for title, column in columns.items()}
        shown = {title: value if isinstance(value, str) else plain(value) for title, value in cells.items()}
        widest = max((width(title) for title, text in shown.items() if text), default=0)
        for title, text in shown.items():
            if text:
                click.echo(f"{_padded(title, widest)}  {lines(text.rstrip(), ' ' * (widest + 2))}")

    def json(self, value: object, *, exact: bool = False) -> None:
        """Prints JSON, with ISO times and dollars added unless it is `exact`."""
        shown = value if exact else with_derived_fields(value)
        click.echo(msgspec.json.format(msgspec.json.encode(shown), indent=2).decode())

    def done(self, text: str, response: Item | None = None) -> None:
        """Reports a finished action: the response as JSON, if there is one, or the text."""
        if not self.as_json:
            click.echo(text)
        elif response is not None:
            self.json(response)


def counted(number: int, noun: str) -> str:
    """The number with its noun in the singular or plural: `1 message`, `2,000 messages`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def shortened(text: str, characters: int) -> str:
    """The text on one line, cut with an ellipsis after this many characters."""
    line = " ".join(text.split())
    return line if len(line) <= characters else f"{line[: characters - 1]}…"


def table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table with columns as wide as their content; numbers are right-aligned."""
    texts = [[plain(cell) for cell in row] for row in rows]
    numeric = [all(isinstance(row[index], int) or row[index] is None for row in rows) for index in range(len(titles))]
    widths = [max(width(text) for text in column) for column in zip(titles, *texts, strict=True)]
    lines = [list(titles), *texts]
    return "\n".join("  ".join(map(_padded, line, widths, numeric)).rstrip() for line in lines)


def plain(value: object) -> str:
    """The value on one line, with control characters escaped."""
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in str(value))


def lines(text: str, indent: str = "") -> str:
    """The text with its line breaks and all other control characters escaped; `indent` is for lines after the first."""
    escaped = "".join(
        letter if letter.isprintable() or letter in "\n\t" else f"\\x{ord(letter):02x}" for letter in text.replace("\r\n", "\n")
    )
    return escaped.replace("\n", f"\n{indent}")


def width(text: str) -> int:
    """The display width of a text in terminal columns."""
    return sum(_letter_width(letter) for letter in text)


def moment(field: str) -> Callable[[Item], str | None]:
    """A column of times, in UTC."""
    return lambda item: None if item.get(field) is None else when(item[field])


def money(field: str) -> Callable[[Item], str | None]:
    """A column of nano-USD, in dollars."""
    return lambda item: None if item.get(field) is None else dollars(item[field])


def listed(field: str, *, absent: str = "") -> Callable[[Item], str]:
    """A column of lists."""
    return lambda item: absent if item.get(field) is None else " ".join(map(str, item[field]))


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
