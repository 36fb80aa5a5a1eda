"""Export — sessions out of a store, as they are read: an archive, or pages for people.

Nothing is held but a page of messages at a time. Each session is of one moment: turns that are still running, and their
messages, are left for the next export.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, TypeVarTuple, Unpack

import anyio.to_thread
import msgspec
from anyio import CapacityLimiter
from anyio.lowlevel import RunVar

from agentvm.errors import SessionNotFound
from agentvm.model.attachment import references_of
from agentvm.model.ids import ContainerId, MessageId, SessionId
from agentvm.model.image import Image
from agentvm.model.message import Message
from agentvm.model.session import Session
from agentvm.sessions import line
from agentvm.sessions.archive import BLOBS, CONTAINERS, IMAGES, ArchiveFormat, ArchiveWriter, Counts, MemberWriter, session_file
from agentvm.sessions.container_lines import items_of_container, of_item
from agentvm.sharing.byte_budget import ByteBudget
from agentvm.storage.carry import ExportedHistory
from agentvm.storage.sql.carry import Carrier
from agentvm.storage.sql.session_files import SessionFileStore
from agentvm.storage.sql.store import TenantStore

EXPORT_BYTES = 16 * 1024 * 1024
"""Memory that one export may need: a page of messages, and the same packed."""
MAX_EXPORTS, MAX_EXPORTS_OF_TENANT = 16, 8
"""Exports at a time, in all and of one tenant."""
MAX_THREADS = 4
"""Threads that exports compress in: many exports must not take the threads of other work."""

ReadChunk = Callable[[str, int], Awaitable[bytes | None]]
"""Returns a chunk of the bytes of a digest, by its number; empty at the end, None if they are gone."""

_threads: RunVar[CapacityLimiter] = RunVar("export_threads")
T = TypeVar("T")
Args = TypeVarTuple("Args")


def export_budget() -> ByteBudget:
    """Returns the memory budget of all exports of a server."""
    return ByteBudget(MAX_EXPORTS * EXPORT_BYTES, MAX_EXPORTS_OF_TENANT * EXPORT_BYTES)


async def _in_thread(work: Callable[[Unpack[Args]], T], *args: *Args) -> T:
    limiter = _threads.get(None)
    if limiter is None:
        limiter = CapacityLimiter(MAX_THREADS)
        _threads.set(limiter)
    return await anyio.to_thread.run_sync(work, *args, limiter=limiter)


@dataclass(frozen=True, slots=True)
class Selection:
    """The sessions to export of a container: one, or all."""

    container_id: ContainerId
    session_id: SessionId | None = None


@dataclass(frozen=True, slots=True)
class ExportedImage:
    """An image with its exported sessions."""

    image: Image
    sessions: tuple[Session, ...]


class ExportSource:
    """The sessions to export: a tenant's store, limited to the containers that the principal may read."""

    def __init__(self, store: TenantStore, carrier: Carrier) -> None:
        self.store = store
        self.carrier = carrier

    async def measure(self, selections: Sequence[Selection]) -> int:
        return sum([await self.carrier.measure(selection.container_id, selection.session_id) for selection in selections])

    async def list(self, selections: Sequence[Selection], *, with_agents: bool = False) -> list[ExportedImage]:
        """Returns the images in an order that is the same on every server; `with_agents` with the sessions of sub-agents."""
        images: list[ExportedImage] = []
        for selection in sorted(selections, key=lambda selection: selection.container_id):
            container = self.store.container(selection.container_id)
            chosen = None if selection.session_id is None else await container.get_session(selection.session_id)
            if selection.session_id is not None and chosen is None:
                raise SessionNotFound(selection.session_id)
            for image in sorted(await container.list_images(), key=lambda image: (image.created_at, image.image_id)):
                if chosen is not None and image.image_id != chosen.image_id:
                    continue
                sessions = (chosen,) if chosen is not None else await container.list_sessions(image.image_id)
                if with_agents:
                    below = [child for session in sessions for child in await container.list_below(session.session_id)]
                    sessions = (*sessions, *below)
                ordered = tuple(sorted(sessions, key=lambda session: (session.created_at, session.session_id)))
                images.append(ExportedImage(_led(image, ordered), ordered))
        return images

    async def messages(self, session: Session, history: ExportedHistory) -> AsyncIterator[tuple[Message, ...]]:
        after: int | None = 0
        while after is not None:
            page = await self.carrier.read(session.container_id, session.session_id, history, after)
            yield page.messages
            after = page.next

    def files(self, session: Session) -> SessionFileStore:
        return self.store.container(session.container_id).files(session.session_id)

    async def attached(self, session: Session, page: Sequence[Message]) -> tuple[str, ...]:
        """Returns the digests of the attachments of the messages, in order, as far as they exist."""
        digests = _wanted_digests(page)
        if not digests:
            return ()
        there = await self.store.container(session.container_id).attachments.sizes(digests)
        return tuple(digest for digest in digests if digest in there)


def _wanted_digests(page: Sequence[Message]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(digest for message in page for digest in references_of(message)))


def _led(image: Image, sessions: Sequence[Session]) -> Image:
    """Returns the image with a default session that is exported."""
    ids = [session.session_id for session in sessions if session.parent is None]
    return image if not ids or image.session_id in ids else msgspec.structs.replace(image, session_id=ids[0])


