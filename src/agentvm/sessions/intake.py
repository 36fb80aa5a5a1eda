"""Intake — imports a file: parsed and validated as a whole by a separate process, then written completely, or not at all."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, BinaryIO

import anyio.to_thread

from agentvm.events.base import EventData, EventScope
from agentvm.events.lifecycle import ImageCreated, SessionCreated
from agentvm.model.base import Record
from agentvm.model.ids import Clock, ContainerId, NewId
from agentvm.model.image import Image
from agentvm.model.memory import ContainerMemory
from agentvm.model.schedule import Schedule, Trigger
from agentvm.sessions.archive import ImportCounts
from agentvm.sessions.container_lines import Importer, candidates, place_items
from agentvm.sessions.import_reader import Orders, Reading
from agentvm.sessions.placement import MAX_GENERATIONS, ExistingPart, Placement, candidate, existing_messages
from agentvm.sessions.staged import Staged
from agentvm.storage.carry import ContainerItem, ExistingSession

if TYPE_CHECKING:
    from agentvm.storage.sql.carry import Carrier

ANNOUNCED_MAX = 1_000
"""Images and sessions of one import that are announced."""

Read = Callable[[BinaryIO, BinaryIO, Orders], Awaitable[Reading]]
"""Reads the first file and writes its records to the second, a spool."""


class ImportReport(Record, omit_defaults=False):
    """The result of an import, or of a dry run; `format` is the program that wrote the file.

    `counts` and `bytes` are of new data. `known` sessions were here already as they are in the file, `continued` ones were here
    and got messages. `renamed` are ids that were taken here, with the new ones.
    """

    format: str
    counts: ImportCounts
    known: int
    continued: int
    containers: tuple[str, ...]
    renamed: dict[str, str]
    bytes: int
    dry_run: bool


async def stage(file: BinaryIO, spool: BinaryIO, orders: Orders, read: Read) -> tuple[Staged, Reading]:
    """Checks everything. `ArchiveInvalid` or `ArchiveTooLarge` for a file that is not complete and sound."""
    reading = await read(file, spool, orders)
    return await anyio.to_thread.run_sync(lambda: Staged(spool, blobs=reading.blobs)), reading


async def plan(staged: Staged, carrier: "Carrier", *, container_id: ContainerId | None, new_id: NewId) -> Placement:
    """Returns the placement of every image and session; see `agentvm.sessions.placement`."""
    images, present = await _place_images(staged, carrier, container_id, new_id)
    sessions, placed = await _Sessions(staged, carrier, container_id, new_id, images).place()
    return Placement(
        images=images,
        sessions=sessions,
        present=present,
        known=placed,
        complete=frozenset(old for old, part in placed.items() if part.messages == staged.sessions[old].messages),
        container=container_id,
    )


async def _place_images(
    staged: Staged, carrier: "Carrier", container_id: ContainerId | None, new_id: NewId
) -> tuple[dict[str, str], frozenset[str]]:
    """The new ids of those that need one, and those that are here already."""
    waiting = {old: container_id or image.container_id for old, image in staged.images.items()}
    placed: dict[str, str] = {}
    present: set[str] = set()
    for generation in range(MAX_GENERATIONS):
        tried = {old: candidate("img", old, where, generation) for old, where in waiting.items()}
        here = await carrier.existing_images(tried.values()) if tried else {}
        for old, name in tried.items():
            if name in here and here[name] != waiting[old]:
                continue
            present |= {old} if name in here else set()
            placed |= {old: name} if generation else {}
            del waiting[old]
    return placed | {old: new_id("img") for old in waiting}, frozenset(present)


class _Sessions:
    """The sessions of an import while it is found out where they go."""

    def __init__(
        self, staged: Staged, carrier: "Carrier", container_id: ContainerId | None, new_id: NewId, images: Mapping[str, str]
    ) -> None:
        self._staged = staged
        self._carrier = carrier
        self._container_id = container_id
        self._new_id = new_id
        self._images = images

    async def place(self) -> tuple[dict[str, str], dict[str, ExistingPart]]:
        """Returns the new ids of sessions that need one, and the existing data of the others."""
        waiting = dict.fromkeys(self._staged.sessions)
        placed: dict[str, str] = {}
        existing_by_name: dict[str, ExistingPart] = {}
        for generation in range(MAX_GENERATIONS):
            tried = {candidate("sess", old, self._home(old), generation): old for old in waiting}
            here = await self._here(tried)
            places = {name: self._image_and_home(old) for name, old in tried.items()}
            for name, old in tried.items():
                if (existing := here.get(name)) is not None:
                    if (existing.image_id, existing.container_id) != places[name]:
                        continue
                    messages = await anyio.to_thread.run_sync(self._count_existing, old, existing)
                    if messages is None:
                        continue
                    existing_by_name[old] = ExistingPart(messages, min(existing.turns, self._staged.sessions[old].turns))
                placed |= {old: name} if generation else {}
                del waiting[old]
        return placed | {old: self._new_id("sess") for old in waiting}, existing_by_name

    async def _here(self, tried: Mapping[str, str]) -> Mapping[str, ExistingSession]:
        """Two looks: only for those that are here is it found out which message is their last in the file."""
        if not tried:
            return {}
        existing = await self._carrier.existing_sessions(dict.fromkeys(tried))
        last = await anyio.to_thread.run_sync(self._last, {name: tried[name] for name in existing})
        return await self._carrier.existing_sessions(last) if last else {}

    def _last(self, names: Mapping[str, str]) -> dict[str, str | None]:
        sessions = self._staged.sessions
        return {name: self._staged.message_id(old, sessions[old].messages) for name, old in names.items()}

    def _count_existing(self, old: str, here: ExistingSession) -> int | None:
        return existing_messages(here, self._staged.sessions[old].messages, self._staged.message_id(old, here.messages))

    def _home(self, old: str) -> ContainerId:
        return self._container_id or self._staged.sessions[old].container_id

    def _image_and_home(self, old: str) -> tuple[str, ContainerId]:
        image_id = self._staged.sessions[old].image_id
        return self._images.get(image_id, image_id), self._home(old)


async def plan_items(staged: Staged, carrier: "Carrier", placement: Placement, by: Importer) -> list[ContainerItem]:
    """Returns the memories, schedules and triggers that are new here."""
    homes = [(item, placement.container or item.container_id) for item in staged.items]
    names = {(home, name) for item, home in homes for name in candidates(item, home, by.tenant_id)}
    return place_items(staged.items, placement, await carrier.existing_items(names) if names else (), by)


def destinations(staged: Staged, placement: Placement) -> dict[ContainerId, int]:
    """Returns the number of new images for each container with new data."""
    counts: dict[ContainerId, int] = {}
    for old, image in staged.images.items():
        home = placement.container or image.container_id
        counts[home] = counts.get(home, 0) + (old not in placement.present)
    return counts | {home: 0 for item in staged.items if (home := placement.container or item.container_id) not in counts}


async def write(
    staged: Staged, placement: Placement, carrier: "Carrier", clock: Clock, items: Sequence[ContainerItem] = ()
) -> None:
    if len(placement.complete) < len(staged.sessions) or items:
        await carrier.add(lambda: chain(staged.load(placement), items), clock())


async def arrivals(staged: Staged, placement: Placement) -> list[tuple[EventScope, EventData]]:
    """Returns the events for connections of the containers: of each image, and of sessions besides the default ones.

    Only of the first thousand: a client that gets more events than it can read would be cut off, and lists have the rest.
    """
    records = await anyio.to_thread.run_sync(lambda: list(islice(staged.arrivals(placement), ANNOUNCED_MAX)))
    return [
        (
            EventScope(container_id=record.container_id, image_id=record.image_id),
            ImageCreated.of(record) if isinstance(record, Image) else SessionCreated.of(record),
        )
        for record in records
    ]


def report(
    staged: Staged, placement: Placement, reading: Reading, items: Sequence[ContainerItem] = (), *, dry_run: bool
) -> ImportReport:
    placed = placement.known
    counts = ImportCounts(
        images=len(staged.images) - len(placement.present),
        sessions=len(staged.sessions) - len(placed),
        messages=staged.counts.messages - sum(part.messages for part in placed.values()),
        turns=staged.counts.turns - sum(part.turns for part in placed.values()),
        blobs=0 if len(placement.complete) == len(staged.sessions) else staged.counts.blobs,
        memories=sum(isinstance(item, ContainerMemory) for item in items),
        schedules=sum(isinstance(item, Schedule) for item in items),
        triggers=sum(isinstance(item, Trigger) for item in items),
    )
    return ImportReport(
        format=reading.kind,
        counts=counts,
        known=len(placement.complete),
        continued=len(placed) - len(placement.complete),
        containers=tuple(sorted(destinations(staged, placement))),
        renamed=placement.renamed,
        bytes=adding(staged, placement),
        dry_run=dry_run,
    )


def adding(staged: Staged, placement: Placement) -> int:
    """Bytes that are new. It takes a while: use a thread."""
    if len(placement.complete) == len(staged.sessions):
        return 0
    return staged.size - sum(_known_sizes(staged, placement))


def _known_sizes(staged: Staged, placement: Placement) -> Iterator[int]:
    for old, part in placement.known.items():
        session = staged.sessions[old]
        yield session.size if old in placement.complete else session.size - staged.size_behind(old, part.messages)
