"""Coefficients — the resources of one turn, one delta and one user, as measured by `python -m bench.cost`."""

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
    """The numbers of one run of `python -m bench.edge`: the units that the platform of the edge bills."""

    date: str
    machine: str
    worker_requests_per_connection: Measured
    object_requests_per_connection: Measured
    object_requests_per_turn: Measured
    rows_per_turn: Measured
    """Rows written, alarms included."""
    rows_read_per_turn: Measured
    awake_per_turn: Measured
    """Milliseconds that the object of the container is awake."""
    object_requests_per_booked_turn: Measured
    """With a server that books the calls: each turn has an alarm, which sends them."""
    rows_per_booked_turn: Measured
    rows_read_per_booked_turn: Measured
    awake_per_booked_turn: Measured
    key_reads_per_turn: Measured
    """Lookups of the key of an open connection; opening it is another one."""
    cpu_per_turn: Measured
    """Milliseconds of a turn without any delta."""
    cpu_per_delta: Measured
    """Microseconds."""
    storage_per_turn: Measured
    """Bytes of a turn, besides the bytes that grow with its text."""
    storage_per_text: Measured
    """Bytes stored for each byte of text."""


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
    """Microseconds of a delta that comes alone, at the pace of a model."""
    cpu_per_visit: Measured
    """Milliseconds of a connection that is opened, and of an agent that was not in memory."""
    cpu_per_tool_call: Measured
    """Milliseconds of a call in a jail, its interpreter included."""
    memory_of_server: Measured
    """Bytes of a server without users."""
    memory_per_socket: Measured
    """Bytes of a connected user."""
    memory_per_stream: Measured
    """Bytes of a turn that waits for its model, beyond the connected user."""
    memory_per_agent: Measured
    """Bytes of an agent that has answered and waits for its user to say more."""
    memory_per_jail: Measured
    """Bytes."""
    disk_per_user: Measured
    """Bytes of a user with a container, an image and an empty session."""
    disk_per_turn: Measured
    """Bytes of a turn, besides the bytes that grow with its text."""
    disk_per_text: Measured
    """Bytes on disk for each byte of text."""
    syncs_per_turn: Measured
    """Times that a turn waits for the disk, if no other turn shares them."""
    backup_ratio: Measured
    """Bytes of a backup for each byte of the database."""
    traffic_per_delta: Measured
    """Bytes sent to the client."""
    edge: EdgeCoefficients | None = None
    """Absent before `python -m bench.edge` has run."""
    cluster: ClusterCoefficients | None = None


class NamedMeasure(Measured):
    """A coefficient as a reader of a bill sees it."""

    name: str


def list_measures(*sections: Record | None) -> tuple[NamedMeasure, ...]:
    """The coefficients of sections, without the sections within them."""
    fields = (
        (name, getattr(section, name)) for section in sections if section is not None for name in section.__struct_fields__
    )
    return tuple(
        NamedMeasure(name=name.replace("_", " "), value=measure.value, unit=measure.unit, source=measure.source)
        for name, measure in fields
        if isinstance(measure, Measured)
    )


def decode(text: bytes, name: str) -> Coefficients:
    """Returns the coefficients of a file; `InvalidInput` names the fault."""
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
