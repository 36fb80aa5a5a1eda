"""Vault — secrets of tenants, such as the keys of their model providers, encrypted before they are stored.

    version (1 byte) | mark of the server's key (4) | nonce (12) | AES-256-GCM of the value

The tenant and the name are authenticated with the value: write access to the database is not enough to move a sealed value to
another tenant or name. The mark tells a wrong server key from a value that was tampered with.
"""

import hmac
import re
import secrets
from collections.abc import Callable

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from agentvm.errors import ConfigInvalid, InvalidInput, StoreFailed
from agentvm.model.ids import Clock, TenantId
from agentvm.model.secret import Secret
from agentvm.storage.sql.store import Store

SECRET_MAX_BYTES = 65_536

_VERSION = b"\x01"
_MARK, _NONCE = 4, 12
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}")


class Vault:
    """Secrets of all tenants. Opens only values that were sealed with the same server key."""

    def __init__(
        self, store: Store, *, key: bytes, clock: Clock, random_bytes: Callable[[int], bytes] = secrets.token_bytes
    ) -> None:
        self._store, self._clock, self._random_bytes = store, clock, random_bytes
        self._cipher = AESGCM(key)
        self._mark = hmac.digest(key, b"agentvm vault mark", "sha256")[:_MARK]

    @property
    def is_shared(self) -> bool:
        """Whether other nodes of a cluster change secrets, too."""
        return self._store.node_id != 0

    async def put(self, tenant_id: TenantId, name: str, value: Secret) -> None:
        """Seals it, in the place of the one that had the name."""
        if not _NAME.fullmatch(name):
            raise InvalidInput(
                "The name of a secret has at most 128 letters, digits, '_', '.' and '-', and starts with a letter"
            )
        await self._store.accounts(tenant_id).secrets.put(name, self.seal(tenant_id, name, value), self._clock())

    async def get(self, tenant_id: TenantId, name: str) -> Secret | None:
        """`ConfigInvalid` when the server has another key than then, `StoreFailed` when the value was changed or moved."""
        sealed = await self._store.accounts(tenant_id).secrets.get(name)
        return None if sealed is None else self.unseal(tenant_id, name, sealed)

    async def names(self, tenant_id: TenantId) -> tuple[tuple[str, int], ...]:
        """Returns the names, and when each was set."""
        return await self._store.accounts(tenant_id).secrets.list()

    async def remove(self, tenant_id: TenantId, name: str) -> bool:
        return await self._store.accounts(tenant_id).secrets.remove(name)

    def seal(self, scope: str, name: str, value: Secret) -> bytes:
        """Seals a value that the caller stores elsewhere. A value sealed for a scope and a name opens for no other."""
        plain = value.reveal().encode("utf-8", "surrogatepass")
        if not 0 < len(plain) <= SECRET_MAX_BYTES:
            raise InvalidInput(f"A secret must have 1 to {SECRET_MAX_BYTES:,} bytes, not {len(plain):,}")
        nonce = self._random_bytes(_NONCE)
        return _VERSION + self._mark + nonce + self._cipher.encrypt(nonce, plain, _context(scope, name))

    def unseal(self, scope: str, name: str, sealed: bytes) -> Secret:
        """Opens a value as `get` does."""
        version, rest = sealed[:1], sealed[1:]
        mark, nonce, body = rest[:_MARK], rest[_MARK : _MARK + _NONCE], rest[_MARK + _NONCE :]
        if version != _VERSION or not body:
            raise StoreFailed(f"The secret {name} is damaged, or was sealed by a newer AgentVM. Set it again")
        if mark != self._mark:
            raise ConfigInvalid(
                f"The secret {name} was sealed with another server key. Start with that server key "
                "(AVM_SERVER_KEY, or the file in the data directory), or set the secret again"
            )
        try:
            plain = self._cipher.decrypt(nonce, body, _context(scope, name))
        except InvalidTag:
            raise StoreFailed(f"The secret {name} was changed or moved in the database. Set it again") from None
        return Secret(plain.decode("utf-8", "surrogatepass"))


def _context(scope: str, name: str) -> bytes:
    """JSON, so that no two pairs are encoded alike."""
    return msgspec.json.encode([scope, name])
