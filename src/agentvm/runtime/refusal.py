"""Refusal — excludes the parts of a conversation that a provider refuses, so that the rest of it can continue. Pure.

Theory of operation. An error that names a part is believed. One that does not is taken for one about the newest picture or file
if it speaks of such, about calls of tools if it speaks of those, and otherwise about the parts of the earlier conversation that
are not plain text. A refused part of the current message fails the turn with an error that names it; an older part is excluded
and the model called again, at most twice. A guess is stored only when the model has then answered.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import msgspec

from agentvm.drivers.base import AssistantEntry, ConversationEntry, ToolResultsEntry, UserEntry
from agentvm.errors import ProviderBadRequest
from agentvm.model.ids import MessageId
from agentvm.model.message import (
    AssistantMessage,
    ContentOutput,
    FilePart,
    ImagePart,
    Message,
    TextPart,
    ToolCallMessage,
    ToolOutput,
    ToolResultMessage,
    UserMessage,
    UserPart,
    parts_of,
    with_parts,
)
from agentvm.model.session import RefusedPart
from agentvm.runtime.context import Traced

RETRIES_MAX = 2
"""How often a turn asks once more after parts were set aside."""

NOTE = "refused by the provider"


@dataclass(frozen=True, slots=True)
class SetAside:
    """The parts that are left out from now on."""

    parts: tuple[RefusedPart, ...]
    again: bool
    """Whether the model is asked once more; else the turn fails."""
    certain: bool = True
    """Whether the provider has said that it is this."""


def decide(
    error: ProviderBadRequest, conversation: Sequence[Traced], current: MessageId, refused: Collection[RefusedPart], times: int
) -> SetAside | None:
    """Returns the remedy for a refused request; None when no message is to blame.

    `current` is the user's message that is answered; `times` is how often the turn has set parts aside before.
    """
    kind = error.kind
    if kind is None:
        return None
    target = _named(error, conversation) if error.place is not None else None
    blamed = (target,) if target is not None else _guess(kind, conversation, current, times)
    parts = tuple(part for part in blamed if part not in refused)
    if not parts:
        return None
    if any(part.message_id == current for part in parts):
        return SetAside(parts, again=False)
    return SetAside(parts, again=True, certain=target is not None) if times < RETRIES_MAX else None


def describe(parts: Sequence[RefusedPart], conversation: Sequence[Traced]) -> str:
    """Describes the refused parts for their sender."""
    entries = {message_id: entry for entry, message_id in conversation if message_id is not None}
    return ", ".join(dict.fromkeys(_name(part, entries.get(part.message_id)) for part in parts))


def without(history: Sequence[Message], refused: Collection[RefusedPart]) -> Sequence[Message]:
    """The history for a prompt, with notes in place of refused parts."""
    if not refused:
        return history
    whole = {part.message_id for part in refused if part.part is None}
    call_messages = [message for message in history if isinstance(message, ToolCallMessage)]
    calls = {message.tool_call.id for message in call_messages if message.parent_id in whole}
    # A part of an assistant's message stands for the pictures that its tools gave.
    unseen = {
        message.tool_call.id for message in call_messages if any(message.parent_id == part.message_id for part in refused)
    } - calls
    remaining: list[Message] = []
    for message in history:
        match message:
            case UserMessage():
                remaining.append(_user(message, refused))
            case AssistantMessage(id=message_id, text=text) if message_id in whole:
                content = (TextPart(text=text or f"[what was done here: {NOTE}]"),)
                remaining.append(msgspec.structs.replace(message, content=content, provider_content=None))
            case ToolCallMessage(parent_id=parent) if parent in whole:
                pass
            case ToolResultMessage(tool_call_id=call_id) if call_id in calls:
                pass
            case ToolResultMessage(tool_call_id=call_id) if call_id in unseen and (parts := parts_of(message)):
                remaining.append(
                    with_parts(message, tuple(_note(part) if isinstance(part, ImagePart) else part for part in parts))
                )
            case _:
                remaining.append(message)
    return remaining


def _user(message: UserMessage, refused: Collection[RefusedPart]) -> UserMessage:
    if isinstance(message.content, str):
        gone = RefusedPart(message.id) in refused
        return msgspec.structs.replace(message, content=f"[a message: {NOTE}]") if gone else message
    whole = RefusedPart(message.id) in refused
    parts = tuple(
        _note(part) if whole or RefusedPart(message.id, number) in refused else part
        for number, part in enumerate(message.content)
    )
    return message if parts == message.content else msgspec.structs.replace(message, content=parts)


def _note(part: UserPart) -> TextPart:
    return TextPart(text=f"[{_called(part)}: {NOTE}]")


def _called(part: UserPart) -> str:
    match part:
        case TextPart():
            return "text"
        case ImagePart(name=name, media_type=media_type):
            return f"image {name or media_type}"
        case FilePart(filename=name, media_type=media_type):
            return f"file {name or media_type}"


def _name(part: RefusedPart, entry: ConversationEntry | None) -> str:
    if isinstance(entry, UserEntry) and isinstance(entry.content, tuple) and part.part is not None:
        return f"the {_called(entry.content[part.part])}"
    return "the message" if isinstance(entry, UserEntry) else "the tools that were used"


def _named(error: ProviderBadRequest, conversation: Sequence[Traced]) -> RefusedPart | None:
    number, part = error.place or (0, None)
    if number >= len(conversation):
        return None
    message_id = conversation[number][1]
    return None if message_id is None else RefusedPart(message_id, part)


def _guess(kind: str, conversation: Sequence[Traced], current: MessageId, times: int) -> tuple[RefusedPart, ...]:
    """Returns the parts that may have been refused."""
    if kind == "media":
        newest = [parts for parts in map(_media, reversed(conversation)) if parts]
        # First the newest, since those before it were taken once; then all.
        return tuple(part for parts in (newest[:1] if times == 0 else newest) for part in parts)
    chosen: Callable[[Traced], Sequence[RefusedPart]] = _tools if kind == "tools" else _not_plain
    earlier = [entry for entry in conversation if entry[1] != current]
    return tuple(dict.fromkeys(part for entry in earlier for part in chosen(entry)))


def _media(traced: Traced) -> tuple[RefusedPart, ...]:
    entry, message_id = traced
    if message_id is None:
        return ()
    if isinstance(entry, ToolResultsEntry):
        return (RefusedPart(message_id, 0),) if any(_has_image(result.output) for result in entry.results) else ()
    if not isinstance(entry, UserEntry) or isinstance(entry.content, str):
        return ()
    return tuple(RefusedPart(message_id, number) for number, part in enumerate(entry.content) if not isinstance(part, TextPart))


def _has_image(output: ToolOutput) -> bool:
    return isinstance(output, ContentOutput) and any(isinstance(part, ImagePart) for part in output.value)


def _tools(traced: Traced) -> tuple[RefusedPart, ...]:
    entry, message_id = traced
    uses = isinstance(entry, ToolResultsEntry) or (isinstance(entry, AssistantEntry) and bool(entry.tool_calls))
    return (RefusedPart(message_id),) if uses and message_id is not None else ()


def _not_plain(traced: Traced) -> tuple[RefusedPart, ...]:
    entry, message_id = traced
    if isinstance(entry, AssistantEntry) and entry.thinking and message_id is not None:
        return (RefusedPart(message_id),)
    return _tools(traced) or _media(traced)
