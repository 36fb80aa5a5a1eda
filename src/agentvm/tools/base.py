"""Tool base — the port of everything that an agent can call, and the records that pass through it.

A tool gets the input that the model wrote, and gives a result; a failure that the model may act upon is a `ToolFailed`. Its
caller validates the input, holds the deadline, and cancels: a tool that is cancelled closes its sockets before it returns. A
call that needs a person gives `InputRequired` or `ConsentRequired`, keeps nothing in memory, and is repeated with the answer.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from agentvm.drivers.base import ToolSpec
from agentvm.model.base import Record
from agentvm.model.ids import TenantId, UserId
from agentvm.model.knowledge import FoundPassages
from agentvm.model.ledger import LedgerEntry
from agentvm.model.memory import Memory, MemoryId
from agentvm.model.message import repair_text
from agentvm.model.session_file import SessionFile
from agentvm.model.tier import KnownAnswer, Placed, Unplaced
from agentvm.model.tool import Effect, Repeat, World, default_repeat
from agentvm.model.wait import Question as Question
from agentvm.model.wait import QuestionAnswer as QuestionAnswer

if TYPE_CHECKING:
    from agentvm.tools.secrets import CallSecrets

RESULT_MAX_BYTES = 16 * 1024 * 1024
"""Bytes read from any tool before it is stopped."""
IMAGE_MAX_BYTES = 5 * 1024 * 1024
IMAGES_MAX = 20
TIMEOUT_SECONDS = 60.0
ANSWER_TIMEOUT_SECONDS = 60.0
"""Time for which a call is held open for the answer of a person."""

_CONTROL = {code: None for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n\r"}


class ResultText(Record, tag="text", tag_field="type"):
    text: str


class ResultImage(Record, tag="image", tag_field="type"):
    data: bytes
    media_type: str


class ResultFile(Record, tag="file", tag_field="type"):
    data: bytes
    media_type: str
    name: str | None = None


class ResultLink(Record, tag="link", tag_field="type"):
    """An address that the tool names. It has not been fetched."""

    uri: str
    name: str | None = None


ResultPart = ResultText | ResultImage | ResultFile | ResultLink


class CallResult(Record):
    """The result of a call: `value` is a text for `text` and `error-text`, any JSON for `json` and `error-json`.

    For `content` it is the value to compare with the schema of the result, if the tool has one.
    """

    type: Literal["text", "json", "content", "error-text", "error-json"]
    value: object = None
    parts: tuple[ResultPart, ...] = ()
    """Parts of `content`, in the order of the tool."""

    @property
    def is_error(self) -> bool:
        return self.type.startswith("error")


class InputRequired(Record):
    """The call needs answers by a person. `state` is the server's own, opaque, and is given back with the answers."""

    questions: dict[str, Question]
    state: str | None = None
    kind: Literal["elicitation", "question", "timer", "child"] = "elicitation"
    """`question` for one of the agent itself, `timer` if nothing but time has to pass, `child` for a sub-agent that waits."""
    until: int | None = None
    """The time at which the call continues, for `timer`; at which it is abandoned, for `child`."""


class ConsentRequired(Record):
    """The user has to allow AgentVM to act for him, at `url`; `state` is the name under which the callback finds the call."""

    url: str
    state: str
    server: str


class Resumption(Record):
    """Answers to an `InputRequired`, keyed as its questions, with its state."""

    answers: dict[str, QuestionAnswer]
    state: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallProgress:
    progress: float
    total: float | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Caller:
    """The person on whose behalf a tool runs. There is no default: credentials belong to exactly one of them."""

    tenant_id: str
    user_id: str


class SessionFiles(Protocol):
    """The files of the session, as one call sees them: with its own changes, and with those of the calls before it.

    Paths are relative to `/workspace`, or absolute below it; `FilePathInvalid` for any other. Changes become lasting in the
    commit of the call's result. `WorkspaceFull` when the session may not have so many files, or bytes.
    """

    async def list(self, under: str = "") -> Sequence[SessionFile]:
        """Returns the files below a folder, in the order of their paths."""

    async def find(self, path: str) -> SessionFile | None: ...

    async def read(self, path: str) -> bytes:
        """Returns all bytes of a file; `FileMissing` without such a file."""

    async def read_all(self, max_bytes: int) -> Mapping[str, bytes]:
        """Returns the bytes of all files, by path; `WorkspaceFull` if they are more than `max_bytes`."""

    async def write(self, path: str, body: bytes, *, executable: bool = False) -> SessionFile:
        """Creates a file, or replaces it."""

    async def write_all(self, files: Mapping[str, bytes], executable: Collection[str] = ()) -> None:
        """Writes several files, or none when they do not fit."""

    async def delete(self, path: str) -> bool:
        """Returns whether there was such a file."""


class CallMemory(Protocol):
    """The memories of the container, as one call uses them."""

    async def list(self) -> Sequence[Memory]:
        """Returns the memories that a person has written or kept, or an agent has written, the newest first."""

    async def remember(self, text: str) -> Memory:
        """Adds a memory; a proposed one if untrusted text was read before."""

    async def forget(self, memory_id: MemoryId) -> bool:
        """Returns whether there was such a memory; `ToolFailed` if untrusted text was read before."""


