"""History — the messages of a session in the order of the conversation, and how they are rewritten. Pure.

Messages are stored in the order in which they came. A queued message was stored before the answer to the previous one, so a
conversation is read turn by turn: a user message and everything that follows from it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentvm.errors import InvalidInput, NotFound
from agentvm.errors.bounds import HistoryTooLarge
from agentvm.events.lifecycle import SessionRewound
from agentvm.model.exchange import by_turn
from agentvm.model.ids import MessageId, RewindId, SessionId
from agentvm.model.message import Message, ToolCallMessage, UserContent, UserMessage, is_foreign


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The messages to rewind, and the new message, if any."""

    taken: tuple[MessageId, ...]
    content: UserContent | None = None
    kept_id: MessageId | None = None
    """The last message that stays."""
    folded: int = 0
    """The messages to rewind, an answer with its tool calls counted as one."""
    tainted: bool = False
    """Whether the new message takes the place of one with untrusted text."""

    def rewound(self, session_id: SessionId, rewind_id: RewindId, at: int) -> SessionRewound | None:
        """Returns the event of taking back; None if nothing is taken."""
        if not self.taken:
            return None
        return SessionRewound(
            session_id=session_id,
            rewind_id=rewind_id,
            message_ids=self.taken,
            rewound_at=at,
            kept_id=self.kept_id,
            folded=self.folded,
        )


Choose = Callable[[Sequence[Message]], Rewrite]
"""Chooses the rewrite of a history. Called while no other caller can change it."""


REWRITE_MAX_BYTES = 64 * 1024 * 1024
"""Maximum of a history that is read to change it, or to fork it."""


def select(choose: Choose, history: Sequence[Message], truncated: bool) -> Rewrite:
    """Returns the change of a history; `HistoryTooLarge` when it concerns a part that was not read (`truncated`)."""
    try:
        return choose(history)
    except NotFound as error:
        if not truncated:
            raise
        raise HistoryTooLarge(
            f"{error}, as far as {REWRITE_MAX_BYTES // 2**20} MiB reach back; fork the session from that message instead"
        ) from None


def in_order(history: Sequence[Message]) -> list[Message]:
    return [message for turn in by_turn(history) for message in turn]


def up_to(history: Sequence[Message], last: MessageId) -> list[Message]:
    """The conversation up to and with that message."""
    ordered = in_order(history)
    return ordered[: _place(ordered, last) + 1]


def keep_to(last: MessageId) -> Choose:
    """Removes all messages after that message."""

    def choose(history: Sequence[Message]) -> Rewrite:
        ordered = in_order(history)
        return _rewrite(ordered, _place(ordered, last) + 1)

    return choose


def take_from(first: MessageId) -> Choose:
    """Removes that message and all later ones."""

    def choose(history: Sequence[Message]) -> Rewrite:
        ordered = in_order(history)
        return _rewrite(ordered, _place(ordered, first))

    return choose


def edit(message_id: MessageId, content: UserContent) -> Choose:
    """Replaces that message; all later messages are removed."""

    def choose(history: Sequence[Message]) -> Rewrite:
        ordered = in_order(history)
        place = _place(ordered, message_id)
        if not isinstance(ordered[place], UserMessage):
            raise InvalidInput(f"{message_id} is not a message of a user; only those can be edited")
        return _rewrite(ordered, place, content, tainted=is_foreign(ordered[place]))

    return choose


def regenerate(message_id: MessageId | None) -> Choose:
    """Asks the question of that answer again; by default the last one."""

    def choose(history: Sequence[Message]) -> Rewrite:
        ordered = in_order(history)
        end = len(ordered) - 1 if message_id is None else _place(ordered, message_id)
        question_place = next((place for place in range(end, -1, -1) if isinstance(ordered[place], UserMessage)), None)
        question = None if question_place is None else ordered[question_place]
        if question_place is None or not isinstance(question, UserMessage):
            raise InvalidInput("There is no message yet; send one first")
        return _rewrite(ordered, question_place, question.content, tainted=question.tainted)

    return choose


def _rewrite(ordered: Sequence[Message], place: int, content: UserContent | None = None, *, tainted: bool = False) -> Rewrite:
    removed = ordered[place:]
    return Rewrite(
        tuple(message.id for message in removed),
        content,
        kept_id=ordered[place - 1].id if place else None,
        folded=sum(not isinstance(message, ToolCallMessage) for message in removed),
        tainted=tainted,
    )


def _place(ordered: Sequence[Message], message_id: MessageId) -> int:
    for place, message in enumerate(ordered):
        if message.id == message_id:
            return place
    raise NotFound(f"There is no message {message_id} in this session")
