"""Attached — the attachments of messages: whether it is there when one is sent, and its bytes when a prompt is made.

A prompt is weighed by sizes alone; only the attachments of messages within the budget are read, the newest first, and nothing
of it outlives the prompt. All prompts together hold so much and no more. A file that is deleted or would exceed the limits is
replaced by a note for the model: a turn does not fail because of an old file.
"""

import base64
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import TypeVar

import msgspec

from agentvm.drivers.base import ConversationEntry, Prompt, ToolResultsEntry, UserEntry
from agentvm.errors import InvalidInput
from agentvm.errors.attachment import AttachmentNotFound
from agentvm.model.attachment import attachment_parts, reference_to, references, referred_digest
from agentvm.model.ids import TenantId
from agentvm.model.message import (
    ContentOutput,
    FilePart,
    ImagePart,
    LinkPart,
    Message,
    OutputPart,
    TextPart,
    ToolResult,
    UserContent,
    parts_of,
)
from agentvm.sharing.fair_slots import FairSlots
from agentvm.storage.sql.attachments import AttachmentStore, read_all

PROMPT_MAX_BYTES = 32 * 1024 * 1024
"""Size of all attachments in one prompt: providers take no more, and memory is shared."""

PROMPTS_MAX_BYTES = 4 * PROMPT_MAX_BYTES
"""Size of the attachments of all prompts in flight, half of it for one tenant: each is in memory several times."""

Sizes = Mapping[str, int]
"""Bytes by digest."""


class AttachmentMemory:
    """Bytes of attachments in prompts, from when a prompt is made until its provider has begun to answer.

    A tenant holds half of them at most. Who wants more than is left waits; tenants are served in turn.
    """

    def __init__(self) -> None:
        self._bytes = FairSlots(PROMPTS_MAX_BYTES, share=PROMPTS_MAX_BYTES // 2)

    def hold(self, tenant_id: TenantId, size: int) -> AbstractAsyncContextManager[Callable[[], None]]:
        """Yields a function that releases the bytes early; leaving releases the rest."""
        return self._hold(tenant_id, size) if size else nullcontext(_nothing)

    @asynccontextmanager
    async def _hold(self, tenant_id: TenantId, size: int) -> AsyncGenerator[Callable[[], None]]:
        async with self._bytes.hold(tenant_id, size) as held:
            yield held.release


def _nothing() -> None:
    """Gives nothing back."""


class Filled:
    """A prompt with the bytes of its attachments. Once it is taken it is not referred to here any more."""

    __slots__ = ("_prompt", "sent")

    def __init__(self, prompt: Prompt, sent: Callable[[], None] = _nothing) -> None:
        self._prompt: Prompt | None = prompt
        self.sent = sent
        """To be called when the provider has begun to answer: it has all of it, and the bytes are free."""

    @property
    def prompt(self) -> Prompt:
        assert self._prompt is not None, "it was taken"
        return self._prompt

    def replace(self, prompt: Prompt) -> None:
        """The same prompt with another limit of its answer."""
        self._prompt = prompt

    def take(self) -> Prompt:
        prompt, self._prompt = self.prompt, None
        return prompt


async def check(store: AttachmentStore, content: UserContent, most: int) -> None:
    """`AttachmentNotFound` for a file that the container does not have, even if another container has it."""
    digests = _digests(content, most)
    if digests:
        _refuse_missing(digests, await store.sizes(digests))


async def claim(store: AttachmentStore, content: UserContent, most: int, now: int) -> None:
    """As `check`; the attachments stay until the message that is about to refer to them is stored."""
    digests = _digests(content, most)
    if digests:
        _refuse_missing(digests, await store.claim(digests, now))


async def weigh(store: AttachmentStore, history: Sequence[Message]) -> Sizes:
    """Returns the sizes of a history's attachments, as far as they exist."""
    contents = [parts for message in history if (parts := parts_of(message))]
    digests = dict.fromkeys(digest for content in contents for digest in references(content))
    return await store.sizes(digests) if digests else {}


def volume(prompt: Prompt, sizes: Sizes) -> int:
    """Returns the bytes of the attachments in a prompt."""
    if not sizes:
        return 0
    digests = {digest for entry in prompt.conversation for content in _contents(entry) for digest in references(content)}
    return min(sum(sizes.get(digest, 0) for digest in digests), PROMPT_MAX_BYTES)


async def fill(store: AttachmentStore, prompt: Prompt, sizes: Sizes) -> Prompt:
    """With the bytes, as base64, in place of the references."""
    contents = (content for entry in prompt.conversation for content in _contents(entry))
    if not any([*attachment_parts(content)] for content in contents):
        return prompt
    filling = _Filling(store, sizes)
    filled = [await filling.fill(entry) for entry in reversed(prompt.conversation)]
    return msgspec.structs.replace(prompt, conversation=tuple(reversed(filled)))


def _contents(entry: ConversationEntry) -> Iterator[Sequence[OutputPart]]:
    """Yields the parts of an entry that may refer to attachments."""
    match entry:
        case UserEntry(content=tuple(parts)):
            yield parts
        case ToolResultsEntry(results=results):
            for result in results:
                if isinstance(result.output, ContentOutput):
                    yield result.output.value
        case _:
            pass


_Part = TypeVar("_Part", bound=OutputPart)


class _Filling:
    """One prompt while it is filled."""

    def __init__(self, store: AttachmentStore, sizes: Sizes) -> None:
        self._store = store
        self._sizes = sizes
        self._left = PROMPT_MAX_BYTES
        self._read: dict[str, str] = {}

    async def fill(self, entry: ConversationEntry) -> ConversationEntry:
        match entry:
            case UserEntry(content=tuple(parts)):
                return UserEntry(content=tuple([await self._part(part) for part in parts]))
            case ToolResultsEntry(results=results):
                return ToolResultsEntry(results=tuple([await self._result(result) for result in results]))
            case _:
                return entry

    async def _result(self, result: ToolResult) -> ToolResult:
        if not isinstance(result.output, ContentOutput):
            return result
        parts = tuple([await self._part(part) for part in result.output.value])
        return msgspec.structs.replace(result, output=ContentOutput(value=parts))

    async def _part(self, part: _Part) -> "_Part | TextPart":
        if isinstance(part, TextPart | LinkPart) or not [*attachment_parts((part,))]:
            return part
        digest = referred_digest(part.data) or ""
        data = self._read.get(digest)
        if data is None:
            size = self._sizes.get(digest)
            if size is not None and size > self._left:
                return _note(part, "left out, the files of this conversation are more than can be sent at once")
            body = None if size is None else await read_all(self._store, digest)
            if body is None:
                return _note(part, "the file is gone")
            self._left -= len(body)
            data = self._read[digest] = base64.b64encode(body).decode()
        return msgspec.structs.replace(part, data=data)


def _note(part: ImagePart | FilePart, why: str) -> TextPart:
    name = part.name if isinstance(part, ImagePart) else part.filename
    return TextPart(text=f"[{name or part.media_type}: {why}]")


def _digests(content: UserContent, most: int) -> tuple[str, ...]:
    parts = [*attachment_parts(content)]
    if len(parts) > most:
        raise InvalidInput(f"A message refers to at most {most} attachments, not {len(parts)}: send them in several messages")
    for part in parts:
        if referred_digest(part.data) is None:
            raise AttachmentNotFound(part.data)
    return references(content)


def _refuse_missing(digests: Sequence[str], there: Mapping[str, int] | frozenset[str]) -> None:
    for digest in digests:
        if digest not in there:
            raise AttachmentNotFound(reference_to(digest))
