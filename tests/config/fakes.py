"""Fakes — a store in memory, a seal that can be looked through only by the tests, and whoever follows changes."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from agentvm.config.centre import ConfigCentre
from agentvm.config.layers import Layer, SettingValue
from agentvm.config.server import ServerConfig
from agentvm.errors import AgentVMError
from agentvm.model.secret import Secret
from agentvm.storage.engine import open_store
from agentvm.storage.sql.store import Store


class Reversing:
    """Seals by turning the text round, with its place before it."""

    def seal(self, scope: str, name: str, value: Secret) -> bytes:
        return f"{scope}|{name}|{value.reveal()[::-1]}".encode()

    def unseal(self, scope: str, name: str, sealed: bytes) -> Secret:
        place = f"{scope}|{name}|"
        assert sealed.decode().startswith(place)
        return Secret(sealed.decode().removeprefix(place)[::-1])


@dataclass(slots=True)
class Recording:
    """Follows whatever it is told, and remembers it; fails when asked to."""

    failing: AgentVMError | None = None
    meanwhile: Callable[[], None] = lambda: None
    followed: list[ServerConfig] = field(default_factory=list)

    async def attempt(self, config: ServerConfig) -> None:
        if self.failing is not None:
            raise self.failing

    async def follow(self, before: ServerConfig, after: ServerConfig) -> None:
        await self.attempt(after)
        self.meanwhile()
        self.followed.append(after)


def layer(**values: Any) -> Layer:
    """`limits__steps=5` for `limits.steps`."""
    items = enumerate(values.items(), 1)
    given = {key.replace("__", "."): SettingValue(value, f"f:{number}") for number, (key, value) in items}
    return Layer("file", given)


@asynccontextmanager
async def open_centre(*base: Layer, store: Store | None = None, **about: bool) -> AsyncIterator[tuple[ConfigCentre, Recording]]:
    if store is not None:
        yield await made(base, store, **about)
        return
    async with open_store(None) as opened:
        yield await made(base, opened, **about)


async def made(base: Sequence[Layer], store: Store, **about: bool) -> tuple[ConfigCentre, Recording]:
    centre, follower = ConfigCentre(base, store, Reversing(), lambda: 7, **about), Recording()
    await centre.load()
    centre.bind(follower)
    return centre, follower
