"""Waits — tool calls that wait for an answer: approvals, results of the client's own tools, answers to questions."""

import secrets
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from agentvm.errors import ContainerForbidden, InvalidInput, SessionQuarantined
from agentvm.errors.tool import WaitAlreadyAnswered, WaitExpired, WaitForbidden, WaitNotFound
from agentvm.model.base import Record, record_from
from agentvm.model.ids import ContainerId, SessionId, TurnId, UserId
from agentvm.model.wait import REASON_MAX, AnswerDecision, Question, ToolWait, WaitAnswer, WaitId, WaitKind, WaitLink
from agentvm.operations.operation import Http, OperationGroup
from agentvm.operations.pages import PageRequest, number_of, paged
from agentvm.operations.wait_answer import answers_of, check_audience, check_decision
from agentvm.protocol.requests import Reply, Request

if TYPE_CHECKING:
    from agentvm.operations.context import Context

operation = OperationGroup("waits")

USE = "agent:use"
LINK_SECONDS = 86_400
LINK_SECONDS_MAX = 30 * 86_400
_ONE = "/v1/waits/{wait_id}"


class WaitView(Record):
    """A tool call that waits or has waited. Without `sessions:read` its content is left out: `input` to `answer`."""

    wait_id: WaitId
    container_id: ContainerId
    session_id: SessionId
    turn_id: TurnId
    call_id: str
    round: int
    """How often the call has waited before."""
    kind: WaitKind
    tool: str
    version: str
    fingerprint: str
    decisions: tuple[AnswerDecision, ...]
    why: str
    audience: str
    not_sender: bool
    may_remember: bool
    held: bool = False
    """Whether the call is held open for the answer, so that its turn is not parked."""
    asked_at: int
    expires_at: int
    sender: UserId | None = None
    answered_at: int | None = None
    answered_by: UserId | None = None
    started_at: int | None = None
    input: dict[str, object] | None = None
    questions: dict[str, Question] | None = None
    url: str | None = None
    answer: WaitAnswer | None = None


class ToolWaitsReply(Reply):
    waits: tuple[WaitView, ...]
    next_cursor: str | None = None


class ToolWaits(PageRequest):
    """Every field narrows the list."""

    container_id: str | None = None
    session_id: SessionId | None = None
    state: Literal["open", "answered"] | None = None


@operation(
    "tool.waits",
    needs=USE,
    command=True,
    http=Http(method="GET", path="/v1/waits", id="waits_list", items="waits", names=(None, "WaitPage")),
    raises=(ContainerForbidden,),
)
async def list_all(context: "Context", request: ToolWaits) -> ToolWaitsReply:
    """List waiting tool calls, the oldest first.

    Of a session, a container, or all that you may use.
    """
    waits = context.store.waits(await context.sessions.containers(request.container_id))
    listed = await waits.list_page(
        session_id=request.session_id, state=request.state, after=number_of(request.cursor) or 0, limit=request.limit + 1
    )
    page = paged(listed, request.limit, lambda index: str(listed[index][0]))
    return ToolWaitsReply(waits=tuple(_view(context, wait) for _, wait in page.items), next_cursor=page.next_cursor)


class WaitShow(Request[WaitView]):
    wait_id: WaitId


@operation("tool.wait", needs=USE, http=Http(method="GET", path=_ONE, id="waits_show"), raises=(WaitNotFound,))
async def show(context: "Context", request: WaitShow) -> WaitView:
    """Show a tool call that waits: the tool, its input, who may answer, and until when."""
    return _view(context, await _find(context, request.wait_id))


def _view(context: "Context", wait: ToolWait) -> WaitView:
    view = record_from(WaitView, wait)
    if context.principal.may("sessions:read"):
        return view
    return msgspec.structs.replace(view, input=None, questions=None, url=None, answer=None)


class ToolAnswerReply(Reply):
    """The turn continues by itself; its events tell how."""

    wait_id: WaitId
    turn_id: TurnId
    decision: AnswerDecision


class ToolAnswer(Request[ToolAnswerReply]):
    """`fingerprint` is that of the wait: an answer is for one call with one input.

    `input` is the whole input for `edit`. `result`, for `answer`, is the result of a client's tool, or the answers to the
    questions of the wait by their keys.
    """

    wait_id: WaitId
    fingerprint: str
    decision: AnswerDecision
    input: dict[str, object] | None = None
    result: object = None
    reason: Annotated[str, msgspec.Meta(max_length=REASON_MAX)] | None = None
    remember: Literal["session", "image"] | None = None


