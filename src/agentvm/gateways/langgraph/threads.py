"""LangGraph threads — sessions under the names that clients give them, with the metadata that clients keep there."""

import uuid
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal

import msgspec

from agentvm.errors import Conflict, InvalidInput, NotFound, Unprocessable, not_found
from agentvm.gateways.langgraph.history import READ, read_values
from agentvm.gateways.langgraph.interrupts import interrupt_of
from agentvm.gateways.langgraph.messages import moment
from agentvm.gateways.routes import Ask, GatewayReply, GatewayRoute, Lenient, NoBody
from agentvm.gateways.talk import Talk
from agentvm.model.ids import ContainerId
from agentvm.model.session import EXTERNAL_MAX, Alias, Session
from agentvm.operations.branch import SessionFork
from agentvm.operations.session import SessionDelete
from agentvm.operations.tool import ToolWaits, WaitView
from agentvm.storage.sql.aliases import NamedQuery, NamedSession, NamedState

GATEWAY: Final = "langgraph"
CONTAINER_HEADER: Final = "x-avm-container"
DEFAULT_AGENT: Final = "default"
USE = "agent:use"
PAGE_MAX = 100
OFFSET_MAX = 1_000_000_000
VALUES_MAX_BYTES = 2 * 1024 * 1024
"""The histories in a list of threads; the threads beyond have none."""
METADATA_MAX_BYTES = 64 * 1024
NAMES = {"thread": "session_id"}

ThreadStatus = Literal["idle", "busy", "interrupted", "error"]
STATUSES: dict[NamedState, ThreadStatus] = {"idle": "idle", "running": "busy", "parked": "interrupted", "failed": "error"}
_STATES: dict[ThreadStatus, NamedState] = {status: state for state, status in STATUSES.items()}


class ThreadCreateBody(Lenient, frozen=True):
    thread_id: str | None = None
    metadata: dict[str, Any] | None = None
    if_exists: Literal["raise", "do_nothing"] = "raise"
    ttl: Any = None
    supersteps: list[Any] | None = None


class ThreadPatchBody(Lenient, frozen=True):
    metadata: dict[str, Any] | None = None


class ThreadSearchBody(Lenient, frozen=True):
    metadata: dict[str, Any] | None = None
    status: ThreadStatus | None = None
    ids: tuple[str, ...] | None = None
    values: dict[str, Any] | None = None
    limit: Annotated[int, msgspec.Meta(ge=0)] = 10
    offset: Annotated[int, msgspec.Meta(ge=0)] = 0
    sort_by: Literal["created_at", "updated_at", "state_updated_at"] | None = None
    sort_order: Literal["asc", "desc"] | None = None
    select: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Thread:
    """A session as a thread. One without a name is known by its own id."""

    named: NamedSession
    session: Session
    alias: Alias | None

    @property
    def thread_id(self) -> str:
        return self.named.external

    @property
    def assistant_id(self) -> str:
        return str(self.named.metadata.get("assistant_id") or self.session.image_id)


def container_of(ask: Ask[Any], talk: Talk, metadata: dict[str, Any] | None = None) -> ContainerId:
    """Returns the container of a request, after the check of the permissions that every request needs."""
    talk.principal.require(USE)
    talk.principal.require(READ)
    user = (metadata or {}).get("user")
    return talk.container(ask.headers.get(CONTAINER_HEADER), user if isinstance(user, str) else None)


async def find_thread(talk: Talk, container_id: ContainerId, thread_id: str) -> Thread | None:
    listed = await talk.aliases(container_id).list(GATEWAY, NamedQuery(external=thread_id))
    try:
        if listed:
            return Thread(listed[0], await talk.session(listed[0].session_id), Alias(GATEWAY, thread_id))
        if thread_id.startswith("sess_"):
            session = await talk.session(thread_id)
            return Thread(NamedSession(thread_id, session.session_id, {}, "idle"), session, None)
    except NotFound:
        pass
    return None


