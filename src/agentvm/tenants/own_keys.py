"""Own keys — tenants that pay their provider themselves: a secret `provider.<name>` is used instead of the server's key.

A driver with the tenant's key is opened with the tenant's first turn and kept while it is used; when the secret changes,
running turns continue with the old one and the next begins with the new. The key goes to the provider's own address and to no
other: for a plain provider, named like its driver, that is the vendor's; for one the operator has named, the address under
that name.

The account that is used decides who pays, not the sender of a key: an endpoint of the operator's takes any key. So tenants use
their own only where the operator allows it; a key stored for another provider is ignored.

A tenant that pays the chosen provider itself is never sent to a provider that it would be charged for here: only providers
stand in that it has a key for, too, or that are free.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Container
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace

import anyio

from agentvm.drivers.base import Driver, DriverSettings
from agentvm.drivers.models import Chosen, Models, Open, TenantHealth, attempts_of
from agentvm.errors import AccessDenied, AgentVMError, InvalidInput, MissingKey, shorten
from agentvm.log import get_logger
from agentvm.model.ids import Clock, ImageId, TenantId
from agentvm.model.secret import Secret
from agentvm.sharing.cache import Cache
from agentvm.tenants.price import FREE
from agentvm.tenants.vault import Vault

logger = get_logger(__name__)

IMAGE_SECRET_PREFIX = "image."
"""Before the name of a secret that is the key of an image: the image, then its provider."""

OPEN_DRIVERS_MAX = 200
"""Drivers that are kept open; beyond them the least recently used are closed."""

KEY_CACHE_MS, SHARED_KEY_CACHE_MS = 30_000, 500
"""Time for which the presence of a tenant's key is cached, unless it is changed here; less where other nodes change it, too."""

KEY_CACHE_MAX = 10_000

DefaultOf = Callable[[TenantId], str | None]
"""The model a tenant's images have that name none; None for the server's."""


def secret_name(provider: str) -> str:
    return f"provider.{provider}"


def image_secret_name(image_id: ImageId, provider: str) -> str:
    return f"{IMAGE_SECRET_PREFIX}{image_id}.{provider}"


@dataclass(slots=True, eq=False)
class _OpenedOwnDriver:
    driver: Driver
    settings: DriverSettings
    health: TenantHealth
    stack: AsyncExitStack = field(repr=False)
    users: int = 0
    retired: bool = False


