"""Turn — one metered, cancellable unit of work: a user message and everything the agent does about it."""

from typing import Annotated, Any, Literal

import msgspec

from agentvm.model.base import Record
from agentvm.model.ids import ContainerId, ImageId, KeyId, MessageId, SessionId, TurnId, UserId
from agentvm.model.session import ParentCall
from agentvm.model.usage import Usage

TurnOutcome = Literal["completed", "interrupted", "failed"]


OnParked = Literal["supersede", "queue", "reject"]
"""While a turn of the session waits for answers: end it, wait for it, or refuse the message."""


TurnOption = Literal["model", "temperature", "max_tokens", "thinking", "stop", "instructions", "tools", "output"]
DEFAULT_OPTIONS: tuple[TurnOption, ...] = ("temperature", "max_tokens", "thinking", "stop", "instructions", "tools", "output")
"""The options that the sender of a message may choose, unless the definition says otherwise."""

ANY_TOOL = "required"
"""The choice of any tool."""
STOPS_MAX = 16
INSTRUCTIONS_MAX = 256 * 1024
CLIENT_TOOLS_MAX = 128
CLIENT_DATA_MAX = 32 * 1024


class ClientTool(Record):
    """A tool that the sender of a message runs by itself: the turn waits for its result."""

    name: Annotated[str, msgspec.Meta(pattern="^[a-zA-Z0-9_-]{1,64}$")]
    description: Annotated[str, msgspec.Meta(max_length=16 * 1024)] = ""
    parameters: dict[str, object] = msgspec.field(default_factory=dict)
    """JSON Schema of its input."""


class OutputFormat(Record):
    """The form of an answer: JSON that fits a schema. `name` describes the value to the model."""

    name: Annotated[str, msgspec.Meta(pattern="^[a-zA-Z0-9_-]{1,64}$")]
    schema: dict[str, Any]
    """JSON Schema of the answer."""


class TurnOptions(Record):
    """Values that the sender of a message chose for its turn instead of the definition's."""

    model: Annotated[str, msgspec.Meta(min_length=1, max_length=512)] | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    thinking: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Thinking budget in tokens."""
    stop: Annotated[
        tuple[Annotated[str, msgspec.Meta(min_length=1, max_length=200)], ...], msgspec.Meta(max_length=STOPS_MAX)
    ] = ()
    """Texts at which the model stops."""
    instructions: Annotated[str, msgspec.Meta(max_length=INSTRUCTIONS_MAX)] | None = None
    """Added to the system prompt, as instructions of the user."""
    tools: Annotated[tuple[ClientTool, ...], msgspec.Meta(max_length=CLIENT_TOOLS_MAX)] = ()
    """Tools that the sender runs, besides those of the image; one of the same name takes its place."""
    tool_choice: Annotated[str, msgspec.Meta(pattern="^[a-zA-Z0-9_-]{1,64}$")] | None = None
    """The tool that the first answer of the turn has to call, by its name, or `required` for any. Allowed where `tools` is."""
    output: OutputFormat | None = None
    """The answer is JSON that fits this schema, or the turn fails."""
    client_data: Annotated[str, msgspec.Meta(max_length=CLIENT_DATA_MAX)] | None = None
    """A text of the client's own about the turn: kept with it, read by nothing here, and allowed by every definition."""


class TurnBudget(Record, forbid_unknown_fields=True):
    """Bounds of one turn besides those of its tenant; the lower of both counts."""

    steps: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Model calls."""
    tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    cost: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Nano-USD."""
    tool_calls: Annotated[int, msgspec.Meta(ge=1)] | None = None


class TurnOrigin(Record):
    """The reason and the bounds of a turn that was not begun by a person."""

    kind: Literal["schedule", "trigger", "agent"]
    id: str
    """The schedule or trigger; for a sub-agent the turn that has called it."""
    unattended: bool = True
    """Whether no person is present: a call that needs an approval or an answer is denied."""
    budget: TurnBudget | None = None
    parent: ParentCall | None = None
    """The call that a sub-agent works for."""
    callers: tuple[str, ...] = ()
    """The agents above a sub-agent, by their URIs, the root first; empty for the definition of the image itself."""


class Turn(Record):
    """`outcome`, `usage` and `ended_at` are set once, when the turn ends; `attempts` counts how often it was begun."""

    turn_id: TurnId
    container_id: ContainerId
    image_id: ImageId
    session_id: SessionId
    message_id: MessageId
    accepted_at: int
    outcome: TurnOutcome | None = None
    usage: Usage | None = None
    ended_at: int | None = None
    client_key: str | None = None
    """The sender's own name for the message: sending it again changes nothing."""
    attempts: int = 0
    user_id: UserId | None = None
    """The sender of the message, who is billed for the turn whenever it continues."""
    key_id: KeyId | None = None
    """The API key that the sender used."""
    alongside: int | None = None
    """Number of turns that were last begun together with an unfinished one that the server may not survive."""
    parked_at: int | None = None
    """Set while all its calls wait for an answer: it is not in memory, and continues with an answer."""
    active_ms: int = 0
    """Time that it had run when it was parked."""
    on_parked: OnParked | None = None
    """`queue` for a turn that waits until a parked one before it has ended."""
    options: TurnOptions | None = None
    origin: TurnOrigin | None = None