@operation(
    "tool.answer",
    needs=USE,
    command=True,
    audit="wait.answer",
    http=Http(method="POST", path=f"{_ONE}/answer", id="waits_answer"),
    raises=(WaitNotFound, WaitAlreadyAnswered, WaitExpired, WaitForbidden, SessionQuarantined),
)
async def answer(context: "Context", request: ToolAnswer) -> ToolAnswerReply:
    """Answer a waiting tool call: approve, edit or deny it, or give its result.

    The first answer counts. The same answer again has the same reply.
    """
    return await give_answer(context, request)


async def give_answer(context: "Context", request: ToolAnswer, client_key: str | None = None) -> ToolAnswerReply:
    """Answers a call. `client_key` is that of the message that is the answer."""
    context.target = request.wait_id
    wait = await _find(context, request.wait_id)
    answer = msgspec.structs.replace(_checked(wait, request), client_key=client_key)
    reply = ToolAnswerReply(wait_id=wait.wait_id, turn_id=wait.turn_id, decision=request.decision)
    check_audience(context.principal, wait)
    # Its turn would not continue.
    context.vm.runtime.quarantine.check(context.tenant_id, wait.session_id)
    if wait.answer is None and wait.expires_at <= context.vm.clock():
        raise WaitExpired(wait.wait_id)
    user_id = context.principal.user_id
    if wait.answer is None and await context.vm.runtime.answer_wait(context.tenant_id, wait, answer, user_id):
        return reply
    current = await _find(context, request.wait_id)
    if current.answer is None or msgspec.structs.replace(current.answer, client_key=client_key) != answer:
        raise WaitAlreadyAnswered(wait.wait_id, "" if current.answer is None else current.answer.decision)
    return reply


class WaitLinkReply(Reply):
    """`path` is the page of the link on this server, such as `/answer/…`; it is shown once."""

    wait_id: WaitId
    path: str
    expires_at: int


class WaitLinkMake(Request[WaitLinkReply]):
    """`fingerprint` is that of the wait; `expiresIn` are seconds, at most until the wait itself expires."""

    wait_id: WaitId
    fingerprint: str
    expires_in: Annotated[int, msgspec.Meta(ge=60, le=LINK_SECONDS_MAX)] = LINK_SECONDS


@operation(
    "tool.link",
    needs=USE,
    audit="wait.link",
    http=Http(method="POST", path=f"{_ONE}/link", status=201, id="waits_link"),
    raises=(WaitNotFound, WaitAlreadyAnswered, WaitExpired, WaitForbidden),
)
async def make_link(context: "Context", request: WaitLinkMake) -> WaitLinkReply:
    """Create a one-use link that approves or denies a tool call.

    The holder of the link decides in your name, as long as you may answer yourself. Opening the link only shows the call; its
    form decides. Needs `sessions:read`, too.
    """
    context.target = request.wait_id
    # The page shows the input.
    context.principal.require("sessions:read")
    wait, now = await _find(context, request.wait_id), context.vm.clock()
    check_decision(wait, request.fingerprint, "approve")
    check_audience(context.principal, wait)
    if wait.answer is not None:
        raise WaitAlreadyAnswered(wait.wait_id, wait.answer.decision)
    if wait.expires_at <= now:
        raise WaitExpired(wait.wait_id)
    token, expires_at = secrets.token_urlsafe(32), min(wait.expires_at, now + request.expires_in * 1000)
    principal = context.principal
    maker = {"made_by": principal.user_id, "key_id": principal.key_id, "actor": principal.actor}
    link = record_from(WaitLink, wait, tenant_id=context.tenant_id, **maker)
    if not await context.vm.store.wait_links.add(token, link, expires_at):
        raise WaitNotFound(wait.wait_id)
    return WaitLinkReply(wait_id=wait.wait_id, path=f"/answer/{token}", expires_at=expires_at)


async def _find(context: "Context", wait_id: WaitId) -> ToolWait:
    wait = await context.store.waits(await context.sessions.containers()).get(wait_id)
    if wait is None:
        raise WaitNotFound(wait_id)
    return wait


def _checked(wait: ToolWait, request: ToolAnswer) -> WaitAnswer:
    """Returns the answer; `InvalidInput` names a missing or superfluous field."""
    check_decision(wait, request.fingerprint, request.decision)
    if (request.input is not None) != (request.decision == "edit"):
        raise InvalidInput("input is required for the decision edit, and for no other")
    if request.result is not None and request.decision != "answer":
        raise InvalidInput("result is only for the decision answer")
    if request.remember is not None and not (wait.may_remember and request.decision == "approve"):
        raise InvalidInput("remember is only for an approval whose rule allows it")
    return WaitAnswer(
        decision=request.decision,
        input=request.input,
        result=answers_of(wait, request.result) if request.decision == "answer" else None,
        reason=request.reason,
        remember=request.remember,
    )
