"""Waits — tool calls that wait for somebody: approvals, results of the client's own tools, answers to questions."""

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from agentvm.errors import ContainerForbidden, InvalidInput
from agentvm.errors.tool import WaitAlreadyAnswered, WaitExpired, WaitForbidden, WaitNotFound
from agentvm.model.ids import SessionId, TurnId
from agentvm.model.principal import Principal
from agentvm.model.wait import REASON_MAX, AnswerDecision, ToolWait, WaitAnswer, WaitId
from agentvm.operations.operation import Http, OperationGroup
from agentvm.operations.pages import PageRequest, number_of
from agentvm.protocol.requests import Reply, Request

if TYPE_CHECKING:
    from agentvm.operations.context import Context

operation = OperationGroup("waits")

USE = "agent:use"
_ONE = "/v1/waits/{wait_id}"


class ToolWaitsReply(Reply):
    waits: tuple[ToolWait, ...]
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
    """List tool calls that wait for somebody, the oldest first.

    Of a session, a container, or all that you may use.
    """
    waits = context.store.waits(await context.sessions.containers(request.container_id))
    found = await waits.list_page(
        session_id=request.session_id, state=request.state, after=number_of(request.cursor) or 0, limit=request.limit + 1
    )
    page = found[: request.limit]
    following = str(page[-1][0]) if len(found) > len(page) else None
    return ToolWaitsReply(waits=tuple(wait for _, wait in page), next_cursor=following)


class WaitShow(Request[ToolWait]):
    wait_id: WaitId


@operation("tool.wait", needs=USE, http=Http(method="GET", path=_ONE, id="waits_show"), raises=(WaitNotFound,))
async def show(context: "Context", request: WaitShow) -> ToolWait:
    """Show a tool call that waits: the tool, its input, who may answer, and until when."""
    return await _find(context, request.wait_id)


class ToolAnswerReply(Reply):
    """The turn goes on by itself; its events tell how."""

    wait_id: WaitId
    turn_id: TurnId
    decision: AnswerDecision


class ToolAnswer(Request[ToolAnswerReply]):
    """`fingerprint` is that of the wait: an answer is for one call with one input.

    `input` is the whole input for `edit`, `result` the result of a client's tool or the answer to a question for `answer`.
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
    raises=(WaitNotFound, WaitAlreadyAnswered, WaitExpired, WaitForbidden),
)
async def answer(context: "Context", request: ToolAnswer) -> ToolAnswerReply:
    """Answer a tool call that waits: approve, edit or deny it, or give its result.

    The first answer counts. The same answer again has the same reply.
    """
    context.target = request.wait_id
    wait = await _find(context, request.wait_id)
    given = _checked(wait, request)
    reply = ToolAnswerReply(wait_id=wait.wait_id, turn_id=wait.turn_id, decision=request.decision)
    check_audience(context.principal, wait)
    if wait.answer is None and wait.expires_at <= context.vm.clock():
        raise WaitExpired(wait.wait_id)
    user_id = context.principal.user_id
    if wait.answer is None and await context.vm.runtime.answer_wait(context.tenant_id, wait, given, user_id):
        return reply
    current = await _find(context, request.wait_id)
    if current.answer != given:
        raise WaitAlreadyAnswered(wait.wait_id, "" if current.answer is None else current.answer.decision)
    return reply


async def _find(context: "Context", wait_id: WaitId) -> ToolWait:
    wait = await context.store.waits(await context.sessions.containers()).get(wait_id)
    if wait is None:
        raise WaitNotFound(wait_id)
    return wait


def _checked(wait: ToolWait, request: ToolAnswer) -> WaitAnswer:
    """Returns the answer; `InvalidInput` names what it has too much or too little."""
    if request.fingerprint != wait.fingerprint:
        raise InvalidInput("fingerprint is not that of this wait: look at the call again, it is another than the one you saw")
    if request.decision not in wait.decisions:
        raise InvalidInput(f"decision must be one of {', '.join(wait.decisions)} for a wait of the kind {wait.kind}")
    if (request.input is not None) != (request.decision == "edit"):
        raise InvalidInput("input is required for the decision edit, and for no other")
    if request.result is not None and request.decision != "answer":
        raise InvalidInput("result is only for the decision answer")
    if request.remember is not None and not (wait.may_remember and request.decision == "approve"):
        raise InvalidInput("remember is only for an approval whose rule allows it")
    return WaitAnswer(
        decision=request.decision,
        input=request.input,
        result=request.result,
        reason=request.reason,
        remember=request.remember,
    )


def check_audience(principal: Principal, wait: ToolWait) -> None:
    """Refuses who is not among those who may answer. A principal without a user is a key of the tenant itself."""
    if wait.not_sender and principal.user_id is not None and principal.user_id == wait.sender:
        raise WaitForbidden(wait.wait_id, "somebody other than the sender of the message has to answer")
    match wait.audience.partition(":"):
        case ("admins" | "owner", _, _) if not principal.may("tenants:admin"):
            raise WaitForbidden(wait.wait_id, "an administrator of the tenant has to answer")
        case ("user", _, user_id) if principal.user_id != user_id:
            raise WaitForbidden(wait.wait_id, "another user has to answer")
        case ("sender", _, _) if wait.sender is not None and principal.user_id not in (wait.sender, None):
            raise WaitForbidden(wait.wait_id, "the sender of the message has to answer")
        case _:
            pass
