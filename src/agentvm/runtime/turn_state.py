"""Turn state — a running turn as a value, and the ids that its messages get. Pure."""

import msgspec

from agentvm.events.base import EventData
from agentvm.events.turn import TurnStop
from agentvm.model.ids import MessageId, TurnId
from agentvm.model.message import ProviderContent, ThinkingPart, ToolCall
from agentvm.model.usage import NO_USAGE, Usage

Chunks = tuple["Chunks", str] | None
"""Text in the order it came, as a linked list: appending costs the same however much there is."""


class OpenCall(msgspec.Struct, frozen=True):
    """A tool call the model is still asking for."""

    call_id: str
    name: str
    by_provider: bool = False
    json: Chunks = None
    characters: int = 0
    """Length of the input so far; one that is too long is counted and not kept."""


class Unchecked(msgspec.Struct, frozen=True):
    """An answer that is whole, and has yet to be compared with the schema that it must fit."""

    text: str
    stop: TurnStop


class TurnState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a running turn."""

    turn_id: TurnId
    user_message_id: MessageId
    accepted_at: int
    produced: int = 0
    """How many message ids were given out."""
    ended: bool = False
    usage: Usage = NO_USAGE
    """Usage of the model calls that ended."""
    model: str | None = None
    call_ids: frozenset[str] = frozenset()
    """Keys of every tool call of the turn so far."""
    prompt_tokens: int = 0
    """An estimate of the input tokens, for a call that is interrupted before the provider reports them."""
    asked: str | None = None
    """The model that is asked, as `<provider>/<model>`."""
    asked_at: int | None = None
    attempt: int = 1
    """The number of attempts of this model call, including this one."""
    asked_key: str | None = None
    """Names the call that was asked, until it is billed."""
    hidden_tokens: int = 0
    """The most that the model may think with and not show."""
    spoken_at: int | None = None
    """When the first text of the call came."""
    told: str = ""
    """Text of a message that a restart cut off, which clients have received; the next message begins with it."""
    told_id: MessageId | None = None
    """The id that they know it by."""

    # The model call in progress.
    message_id: MessageId | None = None
    message_started_at: int = 0
    text: Chunks = None
    prefix: str = ""
    """The beginning of the message from before a restart; `text` is the rest."""
    repeated: int | None = None
    """The length of the repeated prefix, which is not sent twice; None if the model has not started with it."""
    thinking: tuple[ThinkingPart, ...] = ()
    open_thinking: Chunks = None
    open_call: OpenCall | None = None
    pending: tuple[ToolCall, ...] = ()
    """Calls to run once the message has stopped."""
    responding: bool = False
    call_usage: Usage = NO_USAGE

    # Tools that the provider runs.
    at_provider: tuple[ToolCall, ...] = ()
    """Calls that have no result yet; it may come with the next message."""
    provider_content: ProviderContent | None = None
    paused: bool = False
    """Whether the provider continues when it is asked again."""
    heard_strangers: bool = False
    """Whether the provider has read untrusted text."""

    sources: dict[int, str] = msgspec.field(default_factory=dict)
    """The citations of the passages that the model received, by their numbers."""

    # An answer that must fit a schema.
    checks_output: bool = False
    """Whether an answer without calls is first checked, instead of ending the turn."""
    unchecked: Unchecked | None = None


Events = tuple[EventData, ...]
Step = tuple[TurnState, Events]
replace = msgspec.structs.replace


def begin(turn_id: TurnId, user_message_id: MessageId, accepted_at: int) -> TurnState:
    return TurnState(turn_id=turn_id, user_message_id=user_message_id, accepted_at=accepted_at)


def next_id(now: TurnState) -> MessageId:
    """The id that the next message of the turn gets."""
    return MessageId(f"msg_{now.turn_id.removeprefix('turn_')}_{now.produced + 1}")


def take_id(now: TurnState) -> tuple[TurnState, MessageId]:
    return replace(now, produced=now.produced + 1), next_id(now)


def join(chunks: Chunks) -> str:
    parts: list[str] = []
    while chunks is not None:
        chunks, text = chunks
        parts.append(text)
    return "".join(reversed(parts))
