"""Turn sources — schedules and triggers have much in common: both send an agent a message, and list what came of it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

from msgspec import Meta
from msgspec.structs import replace

from agentvm.errors import InvalidInput, NotFound, SessionNotFound
from agentvm.model.ids import ContainerId, ImageId, SessionId, TurnId
from agentvm.model.schedule import RunRecord, SessionMode, TurnSource
from agentvm.operations.numbers import check_text
from agentvm.operations.operation import Context
from agentvm.operations.pages import Limit, Page, number_of, paged
from agentvm.protocol.requests import Reply

if TYPE_CHECKING:
    from agentvm.storage.sql.schedules import SourceStore

S = TypeVar("S", bound=TurnSource)
Agent = Annotated[str, Meta(min_length=1, max_length=512)]


class RunListReply(Reply):
    runs: tuple[RunRecord, ...]


class RunReply(Reply):
    """The turn that was begun; `isNew` is false for one that an earlier request began."""

    session_id: SessionId
    turn_id: TurnId
    is_new: bool


def found(source: S | None, noun: str, source_id: str) -> S:
    """Returns a schedule or trigger that is there; `NotFound` names one that is not."""
    if source is None:
        raise missing(noun, source_id)
    return source


def missing(noun: str, source_id: str) -> NotFound:
    return NotFound(f"There is no {noun} {source_id}")


async def page_of_sources(store: "SourceStore[S]", cursor: str | None, limit: Limit) -> Page[S]:
    """Returns a page of schedules or triggers, oldest first."""
    there = await store.list(after=number_of(cursor) or 0, limit=limit + 1)
    page = paged(there, limit, lambda index: str(there[index][0]))
    return Page(items=[source for _, source in page.items], next_cursor=page.next_cursor)


async def runs_of(store: "SourceStore[S]", noun: str, source_id: str) -> RunListReply:
    """Returns the last runs of a schedule or trigger, newest first."""
    found(await store.get(source_id), noun, source_id)
    return RunListReply(runs=await store.runs(source_id))


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


def given_changes(request: object, names: Sequence[str]) -> dict[str, object]:
    """Returns the members of a request that change something. A run in new sessions goes on in none."""
    given = {name: value for name in names if (value := getattr(request, name)) is not None}
    return {**given, "session_id": None} if given.get("session_mode") == "new" else given


def changed(source: S, given: Mapping[str, object], enabled: bool | None, now: int) -> S:
    """Returns a schedule or trigger with changes, enabled or not."""
    source = replace(source, **given, updated_at=now)
    if enabled is None:
        return source
    return replace(source, disabled_at=None if enabled else source.disabled_at or now, disabled_reason=None)
