"""Placement — decides where each image and session of an import is stored: its id, and the existing messages before it. Pure.

Theory of operation. Ids are kept where they are free. An id that is taken in the container where it should go is the same image
or session, imported before: nothing is written twice, and messages that are new are added behind those that are here.
Where that is not possible, because the id belongs to another container or the conversation continued here, another id is taken.
It follows from the old id and the container, so the same file finds its way there again the next time.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from agentvm.model.ids import ContainerId, ImageId, SessionId, TurnId
from agentvm.model.image import Image
from agentvm.model.message import Message
from agentvm.model.session import ParentCall, Session
from agentvm.model.turn import Turn
from agentvm.storage.carry import ExistingSession

MAX_GENERATIONS = 20
"""Ids that are tried for one image or session before it gets one by chance."""


class ExistingPart(NamedTuple):
    """The part of a session that exists already: its first messages, and about as many turns."""

    messages: int
    turns: int


@dataclass(frozen=True, slots=True)
class Placement:
    """By the ids in the file. `container` is where everything goes, if not where the file says."""

    images: Mapping[str, str] = field(default_factory=dict)
    """New ids of the images that need one."""
    sessions: Mapping[str, str] = field(default_factory=dict)
    present: frozenset[str] = frozenset()
    """Images that exist already."""
    known: Mapping[str, ExistingPart] = field(default_factory=dict)
    """Sessions that exist already."""
    complete: frozenset[str] = frozenset()
    """Existing sessions without new messages."""
    container: ContainerId | None = None

    @property
    def renamed(self) -> dict[str, str]:
        """The ids that new items have here instead of their own."""
        images = {old: new for old, new in self.images.items() if old not in self.present}
        sessions = {old: new for old, new in self.sessions.items() if old not in self.known}
        return {**images, **sessions}

    def image(self, image: Image) -> Image:
        return msgspec.structs.replace(
            image,
            image_id=ImageId(self.images.get(image.image_id, image.image_id)),
            session_id=SessionId(self.sessions.get(image.session_id, image.session_id)),
            container_id=self.container or image.container_id,
        )

    def session(self, session: Session) -> Session:
        fork = session.forked_from
        if fork is not None:
            origin = SessionId(self.sessions.get(fork.session_id, fork.session_id))
            fork = msgspec.structs.replace(fork, session_id=origin)
        return msgspec.structs.replace(
            session,
            session_id=SessionId(self.sessions.get(session.session_id, session.session_id)),
            image_id=ImageId(self.images.get(session.image_id, session.image_id)),
            container_id=self.container or session.container_id,
            forked_from=fork,
            parent=None if session.parent is None else self._parent(session.parent),
        )

    def _parent(self, parent: ParentCall) -> ParentCall:
        """Returns the call of a sub-agent, whose sessions and turns may have other ids here."""
        return msgspec.structs.replace(
            parent,
            session_id=SessionId(self.sessions.get(parent.session_id, parent.session_id)),
            turn_id=self.turn_id(parent.session_id, parent.turn_id),
            root_session=SessionId(self.sessions.get(parent.root_session, parent.root_session)),
            root_turn=self.turn_id(parent.root_session, parent.root_turn),
        )

    def turn(self, session_id: SessionId, turn: Turn) -> Turn:
        turn_id = self.turn_id(session_id, turn.turn_id)
        return turn if turn_id == turn.turn_id else msgspec.structs.replace(turn, turn_id=turn_id)

    def message(self, session_id: SessionId, message: Message) -> Message:
        if message.turn_id is None:
            return message
        turn_id = self.turn_id(session_id, message.turn_id)
        return message if turn_id == message.turn_id else msgspec.structs.replace(message, turn_id=turn_id)

    def turn_id(self, session_id: SessionId, turn_id: TurnId) -> TurnId:
        """A turn is named in bills, so a second session of the tenant must not have the same."""
        renamed = self.sessions.get(session_id)
        return turn_id if renamed is None else TurnId(f"{turn_id}_{renamed.rpartition('_')[2]}")


def candidate(prefix: str, old: str, container_id: ContainerId, generation: int) -> str:
    """The id that is tried in this generation; the first is its own."""
    if not generation:
        return old
    named = "\n".join((old, container_id, str(generation)))
    return f"{prefix}_{hashlib.sha256(named.encode()).hexdigest()[:24]}"


def existing_messages(here: ExistingSession, messages: int, last_known: str | None) -> int | None:
    """How many of a session's messages are here already; None when it is another history.

    `messages` are those in the file, of which `last_known` is the one in the place of the last that is here.
    """
    if here.is_deleted:
        return None
    if here.reached == messages:
        # Also if more was said here since, or taken back.
        return messages
    if here.messages < messages and not here.is_rewound and here.last == last_known:
        return here.messages
    return None
