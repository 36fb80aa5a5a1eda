"""Intake — what comes in: read and checked as a whole, then written at once, or not at all."""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import BinaryIO, Literal

import anyio.to_thread

from agentvm.errors import InvalidInput
from agentvm.events.base import EventData, Scope
from agentvm.events.lifecycle import ImageCreated, SessionCreated
from agentvm.model.base import Record
from agentvm.model.ids import Clock, ContainerId, NewId
from agentvm.model.image import Image
from agentvm.model.session import Session
from agentvm.sessions import chatgpt, claude, openwebui
from agentvm.sessions.archive import MAX_BLOB, Counts
from agentvm.sessions.foreign import Parse, read_foreign
from agentvm.sessions.reading import read_archive
from agentvm.sessions.spool import Renamed, Spool
from agentvm.storage.carry import Carrier

MOST_TOLD = 1_000
"""Images and sessions of one import that are told."""

Kind = Literal["archive", "chatgpt", "claude", "openwebui"]

FOREIGN: Mapping[Kind, Parse] = {"chatgpt": chatgpt.parse, "claude": claude.parse, "openwebui": openwebui.parse}


class ImportReport(Record, omit_defaults=False):
    """What was imported, or would be. `renamed` are ids that were taken here, with the new ones."""

    counts: Counts
    containers: tuple[str, ...]
    renamed: dict[str, str]
    bytes: int
    dry_run: bool


async def stage(
    file: BinaryIO,
    kind: Kind,
    spool: Spool,
    *,
    container_id: ContainerId | None,
    new_id: NewId,
    most_attached: int = MAX_BLOB,
) -> None:
    """Checks everything. Others' conversations have no container of their own, so one must be named.

    `most_attached` are the bytes that an attachment may have here.
    """
    work: Callable[[], None]
    if kind == "archive":

        def work() -> None:
            read_archive(file, spool, most_attached)

    elif container_id is None:
        raise InvalidInput("Say where the conversations go: `container` is needed")
    else:
        target, parse = container_id, FOREIGN[kind]

        def work() -> None:
            read_foreign(file, parse, spool, target, new_id)

    await anyio.to_thread.run_sync(work)


async def plan(spool: Spool, carrier: Carrier, *, container_id: ContainerId | None, new_id: NewId) -> Renamed:
    """Ids are kept if they are free here; otherwise all that has them gets new ones."""
    taken = await carrier.taken([*spool.images, *spool.sessions])
    return Renamed(
        images={old: new_id("img") for old in spool.images if old in taken},
        sessions={old: new_id("sess") for old in sorted(spool.sessions) if old in taken},
        container=container_id,
    )


def destinations(spool: Spool, container_id: ContainerId | None) -> dict[ContainerId, int]:
    """How many images go into which container."""
    return spool.containers if container_id is None or not spool.images else {container_id: len(spool.images)}


async def write(spool: Spool, renamed: Renamed, carrier: Carrier, clock: Clock) -> None:
    await carrier.add(lambda: spool.load(renamed), clock())


async def arrivals(spool: Spool, renamed: Renamed) -> list[tuple[Scope, EventData]]:
    """What those are told who work with the containers: of each image, and of sessions besides the default ones.

    Of the first thousand: a device that is told more at once than it can take would be cut off, and lists have the rest.
    """
    found = await anyio.to_thread.run_sync(lambda: list(islice(spool.arrivals(renamed), MOST_TOLD)))
    return [(Scope(container_id=one.container_id, image_id=one.image_id), _told(one)) for one in found]


def _told(one: Image | Session) -> EventData:
    if isinstance(one, Image):
        return ImageCreated(image_id=one.image_id, container_id=one.container_id, name=one.name, created_at=one.created_at)
    return SessionCreated(
        session_id=one.session_id,
        image_id=one.image_id,
        container_id=one.container_id,
        title=one.title,
        created_at=one.created_at,
    )


def report(spool: Spool, renamed: Renamed, *, dry_run: bool) -> ImportReport:
    return ImportReport(
        counts=spool.counts,
        containers=tuple(sorted(destinations(spool, renamed.container))),
        renamed={**renamed.images, **renamed.sessions},
        bytes=spool.size,
        dry_run=dry_run,
    )