async def get_thread(ask: Ask[Any], talk: Talk) -> Thread:
    """Returns the thread that a path names; `NotFound` for one of others as for none."""
    thread = await find_thread(talk, container_of(ask, talk), ask.path["thread"])
    if thread is None:
        raise not_found("Thread", ask.path["thread"])
    return thread


async def open_thread(talk: Talk, container_id: ContainerId, thread_id: str | None, metadata: dict[str, Any]) -> Thread:
    """Creates a thread. Before its first message, its agent may be changed by a run."""
    external = thread_id or str(uuid.uuid4())
    if external.startswith("sess_"):
        # The id of a session of this server, which is not within reach.
        raise not_found("Thread", external)
    if not 0 < len(external) <= EXTERNAL_MAX:
        raise InvalidInput(f"A thread_id has 1 to {EXTERNAL_MAX} characters")
    check_metadata(metadata)
    agent = metadata.get("assistant_id") or metadata.get("graph_id") or DEFAULT_AGENT
    image = await talk.agent(str(agent), container_id)
    alias = Alias(GATEWAY, external)
    session = await talk.open(image.image_id, alias)
    if session.session_id not in talk.created and (thread := await find_thread(talk, container_id, external)) is not None:
        # Another request has created it meanwhile.
        return thread
    await talk.aliases(container_id).set_metadata(alias, metadata)
    return Thread(NamedSession(external, session.session_id, metadata, "idle"), session, alias)


async def set_metadata(talk: Talk, thread: Thread, metadata: dict[str, Any]) -> Thread:
    """Replaces the metadata that clients keep with a thread. One that was not created here has no place for it."""
    if thread.alias is None or metadata == thread.named.metadata:
        return thread
    check_metadata(metadata)
    await talk.aliases(thread.session.container_id).set_metadata(thread.alias, metadata)
    return replace(thread, named=replace(thread.named, metadata=metadata))


def check_metadata(metadata: dict[str, Any]) -> None:
    if len(msgspec.json.encode(metadata)) > METADATA_MAX_BYTES:
        raise Unprocessable(f"metadata has at most {METADATA_MAX_BYTES} bytes")


async def open_waits(talk: Talk, session: Session) -> tuple[WaitView, ...]:
    waits: tuple[WaitView, ...] = (await talk.ask(ToolWaits(session_id=session.session_id, state="open"))).waits
    return waits


async def show(talk: Talk, thread: Thread, *, with_values: bool = True) -> dict[str, Any]:
    """Returns the thread as its clients read it."""
    named, session = thread.named, thread.session
    waits = await open_waits(talk, session) if named.state == "parked" else ()
    interrupts = [interrupt_of(wait) for wait in waits]
    values = await read_values(talk, session) if with_values else None
    return {
        "thread_id": named.external,
        "created_at": moment(session.created_at),
        "updated_at": moment(max(session.updated_at, session.active_at)),
        "state_updated_at": moment(session.active_at),
        "metadata": named.metadata,
        "status": STATUSES[named.state],
        "config": {},
        "values": None if values is None else {"messages": values},
        "interrupts": {interrupts[0]["id"]: interrupts} if interrupts else {},
        "error": None,
    }


def refuse_unsupported(**members: object) -> None:
    """Refuses members that would change the answer and are not read here."""
    for name, value in members.items():
        if value:
            raise Unprocessable(f"{name} is not supported here; leave it out")


async def create(ask: Ask[ThreadCreateBody], talk: Talk) -> GatewayReply:
    body = ask.body
    refuse_unsupported(ttl=body.ttl, supersteps=body.supersteps)
    container_id = container_of(ask, talk, body.metadata)
    thread = None if body.thread_id is None else await find_thread(talk, container_id, body.thread_id)
    thread = thread or await open_thread(talk, container_id, body.thread_id, body.metadata or {})
    if body.if_exists == "raise" and thread.session.session_id not in talk.created:
        raise Conflict("There is a thread with this id already")
    return GatewayReply(content=await show(talk, thread))


