"""Grants of MCP servers in memory."""

from collections.abc import Callable

from agentvm.tools.mcp.consent import TokenScope


class MemoryCredentials:
    """As the store of grants. The clock gives seconds since 1970."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._grants: dict[TokenScope, bytes] = {}
        self._pending: dict[str, tuple[bytes, float]] = {}
        self._clock = clock

    async def load(self, scope: TokenScope) -> bytes | None:
        return self._grants.get(scope)

    async def save(self, scope: TokenScope, grant: bytes) -> None:
        self._grants[scope] = grant

    async def forget(self, scope: TokenScope) -> None:
        self._grants.pop(scope, None)

    async def put_pending(self, state: str, pending: bytes, expires_at: float) -> None:
        now = self._clock()
        self._pending = {key: value for key, value in self._pending.items() if value[1] > now}
        self._pending[state] = (pending, expires_at)

    async def find_pending(self, state: str) -> bytes | None:
        pending, expires_at = self._pending.get(state, (None, 0.0))
        return pending if expires_at > self._clock() else None

    async def take_pending(self, state: str) -> bytes | None:
        pending, expires_at = self._pending.pop(state, (None, 0.0))
        return pending if expires_at > self._clock() else None
