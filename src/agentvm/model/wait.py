"""Wait — a tool call that waits for an answer: an approval, a client's result, an answer to a question."""

import hashlib
from collections.abc import Mapping
from typing import Annotated, Literal, NewType

import msgspec

from agentvm.model.base import Record
from agentvm.model.ids import ContainerId, KeyId, SessionId, TenantId, TurnId, UserId

WaitId = NewType("WaitId", str)

WaitKind = Literal["approval", "client", "question", "elicitation", "consent", "timer", "child"]
"""The kind of wait: for an approval, the result of the client, an answer, consent; for `timer` a point in time, for `child` a
sub-agent that waits itself."""

AnswerDecision = Literal["approve", "edit", "deny", "answer"]
WaitDecision = Literal["approve", "edit", "deny", "answer", "expired", "superseded"]
"""How a wait ended; the last two are decided by the server: no answer came in time, or the user continued."""

DECISIONS: Mapping[WaitKind, tuple[AnswerDecision, ...]] = {
    "approval": ("approve", "edit", "deny"),
    "client": ("answer", "deny"),
    "question": ("answer", "deny"),
    "elicitation": ("answer", "deny"),
    "consent": ("approve", "deny"),
    "timer": ("answer", "deny"),
    "child": ("deny",),
}
"""The answers that each kind of wait takes."""

REASON_MAX = 2_000
ROUNDS_MAX = 10
"""Waits of one call: a tool that continues asking is stopped."""


class Question(Record):
    """One question of a tool: a form with a schema, or a page that the user has to visit."""

    mode: Literal["form", "url"]
    message: str
    schema: dict[str, object] | None = None
    url: str | None = None


def options_of(questions: Mapping[str, Question] | None) -> tuple[str, ...]:
    """Returns the options of a single question with a single field; none for any other."""
    fields = [(question.schema or {}).get("properties") for question in (questions or {}).values()]
    if len(fields) != 1 or not isinstance(fields[0], dict) or len(fields[0]) != 1:
        return ()
    (value,) = fields[0].values()
    if isinstance(value, dict) and isinstance(items := value.get("items"), dict):
        value = items
    choices = [value, *value.get("anyOf", ())] if isinstance(value, dict) else []
    named = (choice["enum"] for choice in choices if isinstance(choice, dict) and isinstance(choice.get("enum"), list))
    return tuple(str(option) for option in next(named, ()))


class QuestionAnswer(Record):
    action: Literal["accept", "decline", "cancel"]
    content: dict[str, str | int | float | bool | list[str] | None] | None = None


class WaitAnswer(Record):
    """The end of a wait."""

    decision: WaitDecision
    input: dict[str, object] | None = None
    """The input that the call runs with instead, for `edit`."""
    result: object = None
    """The result of a client's tool, or the answer to a question."""
    reason: Annotated[str, msgspec.Meta(max_length=REASON_MAX)] | None = None
    remember: Literal["session", "image"] | None = None
    client_key: str | None = None
    """The key of the message that was this answer, which is one however often it is sent."""


class ToolWait(Record):
    """A call that waits. The turn is parked when all its calls do, and then costs a row and nothing else."""

    wait_id: WaitId
    container_id: ContainerId
    session_id: SessionId
    turn_id: TurnId
    call_id: str
    kind: WaitKind
    tool: str
    version: str = ""
    """The exact version of the tool, for which an approval may be remembered."""
    fingerprint: str
    """Digest of the tool's version, the input and the questions: an answer is for this call and for no other."""
    input: dict[str, object]
    """The input that the call is made with."""
    asked: str = ""
    """Digest of the call as it was first requested, before any edit by a person: a program that is run again must request the
    same call."""
    is_edited: bool = False
    """The input is another than the model's: a person has changed it in an earlier round."""
    round: int = 0
    """How often the call has waited before."""
    questions: dict[str, Question] | None = None
    """Questions of the tool, for `question` and `elicitation`."""
    held: bool = False
    """Whether the call is held open for the answer: its turn is not parked, and the time is short."""
    url: str | None = None
    """The page where consent is given."""
    state: str | None = None
    """The tool's own state, returned to it with the answer and never shown."""
    why: str
    """The reason why it waits, for people."""
    audience: str
    """`sender`, `owner`, `admins` or `user:<id>`."""
    not_sender: bool = False
    may_remember: bool = False
    sender: UserId | None = None
    sender_key: KeyId | None = None
    """The key that the message was sent with; kept where `not_sender` needs it, since a key need not have a user."""
    asked_at: int
    expires_at: int
    answered_at: int | None = None
    answered_by: UserId | None = None
    answer: WaitAnswer | None = None
    started_at: int | None = None
    """When the approved call began to run: without a result since then it is not known whether it took effect."""

    @property
    def decisions(self) -> tuple[AnswerDecision, ...]:
        return DECISIONS[self.kind]


class AnsweredWait(Record):
    """The end of a wait: its author and time."""

    wait_id: WaitId
    turn_id: TurnId
    answer: WaitAnswer
    by: UserId | None = None
    at: int


class StartedWait(Record):
    """A call that had waited is about to run: stored first, so that it never runs twice."""

    wait_id: WaitId
    at: int


class WaitLink(Record):
    """The wait that a link answers, and the user in whose name it does."""

    tenant_id: TenantId
    container_id: ContainerId
    session_id: SessionId
    wait_id: WaitId
    made_by: UserId | None = None
    key_id: KeyId | None = None
    """The key that it was made with: the link ends with it."""
    actor: str = ""
    """The maker in the audit log."""


WaitChange = ToolWait | AnsweredWait | StartedWait


def fingerprint_of(tool: str, version: str, call_input: Mapping[str, object], *questions: object) -> str:
    """Returns the digest that binds an answer to a call: the tool, its version, every value of the input, and its questions."""
    body = msgspec.json.encode([tool, version, call_input, *questions], order="deterministic")
    return f"sha256:{hashlib.sha256(body).hexdigest()}"
