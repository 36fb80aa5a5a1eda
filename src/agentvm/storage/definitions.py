"""Definitions — the port for the definitions that one tenant has registered."""

from typing import Protocol

from agentvm.model.definition import Definition


class DefinitionStore(Protocol):
    """The definitions of one tenant, by name."""

    async def add(self, definition: Definition, now: int, *, count_max: int, bytes_max: int) -> Definition:
        """Stores it, or returns the one that has its name already.

        `Refused` when the tenant would have more than so many, or more bytes of them; `NotFound` when the tenant was deleted.
        """

    async def get(self, name: str) -> Definition | None: ...

    async def list(self) -> tuple[Definition, ...]:
        """In the order in which they were registered."""