async def get(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    return GatewayReply(content=await show(talk, await get_thread(ask, talk)))


async def patch(ask: Ask[ThreadPatchBody], talk: Talk) -> GatewayReply:
    thread = await get_thread(ask, talk)
    if thread.alias is None:
        raise Conflict("Only threads created over this gateway have metadata")
    changed = await set_metadata(talk, thread, {**thread.named.metadata, **(ask.body.metadata or {})})
    return GatewayReply(content=await show(talk, changed))


async def delete(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    thread = await get_thread(ask, talk)
    await talk.ask(SessionDelete(session_id=thread.session.session_id))
    return GatewayReply(content=None, status=204)


async def copy(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    """Forks the session, under a new name."""
    thread = await get_thread(ask, talk)
    forked = (await talk.ask(SessionFork(session_id=thread.session.session_id))).session
    alias, aliases = Alias(GATEWAY, str(uuid.uuid4())), talk.aliases(thread.session.container_id)
    if forked is None:
        raise not_found("Thread", ask.path["thread"])
    await aliases.put(alias, forked.session_id, talk.vm.clock())
    await aliases.set_metadata(alias, thread.named.metadata)
    copied = await find_thread(talk, thread.session.container_id, alias.external)
    if copied is None:
        raise not_found("Thread", ask.path["thread"])
    return GatewayReply(content=await show(talk, copied))


def _query(body: ThreadSearchBody) -> NamedQuery:
    refuse_unsupported(values=body.values)
    return NamedQuery(
        metadata=body.metadata,
        state=None if body.status is None else _STATES[body.status],
        order="created" if body.sort_by == "created_at" else "active",
        is_ascending=body.sort_order == "asc",
        limit=min(body.limit, PAGE_MAX),
        offset=min(body.offset, OFFSET_MAX),
    )


async def search(ask: Ask[ThreadSearchBody], talk: Talk) -> GatewayReply:
    body, container_id = ask.body, container_of(ask, talk)
    aliases, query = talk.aliases(container_id), _query(body)
    if body.ids is not None:
        by_id = [await aliases.list(GATEWAY, NamedQuery(external=external)) for external in body.ids[:PAGE_MAX]]
        listed = tuple(named for page in by_id for named in page)
    else:
        listed = await aliases.list(GATEWAY, query)
    threads: list[dict[str, Any]] = []
    size = 0
    for named in listed:
        with_values = size < VALUES_MAX_BYTES and (body.select is None or "values" in body.select)
        thread = Thread(named, await talk.session(named.session_id), Alias(GATEWAY, named.external))
        shown = await show(talk, thread, with_values=with_values)
        size += sum(len(str(message["content"])) for message in (shown["values"] or {}).get("messages", ()))
        threads.append(shown if body.select is None else {name: shown.get(name) for name in body.select})
    total = await aliases.count(GATEWAY, query)
    headers = {"X-Pagination-Total": str(total)}
    if body.ids is None and query.offset + len(listed) < total:
        headers["X-Pagination-Next"] = str(query.offset + len(listed))
    return GatewayReply(content=threads, headers=headers)


async def count(ask: Ask[ThreadSearchBody], talk: Talk) -> GatewayReply:
    container_id = container_of(ask, talk)
    return GatewayReply(content=await talk.aliases(container_id).count(GATEWAY, _query(ask.body)))


THREAD_ROUTES = (
    GatewayRoute(method="POST", path="/threads", handler=create, body=ThreadCreateBody),
    GatewayRoute(method="POST", path="/threads/search", handler=search, body=ThreadSearchBody),
    GatewayRoute(method="POST", path="/threads/count", handler=count, body=ThreadSearchBody),
    GatewayRoute(method="GET", path="/threads/{thread}", handler=get, names=NAMES),
    GatewayRoute(method="PATCH", path="/threads/{thread}", handler=patch, body=ThreadPatchBody, names=NAMES),
    GatewayRoute(method="DELETE", path="/threads/{thread}", handler=delete, names=NAMES),
    GatewayRoute(method="POST", path="/threads/{thread}/copy", handler=copy, names=NAMES),
)
