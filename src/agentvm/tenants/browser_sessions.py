"""Browser sessions — a browser that was signed in with a key has a cookie instead, which its pages cannot read.

A session has the rights of its key and ends with it, by signing out, or when it was not used for two weeks. The cookie holds
256 random bits; the store holds a digest of it under the server's pepper.
"""

from collections import defaultdict

from msgspec.structs import replace

from agentvm.model.account import BrowserSession
from agentvm.model.ids import BrowserSessionId, Clock, NewId, TenantId
from agentvm.model.principal import Principal
from agentvm.model.secret import Secret
from agentvm.storage.sql.store import Store
from agentvm.tenants import keys
from agentvm.tenants.keys import RandomBits, random_text

PREFIX = "avmbs_"
IDLE_MS = 14 * 24 * 3600 * 1000
RETENTION_MS = 4 * IDLE_MS
"""Time for which an ended session is kept, so that its browser can show the reason."""
USER_AGENT_MAX = 200

_SECRET_CHARACTERS = 43
"""62 ** 43 is more than 2 ** 256."""


class BrowserSessions:
    """The browser sessions of all tenants. Whether the key of one is in force is for `Authentication` to find out."""

    def __init__(self, store: Store, pepper: bytes, clock: Clock, random_bits: RandomBits, new_id: NewId) -> None:
        self._store, self._pepper, self._clock = store, pepper, clock
        self._random_bits, self._new_id = random_bits, new_id
        self._used: dict[BrowserSessionId, tuple[TenantId, int]] = {}

    async def add(self, principal: Principal, user_agent: str) -> tuple[BrowserSession, Secret, tuple[BrowserSessionId, ...]]:
        """Returns a new session of a key, its cookie, and older sessions that have ended for it."""
        assert principal.key_id is not None
        now = self._clock()
        session = BrowserSession(
            browser_session_id=BrowserSessionId(self._new_id("bs")),
            tenant_id=principal.tenant_id,
            key_id=principal.key_id,
            user_id=principal.user_id,
            user_agent="".join(filter(str.isprintable, user_agent))[:USER_AGENT_MAX],
            created_at=now,
            last_used_at=now,
        )
        cookie = Secret(PREFIX + random_text(self._random_bits, _SECRET_CHARACTERS))
        stored = self._store.accounts(principal.tenant_id).browser_sessions
        return session, cookie, await stored.add(session, self.digest(cookie.reveal()), now - RETENTION_MS)

    async def find(self, digest: bytes) -> BrowserSession | None:
        """Returns the session of a cookie, by `digest`; None for one that was signed out."""
        return await self._store.directory.find_browser_session(digest)

    def is_idle(self, session: BrowserSession) -> bool:
        """Whether a session has ended because it was not used."""
        return self._last_used(session) <= self._clock() - IDLE_MS

    async def list(self, principal: Principal) -> list[BrowserSession]:
        """Returns the principal's own sessions; the last used first."""
        now, stored = self._clock(), self._store.accounts(principal.tenant_id).browser_sessions
        sessions = await stored.list(principal.user_id, principal.key_id, idle_since=now - IDLE_MS, now=now)
        return [replace(session, last_used_at=self._last_used(session)) for session in sessions]

    async def drop(self, principal: Principal, session_id: BrowserSessionId) -> bool:
        """Ends one of the principal's own sessions; False when there is no such session."""
        stored = self._store.accounts(principal.tenant_id).browser_sessions
        return await stored.drop(principal.user_id, principal.key_id, session_id)

    def note_use(self, principal: Principal) -> None:
        if principal.browser_session_id is not None:
            self._used[principal.browser_session_id] = (principal.tenant_id, self._clock())

    async def flush(self) -> None:
        """Stores when sessions were last used; after a failure the rest is stored the next time."""
        by_tenant: dict[TenantId, list[tuple[BrowserSessionId, int]]] = defaultdict(list)
        for session_id, (tenant_id, at) in self._used.items():
            by_tenant[tenant_id].append((session_id, at))
        for tenant_id, used in by_tenant.items():
            await self._store.accounts(tenant_id).browser_sessions.touch(used)
            for session_id, at in used:
                if self._used.get(session_id) == (tenant_id, at):
                    del self._used[session_id]

    def digest(self, cookie: str) -> bytes:
        return keys.digest(self._pepper, Secret(cookie))

    def _last_used(self, session: BrowserSession) -> int:
        return max(session.last_used_at, self._used.get(session.browser_session_id, ("", 0))[1])
