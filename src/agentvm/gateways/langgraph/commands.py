"""Commands — the requests of the thread protocol: to start a run, to answer waits, and to read the state."""

from typing import Any

import msgspec

from agentvm.errors import InvalidInput, NotFound, Unprocessable, shorten
from agentvm.errors.validation import explain
from agentvm.gateways.langgraph.run_body import RunBody, RunCommand
from agentvm.gateways.langgraph.starting import StartedRun, resume_run, start_run
from agentvm.gateways.langgraph.state import list_checkpoints, read_state
from agentvm.gateways.langgraph.threads import NAMES, STATUSES, get_thread, open_waits
from agentvm.gateways.routes import Ask, GatewayReply, GatewayRoute, Lenient
from agentvm.gateways.talk import Talk

_TREE = {"idle": "completed", "busy": "running", "interrupted": "interrupted", "error": "failed"}


class CommandBody(Lenient, frozen=True):
    """`id` is the client's number of the command, and comes back with the answer."""

    id: int | None = None
    method: str = ""
    params: dict[str, Any] = msgspec.field(default_factory=dict)


class InterruptAnswer(Lenient, frozen=True):
    interrupt_id: str
    response: Any = None


class RespondParams(Lenient, frozen=True):
    """An answer, or several that belong together."""

    interrupt_id: str | None = None
    response: Any = None
    responses: tuple[InterruptAnswer, ...] | None = None
    update: Any = None
    goto: Any = None

    @property
    def answers(self) -> dict[str, Any]:
        if self.responses is not None:
            return {answer.interrupt_id: answer.response for answer in self.responses}
        return {} if self.interrupt_id is None else {self.interrupt_id: self.response}


Answer = tuple[dict[str, Any], int | None]
"""The result of a command, and the number before the first event that it caused."""


async def command(ask: Ask[CommandBody], talk: Talk) -> GatewayReply:
    """Carries out a command. A failed one has the status of its error."""
    act = _COMMANDS.get(ask.body.method)
    if act is None:
        # A caller without the right learns nothing about methods.
        await get_thread(ask, talk)
        raise Unprocessable(f"The command {ask.body.method[:40]!r} is not known here")
    result, cursor = await act(ask, talk)
    meta = {} if cursor is None else {"meta": {"applied_through_seq": cursor}}
    return GatewayReply(content={"type": "success", "id": ask.body.id, "result": result, **meta})


async def _start(ask: Ask[CommandBody], talk: Talk) -> Answer:
    """Starts a run, and the thread if there is none. An input without messages answers waits."""
    params = ask.body.params
    values = params.get("input")
    is_said = values is None or (isinstance(values, dict) and "messages" in values)
    body = read_params(
        {
            **params,
            "input": values if is_said else None,
            "multitask_strategy": params.get("multitask_strategy") or params.get("multitaskStrategy"),
            "if_not_exists": "create",
        },
        RunBody,
    )
    if not is_said:
        body = msgspec.structs.replace(body, command=RunCommand(resume=values))
    return _started(await start_run(_asking(ask, body), talk))


async def _respond(ask: Ask[CommandBody], talk: Talk) -> Answer:
    params = read_params(ask.body.params, RespondParams)
    thread = await get_thread(ask, talk)
    if params.update or params.goto:
        raise Unprocessable("update and goto are not supported here; leave them out")
    ids = {wait.wait_id for wait in await open_waits(talk, thread.session)}
    if not params.answers or not ids.issuperset(params.answers):
        unknown = next((shorten(name) for name in params.answers if name not in ids), "An empty response")
        raise NotFound(f"{unknown} is not an open interrupt of this thread; it may have been answered already")
    return _started(await resume_run(talk, thread, params.answers))


async def _inject(ask: Ask[CommandBody], talk: Talk) -> Answer:
    """Says a message to the thread; one that runs takes it up afterwards."""
    thread = await get_thread(ask, talk)
    values = {"messages": [ask.body.params.get("message")]}
    body = RunBody(assistant_id=thread.assistant_id, input=values)
    return _started(await start_run(_asking(ask, body), talk))


async def _fork(ask: Ask[CommandBody], talk: Talk) -> Answer:
    """Continues from a checkpoint; later messages are kept as rewound."""
    thread = await get_thread(ask, talk)
    body = read_params({**ask.body.params, "assistant_id": thread.assistant_id}, RunBody)
    result, cursor = _started(await start_run(_asking(ask, body), talk))
    return {**result, "thread_id": thread.thread_id}, cursor


async def _state(ask: Ask[CommandBody], talk: Talk) -> Answer:
    state = await read_state(talk, await get_thread(ask, talk))
    keys = ask.body.params.get("keys")
    values = {name: value for name, value in state["values"].items() if not isinstance(keys, list) or name in keys}
    return {"values": values, "checkpoint": {"id": state["checkpoint_id"], "ns": ""}}, None


async def _checkpoints(ask: Ask[CommandBody], talk: Talk) -> Answer:
    params, thread = ask.body.params, await get_thread(ask, talk)
    limit, before = params.get("limit"), params.get("before")
    states = await list_checkpoints(
        talk, thread, limit if isinstance(limit, int) else 10, before if isinstance(before, str) else None
    )
    listed = [
        {"id": state["checkpoint_id"], "timestamp": state["created_at"], "step": state["metadata"]["step"]} for state in states
    ]
    return {"checkpoints": listed}, None


async def _tree(ask: Ask[CommandBody], talk: Talk) -> Answer:
    thread = await get_thread(ask, talk)
    status = _TREE[STATUSES[thread.named.state]]
    return {"tree": {"namespace": [], "status": status, "graph_name": thread.assistant_id, "children": []}}, None


def _asking(ask: Ask[CommandBody], body: RunBody) -> Ask[RunBody]:
    return Ask(body=body, path=ask.path, query=ask.query, headers=ask.headers)


def _started(run: StartedRun) -> Answer:
    return {"run_id": run.sent.turn_id}, run.settled.cursor or run.sent.cursor


def read_params(params: dict[str, Any], kind: Any) -> Any:
    """Returns the params as a record; `InvalidInput` for others."""
    try:
        return msgspec.convert(params, kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"params: {explain(error, kind)}") from None


_COMMANDS = {
    "run.start": _start,
    "input.respond": _respond,
    "input.inject": _inject,
    "state.get": _state,
    "state.listCheckpoints": _checkpoints,
    "state.fork": _fork,
    "agent.getTree": _tree,
}

COMMANDS = tuple(_COMMANDS)
COMMAND_ROUTES = (
    GatewayRoute(method="POST", path="/threads/{thread}/commands", handler=command, body=CommandBody, names=NAMES),
)
