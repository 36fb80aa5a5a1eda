"""LangGraph runs — turns of a thread: begun, streamed, awaited, listed, joined and cancelled."""

from contextlib import suppress
from typing import Any, Final, Literal
from urllib.parse import quote

from agentvm.errors import Conflict, InvalidInput, NotFound, Unprocessable, not_found
from agentvm.gateways.langgraph.history import list_turns
from agentvm.gateways.langgraph.messages import moment
from agentvm.gateways.langgraph.run_body import RunBody, read_modes
from agentvm.gateways.langgraph.run_events import RunEvents
from agentvm.gateways.langgraph.run_stream import FollowedRun, OnClosed, Settled, await_run, stream_run
from agentvm.gateways.langgraph.starting import StartedRun, start_run
from agentvm.gateways.langgraph.threads import NAMES, OFFSET_MAX, Thread, container_of, find_thread, get_thread, open_waits
from agentvm.gateways.routes import Ask, GatewayReply, GatewayRoute, Lenient, NoBody
from agentvm.gateways.sse import MEDIA_TYPE
from agentvm.gateways.talk import Talk
from agentvm.model.turn import Turn
from agentvm.operations.branch import SessionRewind
from agentvm.operations.pages import is_number
from agentvm.operations.session import SessionDelete
from agentvm.storage.sessions import TurnStatus

RUN_NAMES: Final = {**NAMES, "run": "turn_id"}
PAGE_MAX = 100
_STATUSES: Final = {"completed": "success", "failed": "error", "interrupted": "interrupted"}
_OUTCOMES: dict[str, TurnStatus] = {
    "success": "completed",
    "error": "failed",
    "interrupted": "interrupted",
    "running": "running",
    "pending": "running",
}


_NEVER: Final = "timeout"
"""A status that no run has: a turn that takes too long fails."""


class CancelBody(Lenient, frozen=True):
    thread_id: str | None = None
    run_ids: tuple[str, ...] | None = None
    status: Literal["pending", "running", "all"] | None = None


def show_run(turn: Turn, thread: Thread) -> dict[str, Any]:
    """Returns a turn as a run."""
    parked = "running" if turn.parked_at is None else "interrupted"
    return {
        "run_id": turn.turn_id,
        "thread_id": thread.thread_id,
        "assistant_id": thread.assistant_id,
        "status": parked if turn.outcome is None else _STATUSES[turn.outcome],
        "created_at": moment(turn.accepted_at),
        "updated_at": moment(turn.ended_at or turn.accepted_at),
        "metadata": {"graph_id": thread.assistant_id, "assistant_id": thread.assistant_id},
        "kwargs": {},
        "multitask_strategy": "enqueue",
    }


def _headers(thread_id: str, run_id: str, way: str, query: str = "") -> dict[str, str]:
    """Returns where the run is, without the prefix of the gateway: clients put their base before it."""
    place = f"/threads/{quote(thread_id, safe='')}/runs/{run_id}"
    return {"Content-Location": place, "Location": f"{place}/{way}{query}"}


def _on_closed(run: StartedRun, *, cancels: bool) -> OnClosed:
    async def closed(has_ended: bool) -> None:
        if cancels and not has_ended:
            await run.talk.stop(run.sent)
        if run.is_temporary:
            with suppress(NotFound):
                await run.talk.ask(SessionDelete(session_id=run.sent.session_id))

    return closed


async def stream(ask: Ask[RunBody], talk: Talk) -> GatewayReply:
    """Begins a run and streams it."""
    run = await start_run(ask, talk)
    modes = read_modes(ask.body.stream_mode)
    events = RunEvents(run.sent.turn_id, run.thread.thread_id, ask.body.assistant_id, modes, run.settled.cursor)
    on_closed = _on_closed(run, cancels=run.is_temporary or ask.body.on_disconnect == "cancel")
    content = stream_run(run.followed, events, on_closed)
    query = f"?stream_mode={','.join(sorted(modes))}"
    headers = _headers(run.thread.thread_id, run.sent.turn_id, "stream", query)
    return GatewayReply(content=content, media_type=MEDIA_TYPE, headers=headers)


