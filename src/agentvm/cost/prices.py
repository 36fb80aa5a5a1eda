"""Prices — the dated table of the monthly prices of servers, disks and traffic, and of other platforms."""

from datetime import date
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated

import msgspec

from agentvm.errors import InvalidInput
from agentvm.model.base import Record

Dollars = Annotated[float, msgspec.Meta(ge=0, le=10**9)]
Size = Annotated[float, msgspec.Meta(gt=0, le=10**15)]
Included = Annotated[float, msgspec.Meta(ge=0, le=10**15)]
Source = Annotated[str, msgspec.Meta(pattern=r"\S")]
"""Where a number is from: none is without."""


class Machine(Record, rename=None, forbid_unknown_fields=True):
    """A server that can be rented; its disk and traffic are included in the price."""

    name: str
    cores: Size
    memory_gb: Size
    disk_gb: Included
    traffic_tb: Included
    price: Dollars
    source: Source


class Rate(Record, rename=None, forbid_unknown_fields=True):
    """The price of one unit in a month."""

    price: Dollars
    unit: str
    source: Source


class Metered(Record, rename=None, forbid_unknown_fields=True):
    """The price of one unit beyond those that a plan includes."""

    price: Dollars
    unit: str
    included: Included = 0.0
    source: Source


class Fact(Record, rename=None, forbid_unknown_fields=True):
    """A number that a vendor publishes."""

    value: Size
    unit: str
    source: Source


class EdgePrices(Record, rename=None, forbid_unknown_fields=True):
    """The charges for Workers and Durable Objects."""

    plan: Rate
    requests: Metered
    cpu_ms: Metered
    object_requests: Metered
    object_gb_seconds: Metered
    key_reads: Metered
    rows_written: Metered
    rows_read: Metered
    storage_gb: Metered
    empty_object: Fact
    """Bytes of an object that has stored nothing."""


class Platform(Record, rename=None, forbid_unknown_fields=True):
    """Another platform with its charges for turns, tokens excluded."""

    name: str
    per_turn: Dollars = 0.0
    per_hour: Dollars = 0.0
    """For each hour of a turn's duration, waiting included."""
    source: Source


class PriceTable(Record, rename=None, forbid_unknown_fields=True):
    """A price table. The one that is shipped is an example to copy and edit."""

    date: date
    machines: Annotated[tuple[Machine, ...], msgspec.Meta(min_length=1)]
    disk: Rate
    backup: Rate
    traffic: Rate
    peers: tuple[Platform, ...] = ()
    edge: EdgePrices | None = None
    sandbox: Rate | None = None
    """An hour of a sandbox at another platform: the price of the jobs that the scheduler keeps on the server."""


def decode(text: bytes, name: str) -> PriceTable:
    """Returns the prices of a YAML file; `InvalidInput` names the fault."""
    # Late: the table of operations and the client load this module, and need no YAML.
    import yaml  # noqa: PLC0415

    try:
        return msgspec.convert(yaml.safe_load(text), PriceTable)
    except (msgspec.ValidationError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{name} is not a price table: {error}. `avm cost --print-prices` shows one") from None


def shipped_text() -> str:
    """The table of this release as it is written, with its comments."""
    return (resources.files("agentvm.cost") / "prices.yaml").read_text("utf-8")


@cache
def shipped() -> PriceTable:
    """The table of this release."""
    return decode(shipped_text().encode(), "prices.yaml")


def read(path: Path) -> PriceTable:
    """Returns the user's own table."""
    return decode(path.read_bytes(), str(path))