async def export_archive(source: ExportSource, selections: Sequence[Selection]) -> AsyncIterator[bytes]:
    """Yields the bytes of the archive as it is made."""
    leaving = await source.list(selections, with_agents=True)
    out = _Outgoing(source)
    out.images(leaving)
    await out.containers(selections, leaving)
    for image in leaving:
        for session in image.sessions:
            async for chunk in out.session(session):
                yield chunk
    yield await _in_thread(out.finish)


class _Outgoing:
    """An archive while it is written."""

    def __init__(self, source: ExportSource) -> None:
        self._source = source
        self._writer = ArchiveWriter()
        self._images = self._sessions = self._messages = self._turns = 0
        self._blobs: set[str] = set()
        self._format: ArchiveFormat = 1

    def images(self, leaving: Sequence[ExportedImage]) -> None:
        with self._writer.write(IMAGES) as member:
            for image in leaving:
                member.add(line.of_image(image.image))
        self._images = len(leaving)

    async def containers(self, selections: Sequence[Selection], leaving: Sequence[ExportedImage]) -> None:
        """Writes memories, schedules and triggers of the containers that are exported as a whole."""
        images = {exported.image.image_id: {session.session_id for session in exported.sessions} for exported in leaving}
        whole = sorted(selection.container_id for selection in selections if selection.session_id is None)
        lines = [of_item(item) for name in whole async for item in items_of_container(self._source.store, name, images)]
        if lines:
            self._format = 4
            with self._writer.write(CONTAINERS) as member:
                await _in_thread(member.add, b"".join(lines))

    async def session(self, session: Session) -> AsyncIterator[bytes]:
        history = await self._source.carrier.history(session.container_id, session.session_id)
        self._sessions += 1
        self._turns += len(history.turns)
        holders: dict[MessageId, list[str]] = {}
        files: list[str] = []
        exported: set[MessageId] = set()
        deltas = await self._source.files(session).history(history.last, history.rewound)
        with self._writer.write(session_file(self._sessions)) as member:
            member.add(line.of_session(session))
            await _in_thread(member.add, b"".join(map(line.of_turn, history.turns)))
            async for page in self._source.messages(session, history):
                there = await self._source.attached(session, page)
                await _in_thread(self._add_page, member, page, holders, there)
                files += there
                if chunk := self._writer.take():
                    yield chunk
                exported.update(message.id for message in page if deltas)
            # Those of turns that run are left for the next export, as their messages are.
            deltas = tuple(delta for delta in deltas if delta.message_id is None or delta.message_id in exported)
            await _in_thread(member.add, b"".join(map(line.of_file, deltas)))
        for message_id, digests in holders.items():
            await self._add_blobs(session, message_id, digests)
            yield self._writer.take()
        for digest in files:
            async for chunk in self._add_file(session, digest):
                yield chunk
        self._needs(3 if deltas else 1)
        for digest in dict.fromkeys(change.digest for delta in deltas for change in delta.changes if change.digest is not None):
            async for chunk in self._add_bytes(session, digest, self._source.files(session).read):
                yield chunk

    def _add_page(
        self, member: MemberWriter, page: tuple[Message, ...], holders: dict[MessageId, list[str]], there: Collection[str]
    ) -> None:
        self._messages += len(page)
        for message in page:
            text, digests = line.of_message(message, there)
            member.add(text)
            for digest in digests:
                if digest not in self._blobs:
                    self._blobs.add(digest)
                    holders.setdefault(message.id, []).append(digest)

    async def _add_blobs(self, session: Session, message_id: MessageId, digests: Sequence[str]) -> None:
        """Reads the message again: members are written one after the other, and all blobs may not fit in memory."""
        log = self._source.store.container(session.container_id).log(session.session_id)
        messages = await log.get_messages([message_id])
        if not messages:
            # Deleted meanwhile. What was sent has no end yet, so nobody takes it for an archive.
            raise SessionNotFound(session.session_id)
        await _in_thread(self._write_blobs, line.blobs_of(messages[0]), digests)

    async def _add_file(self, session: Session, digest: str) -> AsyncIterator[bytes]:
        self._needs(2)
        attachments = self._source.store.container(session.container_id).attachments
        async for chunk in self._add_bytes(session, digest, attachments.read):
            yield chunk

    async def _add_bytes(self, session: Session, digest: str, read: ReadChunk) -> AsyncIterator[bytes]:
        if digest in self._blobs:
            return
        self._blobs.add(digest)
        number = 0
        with self._writer.write(BLOBS + digest.removeprefix("sha256:"), stored=True) as member:
            while chunk := await read(digest, number):
                number += 1
                await _in_thread(member.add, chunk)
                yield self._writer.take()
        if chunk is None:
            # Deleted meanwhile, with the messages that refer to it.
            raise SessionNotFound(session.session_id)

    def _write_blobs(self, blobs: Mapping[str, bytes], digests: Sequence[str]) -> None:
        for digest in digests:
            with self._writer.write(BLOBS + digest.removeprefix("sha256:"), stored=True) as member:
                member.add(blobs[digest])

    def _needs(self, number: ArchiveFormat) -> None:
        self._format = max(self._format, number)

    def finish(self) -> bytes:
        counts = Counts(
            images=self._images,
            sessions=self._sessions,
            messages=self._messages,
            turns=self._turns,
            blobs=len(self._blobs),
        )
        self._writer.finish(counts, self._format)
        return self._writer.take()
