"""Feedback — rate the answer of a turn, and read the ratings."""

from typing import Annotated

from msgspec import Meta

from agentvm.errors import NotFound, not_found
from agentvm.model.base import record_from
from agentvm.model.feedback import NOTE_MAX, Feedback, Rating
from agentvm.model.ids import SessionId, TurnId
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.pages import Page, PageRequest, number_of, paged
from agentvm.protocol.requests import Request

operation = OperationGroup("feedback")

_OF_TURN = "/v1/turns/{turn_id}/feedback"


class FeedbackGive(Request[Feedback]):
    turn_id: TurnId
    rating: Rating
    note: Annotated[str, Meta(max_length=NOTE_MAX)] | None = None


@operation(
    "feedback.give",
    needs="agent:use",
    across=False,
    http=Http("PUT", _OF_TURN, names=("FeedbackRequest", None)),
    raises=(NotFound,),
)
async def give(context: Context, request: FeedbackGive) -> Feedback:
    """Rate the answer of a turn, with an optional note. Replaces your earlier rating."""
    turn = await context.store.find_turn(request.turn_id)
    if turn is None:
        raise not_found("Turn", request.turn_id)
    feedback = record_from(Feedback, request, session_id=turn.session_id, author=_author(context), at=context.vm.clock())
    if not await context.accounts.feedback.put(feedback):
        raise not_found("Turn", request.turn_id)
    return feedback


class FeedbackWithdraw(Request[None]):
    turn_id: TurnId


@operation("feedback.withdraw", needs="agent:use", across=False, http=Http("DELETE", _OF_TURN), raises=(NotFound,))
async def withdraw(context: Context, request: FeedbackWithdraw) -> None:
    """Delete your rating of a turn."""
    if not await context.accounts.feedback.drop(request.turn_id, _author(context)):
        raise NotFound("You have not rated this turn")


class FeedbackView(Feedback):
    number: int


class FeedbackList(PageRequest):
    """Every field narrows the list."""

    session_id: SessionId | None = None
    rating: Rating | None = None


@operation("feedback.list", needs="sessions:read", http=Http("GET", "/v1/feedback"))
async def list_all(context: Context, request: FeedbackList) -> Page[FeedbackView]:
    """List ratings of answers, the newest first.

    With `tenants:admin`, those of all users of the tenant; your own otherwise. With a key for some containers, those there.
    """
    store, principal, containers = context.accounts.feedback, context.principal, None
    if principal.containers is not None:
        # A key has patterns, ratings have names.
        containers = [container_id for container_id in await store.containers() if principal.reaches(container_id)]
    numbered = await store.list(
        author=None if principal.may("tenants:admin") else _author(context),
        rating=request.rating,
        session_id=request.session_id,
        containers=containers,
        before=number_of(request.cursor),
        limit=request.limit + 1,
    )
    items = [record_from(FeedbackView, feedback, number=number) for number, feedback in numbered]
    return paged(items, request.limit, lambda index: str(items[index].number))


def _author(context: Context) -> str:
    return context.principal.user_id or context.principal.key_id or ""
