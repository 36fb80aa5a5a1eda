"""Definitions — the registry of templates: those the server was started with, and each tenant's own."""

from collections.abc import Sequence
from typing import Any

import msgspec

from agentvm.errors import DefinitionConflict, DefinitionNotFound, InvalidInput
from agentvm.model.base import Record
from agentvm.model.definition import Definition, snapshot_of
from agentvm.model.ids import Clock, TenantId
from agentvm.resources.agent import to_definition
from agentvm.resources.kind import decode
from agentvm.resources.kinds import KINDS
from agentvm.storage.sql.store import Store

DEFAULT = Definition(name="default")
"""The definition of an image that names none: no system prompt, the default tools."""

NAME_MAX = 200
IMAGE_NAME_MAX = 300
DEFINITIONS_MAX = 1_000
"""Definitions that one tenant may register, and below the bytes of all of them."""
DEFINITION_MAX_BYTES = 256 * 1024
SPARE_DEPTH_MIN = 200
"""Levels that a definition can be nested deeper and still be encoded: it is stored and sent within other records."""
DEFINITIONS_MAX_BYTES = 8 * 1024 * 1024


class Definitions:
    """Names are unique within a tenant, and the server's own come first: a tenant cannot shadow them."""

    def __init__(
        self, store: Store, clock: Clock, registered: Sequence[Definition] = (), *, default: Definition = DEFAULT
    ) -> None:
        self.default = default
        self._store = store
        self._clock = clock
        self._system: dict[str, Definition] = {}
        for definition in (default, *registered):
            _check(definition)
            _check_same(self._system.get(definition.name, definition), definition)
            self._system[definition.name] = definition

    async def register(self, tenant_id: TenantId, definition: Definition) -> Definition:
        """Stores a definition. Registering the same one again changes nothing; another of its name is a conflict."""
        _check(definition)
        registered = self._system.get(definition.name)
        if registered is None:
            registered = await self._store.definitions(tenant_id).add(
                definition, self._clock(), count_max=DEFINITIONS_MAX, bytes_max=DEFINITIONS_MAX_BYTES
            )
        _check_same(registered, definition)
        return registered

    async def get(self, tenant_id: TenantId, name: str) -> Definition:
        definition = self._system.get(name) or await self._store.definitions(tenant_id).get(name)
        if definition is None:
            raise DefinitionNotFound(name)
        return definition

    async def list(self, tenant_id: TenantId) -> tuple[Definition, ...]:
        return (*self._system.values(), *await self._store.definitions(tenant_id).list())


def agent_definition(name: str, content: bytes) -> Definition:
    """Returns an agent of the resource centre as a definition; its references stay references."""
    agent: Any = decode(KINDS["agents"], content)
    return to_definition(name, agent)


def check_size(*parts: Record, subject: str = "The definition") -> int:
    """Returns the encoded size; `InvalidInput` for too many bytes, or for a name that is too long.

    The parts that an image is built from are sent with every prompt and shown in every list.
    """
    for part in parts:
        name = getattr(part, "name", None)
        if isinstance(name, str) and len(name) > IMAGE_NAME_MAX:
            raise InvalidInput(f"A name has at most {IMAGE_NAME_MAX} characters, not {len(name)}")
    try:
        size = sum(len(msgspec.json.encode(_deeper(part))) - 2 * SPARE_DEPTH_MIN for part in parts)
    except RecursionError:
        raise InvalidInput(f"{subject} is nested too deeply") from None
    if size > DEFINITION_MAX_BYTES:
        raise InvalidInput(f"{subject} has {size} bytes; at most {DEFINITION_MAX_BYTES} are allowed")
    return size


def _deeper(part: object) -> object:
    for _ in range(SPARE_DEPTH_MIN):
        part = [part]
    return part


def _check(definition: Definition) -> None:
    if not 0 < len(definition.name) <= NAME_MAX:
        raise InvalidInput(f"A definition's name must have 1 to {NAME_MAX} characters")
    check_size(definition)


def _check_same(registered: Definition, definition: Definition) -> None:
    if snapshot_of(registered)[0] != snapshot_of(definition)[0]:
        raise DefinitionConflict(f"A different definition named {definition.name!r} is already registered; choose another name")
