"""Own keys — tenants that pay their provider themselves: a secret `provider.<driver>` is used instead of the server's key.

A driver with such a key is opened with the tenant's first turn and kept while it is used; when the secret changes, turns that
run go on with the old one and the next begins with the new. The key goes to the provider's own address and to no other.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Container
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace

from agentvm.drivers.base import Driver, DriverSettings
from agentvm.drivers.models import Chosen, Models
from agentvm.model.ids import Clock, TenantId
from agentvm.model.secret import Secret
from agentvm.tenants.vault import Vault

MAX_OPEN = 200
"""Drivers that are kept open; beyond them those that were not used for longest are closed."""

REMEMBERED = 30_000
"""Milliseconds for which it is known whether a tenant has a key, unless it is changed here."""

MAX_REMEMBERED = 10_000

Open = Callable[[str, DriverSettings], AbstractAsyncContextManager[Driver]]


def secret_name(driver: str) -> str:
    return f"provider.{driver}"


@dataclass(slots=True, eq=False)
class _Opened:
    driver: Driver
    key: str
    stack: AsyncExitStack = field(repr=False)
    users: int = 0
    retired: bool = False


class OwnKeys:
    """Chooses who answers for which tenant; see `agentvm.runtime.ports.Choose`."""

    def __init__(
        self,
        models: Models,
        vault: Vault,
        settings: Callable[[str], DriverSettings],
        clock: Clock,
        *,
        open_one: Open,
        with_keys: Container[str],
    ) -> None:
        """`with_keys` names the drivers that are opened with a key at all."""
        self._models = models
        self._vault = vault
        self._settings = settings
        self._clock = clock
        self._open_one = open_one
        self._with_keys = with_keys
        self._opened: OrderedDict[tuple[TenantId, str], _Opened] = OrderedDict()
        self._known: OrderedDict[tuple[TenantId, str], tuple[int, Secret | None]] = OrderedDict()
        self._changes = 0

    @asynccontextmanager
    async def choose(self, tenant_id: TenantId, name: str | None) -> AsyncIterator[Chosen]:
        """The driver and the model for a turn of the tenant. `DriverNotFound` when neither it nor the server has one."""
        driver_name, model = self._models.parse(name)
        key = await self._key(tenant_id, driver_name)
        if key is None:
            yield self._models.choose(name)
            return
        opened, leaving = await self._open(tenant_id, driver_name, key)
        try:
            for one in leaving:
                await self._retire(one)
            yield Chosen(opened.driver, model or opened.driver.default_model, own_key=True)
        finally:
            opened.users -= 1
            await self._close_unused(opened)

    async def has(self, tenant_id: TenantId, name: str | None) -> bool:
        """Whether the tenant has a key of its own for the model."""
        return await self._key(tenant_id, self._models.parse(name)[0]) is not None

    def forget(self, tenant_id: TenantId) -> None:
        """Its secrets were changed."""
        self._changes += 1
        for key in [key for key in self._known if key[0] == tenant_id]:
            del self._known[key]

    async def aclose(self) -> None:
        while self._opened:
            _, opened = self._opened.popitem()
            await opened.stack.aclose()

    async def _key(self, tenant_id: TenantId, driver: str) -> Secret | None:
        if driver not in self._with_keys:
            return None
        at, now = (tenant_id, driver), self._clock()
        since, key = self._known.get(at, (now - REMEMBERED - 1, None))
        if not 0 <= now - since <= REMEMBERED:
            changes = self._changes
            key = await self._vault.get(tenant_id, secret_name(driver))
            # What was changed while it was read may be the one before: good for this turn and for no other.
            if changes == self._changes:
                self._known[at] = (now, key)
            if len(self._known) > MAX_REMEMBERED:
                self._known.popitem(last=False)
        return key

    async def _open(self, tenant_id: TenantId, driver: str, key: Secret) -> tuple[_Opened, list[_Opened]]:
        """One that counts its new user already, so that nobody closes it before it is used; and those to retire for it."""
        at = (tenant_id, driver)
        found = self._opened.get(at)
        if found is not None and found.key == key.reveal():
            self._opened.move_to_end(at)
            found.users += 1
            return found, []
        stack = AsyncExitStack()
        settings = replace(self._settings(driver), api_key=key, base_url=None)
        made = _Opened(await stack.enter_async_context(self._open_one(driver, settings)), key.reveal(), stack, users=1)
        # Another turn may have opened one meanwhile; the last one stays.
        before = self._opened.pop(at, None)
        leaving = [] if before is None else [before]
        self._opened[at] = made
        if len(self._opened) > MAX_OPEN:
            leaving.append(self._opened.popitem(last=False)[1])
        return made, leaving

    async def _retire(self, opened: _Opened) -> None:
        opened.retired = True
        await self._close_unused(opened)

    async def _close_unused(self, opened: _Opened) -> None:
        if opened.retired and not opened.users:
            await opened.stack.aclose()
