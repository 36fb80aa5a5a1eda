"""Models — which driver answers for which model name. `<driver>/<model>`, `<driver>` alone, or nothing for the default."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from typing import NamedTuple

from agentvm.drivers.base import Driver, DriverSettings
from agentvm.errors import DriverNotFound
from agentvm.model.ids import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    name: str
    driver: str
    settings: DriverSettings


class Chosen(NamedTuple):
    """Who answers; `own_key` when the tenant pays the provider itself."""

    driver: Driver
    model: str
    own_key: bool = False


class Models:
    """The drivers of this process. `default` is one of them."""

    def __init__(
        self,
        drivers: Mapping[str, Driver] | None = None,
        default: str = "",
        *,
        open_one: Callable[[str, DriverSettings], AbstractAsyncContextManager[Driver]] | None = None,
        clock: Clock = lambda: 0,
    ) -> None:
        self._drivers = dict(drivers or {})
        self._default = default
        self._open_one = open_one
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Models":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def configure(self, providers: Sequence[Provider], *, default: str, fallback: Sequence[str] = ()) -> None:
        assert self._open_one is not None
        stack, opened = AsyncExitStack(), {}
        for one in providers:
            opened[one.name] = await stack.enter_async_context(self._open_one(one.driver, one.settings))
        self._drivers, self._default = opened, default
        self._stack.push_async_callback(stack.aclose)

    def parse(self, name: str | None) -> tuple[str, str]:
        """The driver's name, and the provider's own for the model, which may be empty."""
        driver_name, _, model = (name or self._default).partition("/")
        return driver_name, model

    def choose(self, name: str | None) -> Chosen:
        """The driver and the provider's own name for the model."""
        driver_name, model = self.parse(name)
        driver = self._drivers.get(driver_name)
        if driver is None:
            known = ", ".join(sorted(self._drivers))
            raise DriverNotFound(f"No driver named {driver_name!r} is configured for model {name!r}; configured: {known}")
        return Chosen(driver, model or driver.default_model)