class KnowledgeSource(Protocol):
    """The knowledge bases of a server."""

    async def search(
        self, tenant_id: TenantId, uris: Sequence[str], question: str, k: int | None = None, *, user_id: UserId | None = None
    ) -> FoundPassages:
        """Returns the passages that fit a question best, for a user whose usage that is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillPart:
    """A skill with the names of its files, or one of its files."""

    text: str
    files: Mapping[str, int] = field(default_factory=dict)
    """Sizes in bytes, by path."""
    allowed_tools: tuple[str, ...] | None = None


class OtherTools(Protocol):
    """The other tools of the agent, for a tool whose code calls them."""

    @property
    def tools(self) -> Sequence[ToolSpec]: ...

    @property
    def known_answers(self) -> Sequence[KnownAnswer]:
        """The results of the first calls, if the code is run again. They have to be made again all the same, in their order."""

    async def call(self, name: str, input: dict[str, object]) -> object:
        """Makes an ordinary call. Returns its result, any JSON value; `ToolFailed` for one that failed or was not made.

        A call that has to wait for an answer does not return: the tool is cancelled, and called again with the same context.
        """


Ask = Callable[[Question], Awaitable[QuestionAnswer]]


def _unheard(progress: CallProgress) -> None:
    """Ignores progress."""


def _unplaced(placed: Placed | Unplaced) -> None:
    """A callback that ignores the tier."""


async def decline(question: Question) -> QuestionAnswer:
    """Declines a question because no person is present."""
    return QuestionAnswer(action="decline")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """The circumstances of one call."""

    key: str
    """`<turnId>/<callId>`: the same after a restart, so that a server can recognise the call."""
    caller: Caller
    deadline: float
    """Time of the event loop's clock at which the caller will cancel, unless progress moves it."""
    progress: Callable[[CallProgress], None] = _unheard
    ask: Ask = decline
    """Asks a person while the call is held open; for servers that cannot return `InputRequired`."""
    resumption: Resumption | None = None
    placed: Callable[[Placed | Unplaced], None] = _unplaced
    """Told the tier that runs the code of the call, or why none does."""
    session: str = ""
    """The session of the call; empty for a call without one."""
    charge: Callable[[LedgerEntry], None] | None = None
    """Takes the ledger's entry of a job, to commit it with the result of the call."""
    secrets: "CallSecrets | None" = None
    """The secrets that the tool names; None for a tool that names none."""
    others: OtherTools | None = None
    """The other tools of the agent; None for a tool that cannot call them."""
    files: SessionFiles | None = None
    """The files of the session; None for a call without a session."""
    memory: CallMemory | None = None
    """The memories of the container; None for a call without one, and where memory is off."""
    knowledge: "Callable[[str, int | None], Awaitable[FoundPassages]] | None" = None
    """Searches the knowledge bases of the agent, for so many passages; None for an agent without any."""
    skills: "Callable[[str, str | None], Awaitable[SkillPart]] | None" = None
    """Reads a skill of the agent by its name, or a file of it by its path; None for an agent without any."""
    skill_files: "Callable[[str | None], Awaitable[Mapping[str, bytes]]] | None" = None
    """Reads all files of a skill of the agent, or of all its skills, by path below `/skills`; None for an agent without any."""
    inputs: "Callable[[int], Awaitable[Mapping[str, bytes]]] | None" = None
    """Reads the files attached to the user's message, by name, up to this many bytes; None for a call without a message."""


Outcome = CallResult | InputRequired | ConsentRequired


class CallableTool(Protocol):
    """A tool that can be called."""

    @property
    def spec(self) -> ToolSpec: ...
    @property
    def effect(self) -> Effect: ...
    @property
    def world(self) -> World: ...
    @property
    def repeat(self) -> Repeat: ...
    @property
    def timeout_seconds(self) -> float: ...

    async def run(self, input: Mapping[str, object], context: CallContext) -> Outcome:
        """Runs one call; raises `ToolFailed` with a text that the model can act upon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTraits:
    """The properties of a tool that policy and recovery decide by."""

    effect: Effect = "write"
    world: World = "open"
    repeat: Repeat = "never"
    timeout_seconds: float = TIMEOUT_SECONDS
    writes_files: bool = False
    """Whether calls may change files of the session: such calls of one turn run one after the other, in their order."""

    @classmethod
    def of(
        cls,
        effect: Effect,
        *,
        world: World = "open",
        repeat: Repeat | None = None,
        timeout_ms: int | None = None,
        writes_files: bool = False,
    ) -> "CallTraits":
        """Fills in the defaults: a tool that only reads may be called again."""
        return cls(
            writes_files=writes_files,
            effect=effect,
            world=world,
            repeat=repeat or default_repeat(effect),
            timeout_seconds=TIMEOUT_SECONDS if timeout_ms is None else timeout_ms / 1000,
        )


class TraitsOfTool:
    """Base of tools whose properties are stated by their author, in `traits`."""

    __slots__ = ()
    traits: CallTraits

    @property
    def effect(self) -> Effect:
        return self.traits.effect

    @property
    def world(self) -> World:
        return self.traits.world

    @property
    def repeat(self) -> Repeat:
        return self.traits.repeat

    @property
    def timeout_seconds(self) -> float:
        return self.traits.timeout_seconds

    @property
    def writes_files(self) -> bool:
        return self.traits.writes_files


def tool_spec(name: str, description: str, required: Sequence[str], properties: Mapping[str, object]) -> ToolSpec:
    """Returns the spec of a tool that takes an object with these members, and no others."""
    members = dict(properties)
    schema = {"type": "object", "properties": members, "required": list(required), "additionalProperties": False}
    return ToolSpec(name=name, description=description, input_schema=schema)


def text_result(text: str) -> CallResult:
    return CallResult(type="text", value=plain_text(text))


def error_result(text: str) -> CallResult:
    return CallResult(type="error-text", value=plain_text(text))


def plain_text(text: str) -> str:
    """Returns the text without control characters, so without terminal escapes, as text that JSON can carry."""
    return repair_text(text).translate(_CONTROL)
