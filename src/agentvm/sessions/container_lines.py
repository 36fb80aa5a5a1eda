"""Container lines — memories, schedules and triggers of a container as lines of an archive, and where they go in an import.

Parts that belong to the server are left out: who made a schedule, when it ran, and the secret of a trigger. Schedules and
triggers are imported disabled, for the server that they come from may continue running them.
"""

import hashlib
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from agentvm.model.base import record_from
from agentvm.model.ids import ContainerId, ImageId, SessionId, TenantId, check_container_id
from agentvm.model.memory import MEMORY_ID_MAX, MEMORY_TEXT_MAX, ContainerMemory
from agentvm.model.principal import Principal
from agentvm.model.schedule import Schedule, ScheduleId, Trigger, TriggerId, TurnSource
from agentvm.model.session import SOURCES, Alias
from agentvm.sessions.line import Json, Unfit, check_values, exactly, line_of, refuse
from agentvm.sessions.placement import Placement
from agentvm.storage.carry import ContainerItem

if TYPE_CHECKING:
    from agentvm.storage.sql.store import TenantStore

PAGE_MAX = 200
_OF_SERVER = (
    "userId", "keyId", "createdBy", "disabledAt", "disabledReason", "lastAt", "lastTurnId", "day", "dayRuns", "nextAt",
    "wakeAt", "secret", "previousSecret", "previousUntil",
)  # fmt: skip
_ABSENT: Mapping[str, Json] = {"memory": {}, "schedule": {"createdBy": ""}, "trigger": {"createdBy": "", "secret": ""}}
"""The required members that a line does not have."""
_KINDS: Mapping[str, type[Any]] = {"memory": ContainerMemory, "schedule": Schedule, "trigger": Trigger}


def of_item(item: ContainerItem) -> bytes:
    (kind,) = (kind for kind, record in _KINDS.items() if type(item) is record)
    return line_of(kind, item, _OF_SERVER)


def to_item(kind: str, data: Json) -> ContainerItem:
    """Returns the item of a line; `Unfit` for an invalid one."""
    if kind not in _KINDS:
        raise Unfit(f"unknown type: {kind[:50]}", "type")
    for member in _OF_SERVER:
        refuse(data, member)
    item: ContainerItem = exactly({**data, **_ABSENT[kind]}, _KINDS[kind])
    return _checked(item)


def _checked(item: ContainerItem) -> ContainerItem:
    check_container_id(item.container_id)
    check_values(id_of(item), item.created_at, item.updated_at, *((item.session_id,) if item.session_id is not None else ()))
    if isinstance(item, ContainerMemory):
        if not 0 < len(item.text) <= MEMORY_TEXT_MAX or len(item.memory_id) > MEMORY_ID_MAX:
            raise Unfit(f"a memory has 1 to {MEMORY_TEXT_MAX} characters, and an id of at most {MEMORY_ID_MAX}", "memory.text")
        check_values(*((item.message_id,) if item.message_id is not None else ()))
    else:
        check_values(item.image_id)
    return item


def id_of(item: ContainerItem) -> str:
    match item:
        case ContainerMemory():
            return item.memory_id
        case Schedule():
            return item.schedule_id
        case Trigger():
            return item.trigger_id


async def items_of_container(
    store: "TenantStore", container_id: ContainerId, images: Mapping[ImageId, Collection[SessionId]]
) -> AsyncIterator[ContainerItem]:
    """Yields the items of a container besides sessions, oldest first; of schedules and triggers those of the given images."""
    container = store.container(container_id)
    for memory in reversed(await container.memories.list()):
        yield record_from(ContainerMemory, memory, container_id=container_id)
    for sources in (store.schedules((container_id,)), store.triggers((container_id,))):
        after = 0
        while page := await sources.list(after=after, limit=PAGE_MAX):
            after = page[-1][0]
            for _, source in page:
                if source.image_id not in images:
                    continue
                # The session that its runs continue in; the first of them may have created it.
                session_id = source.session_id
                if source.session_mode == "same" and session_id is None:
                    session_id = await container.aliases.find(Alias(SOURCES, id_of(source)))
                is_there = session_id in images[source.image_id]
                yield msgspec.structs.replace(source, session_id=session_id if is_there else None)


@dataclass(frozen=True, slots=True)
class Importer:
    """The principal of an import: schedules and triggers run in its name once they are enabled."""

    tenant_id: TenantId
    principal: Principal
    now: int
    seal: Callable[[TriggerId], bytes]
    """Returns a new sealed secret, unknown to all until it is rotated."""


def place_items(
    items: Sequence[ContainerItem], placement: Placement, here: Collection[tuple[str, str]], by: Importer
) -> list[ContainerItem]:
    """Returns the items that are new, as they are stored here. `here` are containers with the ids of their existing items."""
    placed: list[ContainerItem] = []
    for item in items:
        home = placement.container or item.container_id
        own, derived = candidates(item, home, by.tenant_id)
        if (home, own) in here or (home, derived) in here:
            continue
        session_id = item.session_id and SessionId(placement.sessions.get(item.session_id, item.session_id))
        moved = msgspec.structs.replace(item, container_id=home, session_id=session_id)
        if isinstance(moved, ContainerMemory):
            placed.append(moved)
        else:
            image_id = ImageId(placement.images.get(moved.image_id, moved.image_id))
            placed.append(_disabled(msgspec.structs.replace(moved, image_id=image_id), derived, by))
    return placed


def candidates(item: ContainerItem, home: ContainerId, tenant_id: TenantId) -> tuple[str, str]:
    """Returns the id in the file, and the one that it gets here: ids of schedules and triggers are unique in a server."""
    own = id_of(item)
    if isinstance(item, ContainerMemory):
        return own, own
    prefix = "sched" if isinstance(item, Schedule) else "trig"
    named = "\n".join((tenant_id, home, own))
    return own, f"{prefix}_{hashlib.sha256(named.encode()).hexdigest()[:24]}"


def _disabled(source: TurnSource, derived: str, by: Importer) -> Any:
    principal = by.principal
    source = msgspec.structs.replace(
        source,
        user_id=principal.user_id,
        key_id=principal.key_id,
        created_by=principal.user_id or principal.actor,
        disabled_at=by.now,
    )
    if isinstance(source, Schedule):
        return msgspec.structs.replace(source, schedule_id=ScheduleId(derived), next_at=None, wake_at=None)
    trigger_id = TriggerId(derived)
    return msgspec.structs.replace(source, trigger_id=trigger_id, secret=by.seal(trigger_id))
