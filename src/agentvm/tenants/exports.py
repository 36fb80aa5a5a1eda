"""Exports — reads the usage export of a provider in any of the known formats. Pure.

CSV or JSON. A row has a day or a time, a model and token counts, under any of the names below; other columns are ignored. JSON
is a list of rows, an object with a list under `data`, or the buckets of the usage APIs, whose `results` have the time of their
bucket. A day is one in UTC, as providers count.
"""

import csv
import io
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation

import msgspec

from agentvm.errors import InvalidInput, shorten
from agentvm.model.base import Record
from agentvm.model.usage import Usage

DAY = (
    "day",
    "date",
    "time",
    "timestamp",
    "usage_date_utc",
    "starting_at",
    "start_time_iso",
    "start_time",
    "aggregation_timestamp",
)
MODEL = ("model", "model_version", "snapshot_id")
INPUT = ("input_tokens", "usage_input_tokens_no_cache", "uncached_input_tokens", "n_context_tokens_total")
OUTPUT = ("output_tokens", "usage_output_tokens", "n_generated_tokens_total")
CACHE_READ = ("cache_read_tokens", "usage_input_tokens_cache_read", "cache_read_input_tokens")
CACHE_WRITE = (
    "cache_write_tokens",
    "cache_creation_input_tokens",
    "usage_input_tokens_cache_write",
    "usage_input_tokens_cache_write_5m",
    "usage_input_tokens_cache_write_1h",
    "ephemeral_5m_input_tokens",
    "ephemeral_1h_input_tokens",
)
"""Columns that are added up: a provider counts entries cached for an hour apart from those cached for minutes."""
CACHE_READ_WITHIN = ("input_cached_tokens", "n_cached_context_tokens_total")
"""Read from the cache, and counted among the input as well."""

ALIASES = {
    "day": DAY,
    "model": MODEL,
    "input_tokens": INPUT,
    "output_tokens": OUTPUT,
    "cache_read_tokens": (*CACHE_READ, *CACHE_READ_WITHIN),
    "cache_write_tokens": CACHE_WRITE,
}
"""The accepted names of each column."""

ExportRow = Mapping[str, object]
TOKENS_MAX = 10**15
"""Tokens in one cell."""
YEARS = range(1970, 3000)


class Exported(Record):
    """Usage of one model on one day according to a provider; several rows may concern the same pair."""

    day: str
    model: str
    usage: Usage


def read_export(text: str) -> tuple[Exported, ...]:
    """Reads all rows; `InvalidInput` names a row that cannot be read, because a guessed number is worse than none."""
    text = text.removeprefix("\ufeff").strip()
    if not text:
        raise InvalidInput("The export is empty")
    rows = _json_rows(text) if text[0] in "[{" else _csv_rows(text)
    exports = tuple(exported for place, row in rows if (exported := _read(place, row)) is not None)
    if not exports:
        raise InvalidInput("The export has no rows")
    return exports


def _read(place: str, row: ExportRow) -> Exported | None:
    """None for a row without a model: a bucket in which nothing was used."""
    within = _sum(place, row, CACHE_READ_WITHIN)
    model = _first(row, MODEL)
    usage = Usage(
        input_tokens=_only(place, row, "input_tokens", INPUT) - within,
        output_tokens=_only(place, row, "output_tokens", OUTPUT),
        cache_read_tokens=within or _sum(place, row, CACHE_READ[:1]) or _sum(place, row, CACHE_READ[1:]),
        cache_write_tokens=_sum(place, row, CACHE_WRITE),
    )
    if usage.input_tokens < 0:
        raise InvalidInput(f"{place}: more tokens were read from the cache than there was input")
    if model is None or not str(model).strip():
        if usage.total:
            raise InvalidInput(f"{place}: no model; export the usage grouped by model. {_accepted('model')}")
        return None
    return Exported(day=_day(place, _first(row, DAY)), model=str(model).strip(), usage=usage)


