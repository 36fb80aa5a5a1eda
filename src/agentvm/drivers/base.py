"""Driver — the port to a model provider: a prompt goes in, typed outputs come out.

Rules every driver keeps (checked by `agentvm.testing.conformance.driver`):

1. Outputs of one call: `MessageStarted`, then blocks, then `UsageReported`?, then exactly one `MessageStopped`.
   An early `UsageReported` may stand before or between blocks, so that a call that is cut off is still counted.
   A block is `TextStarted TextDelta* TextStopped`, `ThinkingStarted ThinkingDelta* ThinkingStopped` or
   `ToolCallStarted ToolInputDelta* ToolCallStopped`. Blocks never overlap, also when the provider interleaves them.
   The result of a tool that the provider ran, `ProviderResult`, stands between blocks; `ProviderContentReported` after them.
2. Failure is a `ProviderError` raised from the iterator, never an output, never another exception.
3. Closing the iterator (or cancelling the task that reads it) closes the provider's socket at once.
4. The call as a whole has a deadline, not only each read.
5. Message and tool call ids are never empty; tool call ids are unique within the call.
"""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from agentvm.model.base import Record
from agentvm.model.message import ProviderContent, ThinkingPart, ToolCall, ToolResult, UserContent
from agentvm.model.secret import Secret
from agentvm.model.turn import OutputFormat
from agentvm.model.usage import Usage

StopReason = Literal["end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal", "pause_turn"]
"""`pause_turn`: the provider still runs its own tools, and continues when it is called with its output so far."""


class ToolSpec(Record):
    """A tool as the model sees it. `input_schema` is a JSON Schema object."""

    name: str
    description: str
    input_schema: dict[str, object]


class ProviderTool(Record):
    """A tool that the provider of the model runs. `type` is the provider's name for it, with its version."""

    name: str
    type: str
    options: dict[str, object] = msgspec.field(default_factory=dict)


class UserEntry(Record):
    content: UserContent


class AssistantEntry(Record):
    text: str
    thinking: tuple[ThinkingPart, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    provider_content: ProviderContent | None = None
    """The whole message, without its tool calls, for the provider that wrote it."""


class ToolResultsEntry(Record):
    """The results of every tool call of the `AssistantEntry` before it, never fewer."""

    results: tuple[ToolResult, ...]


ConversationEntry = UserEntry | AssistantEntry | ToolResultsEntry


class Prompt(Record):
    """One model call. `model` is the provider's own name for the model (no driver prefix)."""

    model: str
    conversation: tuple[ConversationEntry, ...]
    max_tokens: int
    system: str | None = None
    tools: tuple[ToolSpec, ...] = ()
    provider_tools: tuple[ProviderTool, ...] = ()
    """Tools that the driver's provider runs."""
    thinking: int | None = None
    """Tokens the model may think with before it answers, for providers that let one say so; None leaves it to them."""
    temperature: float | None = None
    """Sampling temperature from 0 to 2, capped at the provider's maximum; None for the provider's default."""
    stop: tuple[str, ...] = ()
    """Texts at which the model stops."""
    silence: float | None = None
    """Seconds that the provider may be silent before the call is given up; None for as long as the whole call may take."""
    output: OutputFormat | None = None
    """The answer must be JSON that fits this schema."""
    constrains: bool = True
    """Whether the provider is asked to enforce schemas, if it can; otherwise that of the answer is only in the prompt."""
    tool_choice: str | None = None
    """The tool that the answer has to call, or `ANY_TOOL`; None if it need not call one."""
    begun: str = ""
    """The beginning of the answer, which the user has already read: the model is asked to continue from there."""


class Output(msgspec.Struct, frozen=True):
    """One piece of a model's output."""


class MessageStarted(Output, frozen=True):
    message_id: str
    model: str


class TextStarted(Output, frozen=True):
    pass


class TextChunk(Output, frozen=True):
    text: str


class TextStopped(Output, frozen=True):
    pass


class ThinkingStarted(Output, frozen=True):
    pass


class ThinkingChunk(Output, frozen=True):
    text: str


class ThinkingStopped(Output, frozen=True):
    signature: str | None = None


class ToolCallStarted(Output, frozen=True):
    call_id: str
    name: str
    by_provider: bool = False
    """Whether the provider runs it: its result follows in the same answer, or in the next."""


class ToolInputChunk(Output, frozen=True):
    partial_json: str


class ToolCallStopped(Output, frozen=True):
    pass


class ProviderResult(Output, frozen=True):
    """The result of a tool that the provider ran, as people are shown it: any JSON value, or the text of a failure."""

    call_id: str
    value: object
    is_error: bool = False


class ProviderContentReported(Output, frozen=True):
    """The whole answer as its provider wants it back."""

    content: ProviderContent


class UsageReported(Output, frozen=True):
    """Cumulative for this call: a later report replaces an earlier one."""

    usage: Usage


class MessageStopped(Output, frozen=True):
    stop_reason: StopReason


ModelOutput = (
    MessageStarted
    | TextStarted
    | TextChunk
    | TextStopped
    | ThinkingStarted
    | ThinkingChunk
    | ThinkingStopped
    | ToolCallStarted
    | ToolInputChunk
    | ToolCallStopped
    | ProviderResult
    | ProviderContentReported
    | UsageReported
    | MessageStopped
)


class Driver(Protocol):
    """One provider, shared by every agent of the process."""

    @property
    def name(self) -> str:
        """The prefix in `<driver>/<model>`."""

    @property
    def default_model(self) -> str: ...

    def context_window(self, model: str) -> int:
        """Tokens a prompt and its answer may have together."""

    def run(self, prompt: Prompt) -> AsyncGenerator[ModelOutput, None]:
        """Makes one model call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSettings:
    """The settings for opening a driver. Not a Record: it must never become JSON."""

    api_key: Secret | None = None
    base_url: str | None = field(default=None, repr=False)
    """Not shown: it may carry credentials."""
    model: str | None = None
    """The driver's default model, when the operator chose one."""
    timeout: float = 600.0
    """Seconds for one whole model call."""
    silence: float | None = None
    """Time that the provider may be silent; None for the value in each prompt."""
    max_retries: int = 2
    max_calls: int | None = None
    """Calls at a time, of all tenants together; None for the driver's own limit, or the default."""
    model_dir: Path | None = None
    """The directory of the embedded model's weights."""
    name: str | None = field(default=None, compare=False)
    """The operator's name for the provider, which its errors use; None for the driver's own."""
    key_place: str | None = field(default=None, compare=False)
    """The place to correct the key in, which its errors name; None for the server's configuration."""


class OpenDriver(Protocol):
    """Opens a driver for the life of the process: entered at start-up, left at shutdown (pools closed, children reaped)."""

    def __call__(self, settings: DriverSettings) -> AbstractAsyncContextManager[Driver]: ...
