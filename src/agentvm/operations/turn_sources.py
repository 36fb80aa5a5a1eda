"""Turn sources — the common part of schedules and triggers: both send an agent a message, and list the runs."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec.structs import replace

from agentvm.errors import InvalidInput, NotFound, SessionNotFound, not_found
from agentvm.model.base import Record
from agentvm.model.ids import ContainerId, ImageId, SessionId, TurnId
from agentvm.model.schedule import (
    DisabledReason,
    MessageText,
    OnAsk,
    RunRecord,
    RunsPerDay,
    SessionMode,
    SourceName,
    TurnSource,
)
from agentvm.model.turn import TurnBudget
from agentvm.operations.image_open import AgentName
from agentvm.operations.numbers import check_text
from agentvm.operations.operation import Context
from agentvm.operations.pages import Limit, Page, number_of, paged
from agentvm.protocol.requests import Reply, Request

if TYPE_CHECKING:
    from agentvm.storage.sql.schedules import SourceStore
    from agentvm.storage.sql.store import TenantStore

S = TypeVar("S", bound=TurnSource)
R_co = TypeVar("R_co", covariant=True)
Modify = Callable[[S], S]

USE = "agent:use"


class TurnSourceView(Record):
    """The common part of a schedule and a trigger as clients see them."""

    name: str
    container_id: ContainerId
    image_id: ImageId
    message: str
    session_mode: SessionMode
    session_id: SessionId | None = None
    on_ask: OnAsk
    budget: TurnBudget | None = None
    runs_per_day: int | None = None
    enabled: bool
    disabled_reason: DisabledReason | None = None
    created_by: str
    created_at: int
    updated_at: int
    last_at: int | None = None
    last_turn_id: TurnId | None = None


class NewSource(Request[R_co]):
    """`agent` is the name of a definition, the URI or name of an agent, or the id of an image.

    Without a container: your own, or `default` if you may use all containers.
    """

    agent: AgentName
    message: MessageText
    name: SourceName | None = None
    container_id: str | None = None
    session_id: SessionId | None = None
    """An existing session of the agent to continue in, for `same`."""
    on_ask: OnAsk = "deny"
    budget: TurnBudget | None = None
    runs_per_day: RunsPerDay | None = None


class SourceChanges(Request[R_co]):
    """Members that are absent stay as they are."""

    name: SourceName | None = None
    message: MessageText | None = None
    session_mode: SessionMode | None = None
    on_ask: OnAsk | None = None
    budget: TurnBudget | None = None
    runs_per_day: RunsPerDay | None = None
    enabled: bool | None = None


class SourceList(Request[R_co]):
    """A list of a container, or of all that you may use. `cursor` is the `nextCursor` of the previous page."""

    container_id: str | None = None
    cursor: str | None = None
    limit: Limit = 100


class RunListReply(Reply):
    runs: tuple[RunRecord, ...]


class RunReply(Reply):
    """The turn that was begun; `isNew` is false for one that an earlier request began."""

    session_id: SessionId
    turn_id: TurnId
    is_new: bool


class Sources(Generic[S]):
    """The schedules, or the triggers, within reach of a request."""

    def __init__(self, noun: str, open_store: "Callable[[TenantStore, Sequence[ContainerId] | None], SourceStore[S]]") -> None:
        self._noun, self._open_store = noun, open_store

    async def store(self, context: Context, named: str | None = None) -> "SourceStore[S]":
        """Returns the store of a container, or of all within reach."""
        return self._open_store(context.store, await context.sessions.containers(named))

    async def get(self, context: Context, source_id: str) -> S:
        """Returns one; `NotFound` if it is not there."""
        return self._existing(await (await self.store(context)).get(source_id), source_id)

    async def page(self, context: Context, request: SourceList[Any]) -> Page[S]:
        """Returns a page of them, oldest first."""
        store = await self.store(context, request.container_id)
        there = await store.list(after=number_of(request.cursor) or 0, limit=request.limit + 1)
        page = paged(there, request.limit, lambda index: str(there[index][0]))
        return Page(items=[source for _, source in page.items], next_cursor=page.next_cursor)

    async def change(self, context: Context, source_id: str, modify: Modify[S]) -> S:
        """Changes one as it is at that moment."""
        return self._existing(await (await self.store(context)).change(source_id, modify), source_id)

    async def update(self, context: Context, source_id: str, request: SourceChanges[Any], more: Modify[S] | None = None) -> S:
        """Changes the fields that a request names, `enabled` included; `more` is applied to the result."""
        now = context.vm.clock()
        if request.name is not None:
            check_text(request.name, "name")

        def modify(source: S) -> S:
            after = changed(source, request, now)
            return after if more is None else more(after)

        return await self.change(context, source_id, modify)

    async def delete(self, context: Context, source_id: str) -> Reply:
        """Deletes one with the list of its runs."""
        if not await (await self.store(context)).remove(source_id):
            raise self._missing(source_id)
        return Reply()

    async def runs(self, context: Context, source_id: str) -> RunListReply:
        """Returns the last runs of one, newest first."""
        store = await self.store(context)
        self._existing(await store.get(source_id), source_id)
        return RunListReply(runs=await store.runs(source_id))

    def _existing(self, source: S | None, source_id: str) -> S:
        if source is None:
            raise self._missing(source_id)
        return source

    def _missing(self, source_id: str) -> NotFound:
        return not_found(self._noun.capitalize(), source_id)


async def place(
    context: Context, agent: str, named: str | None, mode: SessionMode, session_id: SessionId | None
) -> tuple[ImageId, ContainerId]:
    """Returns the image of an agent, built if need be, and its container; checks the session that is to be gone on with."""
    container_id = context.workspace.container_id(named or context.images.home())
    image, _, _ = await context.images.open(container_id, agent)
    if session_id is not None:
        if mode != "same":
            raise InvalidInput("sessionId is only for the sessionMode same")
        _, session = await context.workspace.session(session_id)
        if session.image_id != image.image_id:
            raise SessionNotFound(session_id)
    return image.image_id, image.container_id


def name_of(name: str | None, message: str, source_id: str) -> str:
    """Returns the name of a schedule or trigger: that of the request, else the beginning of its message."""
    return check_text(name or message.split("\n")[0][:80].strip() or source_id, "name")


def made_by(context: Context, now: int) -> dict[str, object]:
    """Returns the members of a schedule or trigger that say who has made it, and when."""
    principal = context.principal
    return {
        "user_id": principal.user_id,
        "key_id": principal.key_id,
        "created_by": principal.user_id or principal.actor,
        "created_at": now,
        "updated_at": now,
        "disabled_at": None,
        "disabled_reason": None,
        "last_at": None,
        "last_turn_id": None,
        "day": 0,
        "day_runs": 0,
    }


def changed(source: S, request: SourceChanges[Any], now: int) -> S:
    """Returns a schedule or trigger with the members that a request names. A run in new sessions continues in none."""
    fields = set(SourceChanges.__struct_fields__) - {"enabled"}
    changes = {name: value for name in fields if (value := getattr(request, name)) is not None}
    changes |= {"session_id": None} if changes.get("session_mode") == "new" else {}
    source = replace(source, **changes, updated_at=now)
    if request.enabled is None:
        return source
    return replace(source, disabled_at=None if request.enabled else source.disabled_at or now, disabled_reason=None)