def _csv_rows(text: str) -> Iterator[tuple[str, ExportRow]]:
    header = text.splitlines()[0]
    reader = csv.DictReader(io.StringIO(text), delimiter=max(",;\t", key=header.count), strict=True)
    try:
        names = [_plain(name) for name in reader.fieldnames or ()]
        reader.fieldnames = names
        for column in ("day", "model", "input_tokens", "output_tokens"):
            if not set(names) & set(ALIASES[column]):
                raise InvalidInput(f"The export has no column {column}. {_accepted(column)}")
        for row in reader:
            yield f"Line {reader.line_num}", {name: value for name, value in row.items() if isinstance(name, str)}
    except csv.Error as error:
        raise InvalidInput(f"Line {reader.line_num} of the export is not valid CSV: {error}") from None


def _json_rows(text: str) -> Iterator[tuple[str, ExportRow]]:
    try:
        body = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"The export is not valid JSON: {error}") from None
    except RecursionError:
        raise InvalidInput("The export is nested too deep") from None
    if isinstance(body, dict):
        if body.get("has_more") is True:
            raise InvalidInput("The export is one page of several (has_more); put all pages into one list")
        body = body.get("data", [body])
    if not isinstance(body, list):
        raise InvalidInput("The export must be a list of rows, or an object with a list of rows under data")
    for number, row in enumerate(body, 1):
        place = f"Row {number}"
        if not isinstance(row, dict):
            raise InvalidInput(f"{place} of the export is not an object")
        results = row.get("results")
        for result in results if isinstance(results, list) else [row]:
            if not isinstance(result, dict):
                raise InvalidInput(f"{place} of the export holds a result that is not an object")
            nested = result.get("cache_creation")
            more = nested if isinstance(nested, dict) else {}
            outer = {name: value for name, value in row.items() if name in DAY}
            yield place, {_plain(name): value for name, value in {**outer, **result, **more}.items()}


def _plain(name: str) -> str:
    """`inputTokens` and `Input Tokens` are `input_tokens`: AgentVM's own usage may be compared as well."""
    name = name.strip()
    if name[:1].islower() and "_" not in name:
        return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return name.lower().replace(" ", "_")


def _first(row: ExportRow, names: tuple[str, ...]) -> object | None:
    return next((row[name] for name in names if row.get(name) not in (None, "")), None)


def _only(place: str, row: ExportRow, plain: str, names: tuple[str, ...]) -> int:
    if not any(name in row for name in names):
        raise InvalidInput(f"{place}: no {plain}. {_accepted(plain)}")
    return _count(place, plain, _first(row, names))


def _sum(place: str, row: ExportRow, names: tuple[str, ...]) -> int:
    return sum(_count(place, name, row[name]) for name in names if name in row)


def _count(place: str, name: str, value: object) -> int:
    if value is None or value == "":
        return 0
    try:
        number = Decimal(str(value).replace(",", "").strip())
        # Not before: an exponent of nine digits would be a number of a billion.
        count = int(number) if 0 <= number <= TOKENS_MAX else -1
    except (InvalidOperation, ValueError, OverflowError):
        count, number = -1, Decimal(0)
    if isinstance(value, bool) or count != number or count < 0:
        raise InvalidInput(f"{place}: {name} is {shorten(str(value))!r}, which is not a number of tokens")
    return count


def _day(place: str, value: object) -> str:
    """ISO dates and times (UTC unless they say otherwise), and seconds or milliseconds since 1970."""
    text = str(value).strip()
    try:
        day = _date(text, is_number=isinstance(value, int | float))
    except (ValueError, OverflowError, OSError):
        day = None
    if day is None or day.year not in YEARS:
        raise InvalidInput(f"{place}: {shorten(text)!r} is not a valid day; write it like 2026-11-15")
    return day.isoformat()


def _date(text: str, *, is_number: bool) -> date:
    if is_number or text.replace(".", "", 1).isdigit():
        seconds = float(text)
        return datetime.fromtimestamp(seconds / 1000 if seconds > 1e11 else seconds, UTC).date()
    if len(text) == len("2026-11-15"):
        return date.fromisoformat(text)
    moment = datetime.fromisoformat(text.removesuffix(" UTC"))
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC).date()


def _accepted(plain: str) -> str:
    return f"Accepted names: {', '.join(ALIASES[plain])}"
