"""Coefficients — what one turn, one delta and one user take, as measured by `python -m bench.cost`."""

from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated

import msgspec

from agentvm.errors import InvalidInput
from agentvm.model.base import Record

Measure = Annotated[float, msgspec.Meta(ge=0, le=10**15)]


class Measured(Record):
    """A number with its unit and its source."""

    value: Measure
    unit: str
    source: Annotated[str, msgspec.Meta(pattern=r"\S")]


class EdgeCoefficients(Record, rename=None):
    """The numbers of one run of `python -m bench.edge`: what the platform of the edge bills."""

    date: str
    machine: str
    worker_requests_per_connection: Measured
    object_requests_per_connection: Measured
    object_requests_per_turn: Measured
    rows_per_turn: Measured
    """Rows written, alarms included."""
    awake_per_turn: Measured
    """Milliseconds that the object of the container is awake."""
    cpu_per_turn: Measured
    """Milliseconds of a turn without any delta."""
    cpu_per_delta: Measured
    """Microseconds."""
    storage_per_turn: Measured
    """Bytes."""


class ClusterCoefficients(Record, rename=None):
    """The numbers of a node that stores in PostgreSQL."""

    cpu_of_database_per_turn: Measured
    """Milliseconds of PostgreSQL for a turn of 100 deltas."""
    memory_of_database: Measured
    """Bytes of a PostgreSQL server with its connections."""
    disk_ratio: Measured
    """Bytes in PostgreSQL for each byte in SQLite."""


class Coefficients(Record, rename=None):
    """The numbers of one run of the benchmarks."""

    date: str
    machine: str
    version: str
    cpu_per_turn: Measured
    """Milliseconds of a turn without any delta."""
    cpu_per_delta: Measured
    """Microseconds."""
    cpu_per_tool_call: Measured
    """Milliseconds of a call in a jail, its interpreter included."""
    memory_of_server: Measured
    """Bytes of a server without users."""
    memory_per_socket: Measured
    """Bytes of a connected user."""
    memory_per_stream: Measured
    """Bytes of a turn that waits for its model, beyond the connected user."""
    memory_per_jail: Measured
    """Bytes."""
    disk_per_user: Measured
    """Bytes of a user with a container, an image and a session, who has said nothing."""
    disk_per_turn: Measured
    """Bytes of a turn beyond what grows with its text."""
    disk_per_text: Measured
    """Bytes on disk for each byte of text."""
    traffic_per_delta: Measured
    """Bytes sent to the client."""
    edge: EdgeCoefficients | None = None
    """Absent before `python -m bench.edge` has run."""
    cluster: ClusterCoefficients | None = None


def decode(text: bytes, name: str) -> Coefficients:
    """Returns the coefficients of a file; `InvalidInput` names what is wrong with it."""
    try:
        return msgspec.json.decode(text, type=Coefficients)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"{name} has no coefficients: {error}. `python -m bench.cost FILE` writes such a file") from None


@cache
def shipped() -> Coefficients:
    """The coefficients that were measured on this release."""
    file = resources.files("agentvm.cost") / "coefficients.json"
    return decode(file.read_bytes(), file.name)


def read(path: Path) -> Coefficients:
    """Returns the coefficients of the user's own run of the benchmarks."""
    return decode(path.read_bytes(), str(path))