class OwnKeys:
    """Chooses the drivers of a tenant's turn; see `agentvm.runtime.ports.Choose`."""

    def __init__(
        self,
        models: Models,
        vault: Vault,
        settings: Callable[[str], DriverSettings],
        clock: Clock,
        *,
        open_one: Open,
        with_keys: Container[str],
        default_of: DefaultOf = lambda tenant_id: None,
        allowed: Callable[[str], bool] = lambda provider: True,
        free: Callable[[Chosen], bool] = lambda chosen: chosen.driver.name in FREE,
    ) -> None:
        """`with_keys` names the drivers that take a key, `settings` is for those the server has not opened.

        `allowed` says with which providers a tenant may use its own key, `free` which drivers are not charged for.
        """
        self._allowed = allowed
        self._free = free
        self.default_of = default_of
        """May be replaced at any time; the next turn asks it."""
        self._models = models
        self._vault = vault
        self._settings = settings
        self._clock = clock
        self._open_one = open_one
        self._with_keys = with_keys
        self._opened: OrderedDict[tuple[TenantId, str, ImageId | None], _OpenedOwnDriver] = OrderedDict()
        self._known: Cache[tuple[TenantId, str], tuple[Secret | None]] = Cache(
            KEY_CACHE_MAX, age_ms=SHARED_KEY_CACHE_MS if vault.is_shared else KEY_CACHE_MS
        )
        self._changes = 0

    @asynccontextmanager
    async def choose(
        self, tenant_id: TenantId, name: str | None, key_owner: ImageId | None = None, /
    ) -> AsyncIterator[tuple[Chosen, ...]]:
        """Yields the driver for a turn of the tenant, then the fallbacks. `DriverNotFound` when neither tenant nor server has
        one, `MissingKey` when the key of the image that owns one is not there: no other key pays for its calls."""
        chain = await self._chain(tenant_id, name, key_owner)
        if len(chain) == 1 and chain[0][1] is None:
            async with self._models.use(chain[0][0], tenant_id) as only:
                yield (only,)
            return
        async with AsyncExitStack() as stack:
            candidates: list[Chosen] = []
            for model, key in chain:
                try:
                    chosen = await stack.enter_async_context(self._use(tenant_id, model, key, key_owner))
                except AgentVMError as error:
                    if not candidates:
                        raise
                    # A fallback that cannot be opened must not prevent the answer.
                    logger.warning("fallback_unusable", tenant_id=tenant_id, model=model, code=error.code, error=str(error))
                    continue
                if not candidates or not candidates[0].own_key or chosen.own_key or self._free(chosen):
                    candidates.append(chosen)
            yield tuple(candidates)

    async def has(self, tenant_id: TenantId, name: str | None) -> bool:
        """Whether the tenant has a key of its own for the model."""
        return await self._key(tenant_id, self._models.parse(name or self.default_of(tenant_id))[0]) is not None

    async def unusable(self, tenant_id: TenantId, name: str) -> str | None:
        """Returns why the model cannot answer for the tenant, with the remedy; None when it can."""
        provider = self._models.parse(name)[0]
        if self._models.provider(provider) is not None or await self._key(tenant_id, provider) is not None:
            return None
        providers = ", ".join(sorted(health.name for health in self._models.health()))
        own = f"; or store a key of the tenant's own first: avm secret set {secret_name(provider)}"
        helps = provider in self._with_keys and self._allowed(provider)
        return f"{provider!r} is not open on this server; choose one of: {providers}{own if helps else ''}"

    def check_secret(self, name: str) -> None:
        """`AccessDenied` for a secret that would be a tenant's key of a provider that takes none."""
        provider = name.removeprefix(secret_name(""))
        if name != provider and not self._allowed(provider):
            raise AccessDenied(
                f"On this server {shorten(provider)} is not used with keys of tenants; "
                f"the operator allows it with llm.providers.{shorten(provider)}.ownKeys: on"
            )

    async def seal_image_key(self, tenant_id: TenantId, image_id: ImageId, model: str | None, key: Secret) -> None:
        """Seals the key of an image, for the provider of its model and for no other."""
        provider = self._models.parse(model or self.default_of(tenant_id))[0]
        if not self.takes_key(provider):
            raise AccessDenied(
                f"{shorten(provider)} accepts no keys of images on this server: it needs none, it is unknown, or the operator "
                f"does not allow it (llm.providers.{shorten(provider)}.ownKeys)"
            )
        if not key.is_sendable:
            raise InvalidInput("apiKey contains spaces, line breaks or other characters that no key has; copy it again")
        await self._vault.put(tenant_id, image_secret_name(image_id, provider), key)
        self.forget(tenant_id)

    async def remove_image_key(self, tenant_id: TenantId, image_id: ImageId) -> None:
        """Deletes the keys of an image."""
        for name, _ in await self._vault.names(tenant_id):
            if name.startswith(image_secret_name(image_id, "")):
                await self._vault.remove(tenant_id, name)
        self.forget(tenant_id)

    def takes_key(self, provider: str) -> bool:
        """Whether calls of a provider can be made with a key that is not the server's."""
        configured = self._models.provider(provider)
        return (provider if configured is None else configured.driver) in self._with_keys and self._allowed(provider)

    def forget(self, tenant_id: TenantId) -> None:
        """Drops the cached keys of a tenant whose secrets were changed."""
        self._changes += 1
        self._known.drop_if(lambda key, _: key[0] == tenant_id)

    async def aclose(self) -> None:
        while self._opened:
            _, opened = self._opened.popitem()
            await opened.stack.aclose()

    async def _chain(self, tenant_id: TenantId, name: str | None, key_owner: ImageId | None) -> list[tuple[str, Secret | None]]:
        """Returns the models in the order in which they are asked, each with the tenant's own key.

        The providers may have been replaced while the keys were read: a turn must not begin with one that was removed.
        """
        while True:
            chain = self._models.chain(name or self.default_of(tenant_id))
            keyed = [(model, await self._key(tenant_id, self._models.parse(model)[0], key_owner)) for model in chain]
            if key_owner is not None and keyed[0][1] is None:
                provider = self._models.parse(chain[0])[0]
                raise MissingKey(f"The image {key_owner} has a key of its own, but none for {provider}; set its apiKey")
            if chain == self._models.chain(name or self.default_of(tenant_id)):
                return keyed

    @asynccontextmanager
    async def _use(
        self, tenant_id: TenantId, name: str, key: Secret | None, key_owner: ImageId | None
    ) -> AsyncIterator[Chosen]:
        provider, model = self._models.parse(name)
        if key is None:
            async with self._models.use(name, tenant_id) as chosen:
                yield chosen
            return
        opened, leaving = await self._open(tenant_id, provider, key, key_owner)
        try:
            for idle in leaving:
                await self._retire(idle)
            yield Chosen(
                opened.driver,
                model or opened.driver.default_model,
                opened.health,
                own_key=True,
                provider=provider,
                asks=attempts_of(opened.settings),
                hosted=opened.settings.base_url is not None,
            )
        finally:
            opened.users -= 1
            # Shielded from cancellation: a pool that is left half closed stays for ever.
            with anyio.CancelScope(shield=True):
                await self._close_unused(opened)

    async def _key(self, tenant_id: TenantId, provider: str, key_owner: ImageId | None = None) -> Secret | None:
        if not self.takes_key(provider):
            return None
        name = secret_name(provider) if key_owner is None else image_secret_name(key_owner, provider)
        at, now = (tenant_id, name), self._clock()
        cached = self._known.get(at, now)
        if cached is None:
            changes = self._changes
            cached = (await self._vault.get(tenant_id, name),)
            # A key that was changed during the read may be the old one: good for this turn and for no other.
            if changes == self._changes:
                self._known.put(at, cached, now)
        return cached[0]

    def _plan(self, provider: str, key: Secret) -> tuple[str, DriverSettings]:
        """The driver to open, and how. The tenant's key goes to the provider's own address and to no other."""
        configured = self._models.provider(provider)
        if configured is None or configured.name == configured.driver:
            settings = self._settings(provider) if configured is None else configured.settings
            return provider, replace(settings, api_key=key, base_url=None)
        return configured.driver, replace(configured.settings, api_key=key)

    async def _open(
        self, tenant_id: TenantId, provider: str, key: Secret, key_owner: ImageId | None
    ) -> tuple[_OpenedOwnDriver, list[_OpenedOwnDriver]]:
        """Returns a driver that already counts its new user, so that it is not closed before it is used; and the drivers to
        retire."""
        at = (tenant_id, provider, key_owner)
        opened = self._opened.get(at)
        driver, settings = self._plan(provider, key)
        if opened is not None and opened.settings == settings:
            self._opened.move_to_end(at)
            opened.users += 1
            return opened, []
        stack, health = AsyncExitStack(), self._models.new_health(provider, settings.silence).of(tenant_id)
        place = f"the secret {secret_name(provider)}" if key_owner is None else f"the apiKey of the image {key_owner}"
        opening = self._open_one(driver, replace(settings, name=provider, key_place=place))
        fresh = _OpenedOwnDriver(await stack.enter_async_context(opening), settings, health, stack, users=1)
        # Another turn may have opened one meanwhile; the last one stays.
        before = self._opened.pop(at, None)
        leaving = [] if before is None else [before]
        self._opened[at] = fresh
        if len(self._opened) > OPEN_DRIVERS_MAX:
            leaving.append(self._opened.popitem(last=False)[1])
        return fresh, leaving

    async def _retire(self, opened: _OpenedOwnDriver) -> None:
        opened.retired = True
        await self._close_unused(opened)

    async def _close_unused(self, opened: _OpenedOwnDriver) -> None:
        if opened.retired and not opened.users:
            await opened.stack.aclose()