async def wait(ask: Ask[RunBody], talk: Talk) -> GatewayReply:
    """Begins a run and returns the values at its end."""
    run = await start_run(ask, talk)
    on_closed = _on_closed(run, cancels=run.is_temporary or ask.body.on_disconnect == "cancel")
    headers = _headers(run.thread.thread_id, run.sent.turn_id, "join")
    return GatewayReply(content=await_run(run.followed, on_closed), headers=headers)


async def create(ask: Ask[RunBody], talk: Talk) -> GatewayReply:
    """Begins a run without waiting for it."""
    run = await start_run(ask, talk)
    headers = _headers(run.thread.thread_id, run.sent.turn_id, "join")
    return GatewayReply(content=show_run(run.sent.turn, run.thread), headers={"Content-Location": headers["Content-Location"]})


async def list_runs(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    thread = await get_thread(ask, talk)
    limit, offset = _number(ask, "limit", 10, PAGE_MAX), _number(ask, "offset", 0, OFFSET_MAX)
    if limit + offset == 0:
        return GatewayReply(content=[])
    status = ask.query.get("status")
    if status == _NEVER:
        return GatewayReply(content=[])
    if status is not None and status not in _OUTCOMES:
        raise InvalidInput(f"status must be one of {', '.join(_OUTCOMES)}")
    outcome = None if status is None else _OUTCOMES[status]
    turns = await list_turns(talk, thread.session, outcome, limit + offset)
    return GatewayReply(content=[show_run(turn, thread) for turn in turns[offset:]])


def _number(ask: Ask[Any], name: str, default: int, most: int) -> int:
    text = ask.query.get(name, "")
    return min(int(text), most) if is_number(text) else default


async def _run(ask: Ask[Any], talk: Talk) -> tuple[Thread, Turn]:
    thread = await get_thread(ask, talk)
    return thread, await _turn(talk, thread, ask.path["run"])


async def _turn(talk: Talk, thread: Thread, run_id: str) -> Turn:
    try:
        turn = await talk.turn(run_id)
    except NotFound:
        turn = None
    if turn is None or turn.session_id != thread.session.session_id:
        raise not_found("Run", run_id)
    return turn


async def get(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    thread, turn = await _run(ask, talk)
    return GatewayReply(content=show_run(turn, thread))


async def _keep(has_ended: bool) -> None:
    """Leaves a run as it is."""


async def join(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    """Returns the values at the end of a run."""
    thread, turn = await _run(ask, talk)
    headers = _headers(thread.thread_id, turn.turn_id, "join")
    return GatewayReply(content=await_run(await _followed(talk, thread, turn), _keep), headers=headers)


async def _followed(talk: Talk, thread: Thread, turn: Turn) -> FollowedRun:
    waits = await open_waits(talk, thread.session)
    settled = Settled(await talk.cursor(thread.session), frozenset(wait.wait_id for wait in waits))
    return FollowedRun(talk, await talk.sent(turn), settled, is_queued=turn.outcome is None)


async def join_stream(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    """Streams a run after the event that the client has seen; without one, from its beginning."""
    thread, turn = await _run(ask, talk)
    run = await _followed(talk, thread, turn)
    modes = read_modes(tuple(filter(None, ask.query.get("stream_mode", "").split(","))))
    seen = ask.headers.get("last-event-id", "")
    events = RunEvents(turn.turn_id, thread.thread_id, thread.assistant_id, modes, int(seen) if is_number(seen) else 0)

    async def closed(has_ended: bool) -> None:
        if not has_ended and ask.query.get("cancel_on_disconnect") in ("1", "true"):
            await talk.stop(run.sent)

    content = stream_run(run, events, closed)
    headers = _headers(thread.thread_id, turn.turn_id, "stream", f"?stream_mode={','.join(sorted(modes))}")
    return GatewayReply(content=content, media_type=MEDIA_TYPE, headers=headers)


async def cancel(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    """Stops a run; with `action=rollback` its messages are rewound, with `wait` the response is sent when it has ended."""
    thread, turn = await _run(ask, talk)
    await _cancel(talk, thread, turn, rolls_back=_rolls_back(ask), waits=ask.query.get("wait") in ("1", "true"))
    return GatewayReply(content={}, status=202)


def _rolls_back(ask: Ask[Any]) -> bool:
    """Returns whether a stopped run is also rewound."""
    action = ask.query.get("action", "interrupt")
    if action not in ("interrupt", "rollback"):
        raise InvalidInput("action must be interrupt or rollback")
    return action == "rollback"


async def cancel_many(ask: Ask[CancelBody], talk: Talk) -> GatewayReply:
    """Stops runs of a thread: those that are named, or with a `status` all that have not ended."""
    body, container_id, rolls_back = ask.body, container_of(ask, talk), _rolls_back(ask)
    if body.thread_id is None or (body.run_ids is None) == (body.status is None):
        raise Unprocessable("Give thread_id, and either run_ids or status")
    thread = await find_thread(talk, container_id, body.thread_id)
    if thread is None:
        raise not_found("Thread", body.thread_id)
    for run_id in body.run_ids or ():
        await _cancel(talk, thread, await _turn(talk, thread, run_id), rolls_back=rolls_back, waits=False)
    if body.status is not None:
        await _cancel_all(talk, thread, rolls_back=rolls_back)
    return GatewayReply(content=None, status=204)


async def _cancel_all(talk: Talk, thread: Thread, *, rolls_back: bool) -> None:
    """Stops the runs of a thread, the one that runs before those that wait behind it."""
    for turn in reversed(await list_turns(talk, thread.session, "running")):
        await _cancel(talk, thread, await talk.turn(turn.turn_id), rolls_back=rolls_back, waits=True)


async def _cancel(talk: Talk, thread: Thread, turn: Turn, *, rolls_back: bool, waits: bool) -> None:
    """Stops a run, if it has not ended. One that waits behind another ends when it is its turn."""
    if turn.outcome is None:
        if rolls_back and await talk.is_queued(turn):
            raise Conflict("This run waits behind another one of the thread; cancel that one first, or do not roll back")
        sent = await talk.sent(turn)
        await (talk.end(sent) if waits else talk.stop(sent))
    if rolls_back:
        request = SessionRewind(session_id=thread.session.session_id, before=turn.message_id, on_busy="interrupt")
        await talk.ask(request)


_RUN = "/threads/{thread}/runs/{run}"
RUN_ROUTES = (
    GatewayRoute(method="POST", path="/runs", handler=create, body=RunBody),
    GatewayRoute(method="POST", path="/runs/stream", handler=stream, body=RunBody, streams=True),
    GatewayRoute(method="POST", path="/runs/wait", handler=wait, body=RunBody, streams=True),
    GatewayRoute(method="POST", path="/runs/cancel", handler=cancel_many, body=CancelBody),
    GatewayRoute(method="POST", path="/threads/{thread}/runs", handler=create, body=RunBody, names=NAMES),
    GatewayRoute(method="POST", path="/threads/{thread}/runs/stream", handler=stream, body=RunBody, streams=True, names=NAMES),
    GatewayRoute(method="POST", path="/threads/{thread}/runs/wait", handler=wait, body=RunBody, streams=True, names=NAMES),
    GatewayRoute(method="GET", path="/threads/{thread}/runs", handler=list_runs, names=NAMES),
    GatewayRoute(method="GET", path=_RUN, handler=get, names=RUN_NAMES),
    GatewayRoute(method="GET", path=f"{_RUN}/join", handler=join, streams=True, names=RUN_NAMES),
    GatewayRoute(method="GET", path=f"{_RUN}/stream", handler=join_stream, streams=True, names=RUN_NAMES),
    GatewayRoute(method="POST", path=f"{_RUN}/cancel", handler=cancel, names=RUN_NAMES),
)
