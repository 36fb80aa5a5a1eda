"""Notices — follows changes that other nodes have made: ended rights, settings, quotas, webhooks, quarantined sessions.

Each node reads the notices after every beat, and at once when another node announces one over the bus. A notice only names the
changed item; its state is read from the database. So it does no harm to read one twice, or late. Connections that were opened
after a change have its rights already, and stay.
"""

from collections.abc import Callable
from typing import Protocol

import anyio

from agentvm.cluster.bus import Hearing, Noticed
from agentvm.cluster.membership import Membership
from agentvm.errors import AgentVMError
from agentvm.log import get_logger
from agentvm.model.account import ApiKey
from agentvm.model.ids import BrowserSessionId, KeyId, SessionId, TenantId, UserId
from agentvm.runtime.recovery.quarantine import Quarantine
from agentvm.storage.sql.notices import ClusterNotice, NoticeStore
from agentvm.storage.sql.store import Store
from agentvm.tenants.authentication import Authentication, Named, Why, of_browser_session, of_key
from agentvm.tenants.people import People, of_tenant, of_user
from agentvm.tenants.quota import Quotas

logger = get_logger(__name__)

OVERLAP_MS = 60_000
"""A notice may be committed so long after it was written: as much is read again."""
FOLLOW_SECONDS = 30.0
"""A node that cannot follow changed settings for this long takes no new work."""
CLEANUP_INTERVAL_SECONDS = 60.0

Close = Callable[[Named, Why, int], None]
"""Closes the connections of these principals that were opened before that time."""


Subject = tuple[str, str, str]


class SettingsFollower(Protocol):
    """The settings of a server, which other nodes can change; see `agentvm.config.centre`."""

    async def catch_up(self, tenant_id: TenantId | None) -> None: ...


class NoticeBoard:
    """The notices as this node follows them."""

    def __init__(
        self,
        membership: Membership,
        store: Store,
        *,
        access: Authentication,
        people: People,
        quotas: Quotas,
        quarantine: Quarantine,
        settings: SettingsFollower,
        close: Close,
        hearing: Hearing | None = None,
    ) -> None:
        self._membership, self._store, self._hearing = membership, store, hearing
        self._notices: NoticeStore = membership.nodes.notices
        self._access, self._people, self._quotas, self._quarantine = access, people, quotas, quarantine
        self._settings, self._close = settings, close
        self._since: int | None = None
        self._seen: dict[int, int] = {}
        self._wakeup = anyio.Event()
        self._unfollowed: set[TenantId | None] = set()
        self._behind_since: float | None = None
        self._tidied_at = 0.0
        if hearing is not None:
            hearing.on("noticed", self._wake)

    def shout(self, _named: Named, _why: Why) -> None:
        """Rights have ended here, and are stored: other nodes read the notices at once."""
        if self._hearing is not None:
            self._hearing.shout(Noticed(self._membership.node_id))

    def _wake(self) -> None:
        self._wakeup.set()

    async def run(self) -> None:
        """Follows the notices, until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._beat)
            while True:
                try:
                    await self.follow_new()
                except AgentVMError as error:
                    logger.warning("notices_not_read", code=error.code, error=str(error))
                await self._wakeup.wait()
                self._wakeup = anyio.Event()

    async def _beat(self) -> None:
        while True:
            await self._membership.wait_beat()
            self._wakeup.set()

    async def follow_new(self) -> None:
        """Reads the new notices and follows them."""
        if self._since is None:
            # What was changed before is in what this node has read at its start, but for what was being committed then.
            self._since = await self._notices.now() - OVERLAP_MS
        now, notices = await self._notices.read(self._since)
        new = [notice for notice in notices if notice.notice_id not in self._seen]
        follow = {
            "key": self._follow_key,
            "user": self._follow_user,
            "bound": self._follow_bound,
            "unbound": self._follow_unbound,
            "tenant": self._follow_tenant,
            "signed_out": self._follow_sign_out,
            "webhook": self._follow_webhook,
            "quarantine": self._follow_quarantine,
            "quota": self._follow_quota,
        }
        latest = {_subject(notice): notice for notice in new}
        failed: set[Subject] = set()
        for notice in latest.values():
            if notice.kind == "settings":
                self._unfollowed.add(TenantId(notice.subject) if notice.subject else None)
            elif (reaction := follow.get(notice.kind)) is not None:
                try:
                    await reaction(notice)
                except AgentVMError as error:
                    # Read again the next time: a right that has ended must not stay.
                    failed.add(_subject(notice))
                    logger.error("notice_not_followed", kind=notice.kind, code=error.code, error=str(error))
        self._seen |= {notice.notice_id: notice.at for notice in new if _subject(notice) not in failed}
        if now is not None and not failed:
            self._since = now - OVERLAP_MS
            self._seen = {number: at for number, at in self._seen.items() if at > self._since}
        await self._follow_settings()
        if self._membership.is_leading() and anyio.current_time() > self._tidied_at + CLEANUP_INTERVAL_SECONDS:
            self._tidied_at = anyio.current_time()
            while await self._notices.drop_old():
                pass

    def _end(self, notice: ClusterNotice, named: Named, why: Why = "revoked") -> None:
        self._access.forget(TenantId(notice.tenant_id), named)
        self._close(named, why, notice.at + self._membership.skew_ms)

    async def _follow_key(self, notice: ClusterNotice) -> None:
        row = await self._store.directory.find_key(KeyId(notice.subject))
        key: ApiKey | None = None if row is None else row[0]
        named = of_key(KeyId(notice.subject))
        if key is None or key.revoked_at is not None:
            self._end(notice, named)
        elif key.expires_at is not None:
            self._access.end_later(key.tenant_id, key.key_id, key.expires_at)
        else:
            self._access.forget(key.tenant_id, named)

    async def _follow_user(self, notice: ClusterNotice) -> None:
        tenant_id, user_id = TenantId(notice.tenant_id), UserId(notice.subject)
        users = self._store.accounts(tenant_id).users
        user = await users.get(user_id)
        is_active = user is not None and user.status == "active"
        self._people.standing.forget()
        self._end(notice, of_user(tenant_id, user_id), "revoked" if is_active or user is None else "suspended")
        if not is_active:
            await self._people.stop(tenant_id, frozenset(await users.only_member_of(user_id)))

    async def _follow_bound(self, notice: ClusterNotice) -> None:
        tenant_id = TenantId(notice.tenant_id)
        self._access.forget(tenant_id, of_user(tenant_id, UserId(notice.subject)))

    async def _follow_unbound(self, notice: ClusterNotice) -> None:
        self._end(notice, of_user(TenantId(notice.tenant_id), UserId(notice.subject)))

    async def _follow_tenant(self, notice: ClusterNotice) -> None:
        tenant_id = TenantId(notice.tenant_id)
        tenant = await self._store.directory.get_tenant(tenant_id)
        self._people.standing.forget()
        if tenant is not None and tenant.status == "active":
            self._access.forget(tenant_id, of_tenant(tenant_id))
            return
        self._end(notice, of_tenant(tenant_id), "revoked" if tenant is None else "suspended")
        await self._people.stop(tenant_id, None)

    async def _follow_sign_out(self, notice: ClusterNotice) -> None:
        self._end(notice, of_browser_session(BrowserSessionId(notice.subject)))

    async def _follow_webhook(self, notice: ClusterNotice) -> None:
        self._store.hooked.add(TenantId(notice.tenant_id))

    async def _follow_quarantine(self, notice: ClusterNotice) -> None:
        await self._quarantine.refresh(TenantId(notice.tenant_id), SessionId(notice.subject))

    async def _follow_quota(self, notice: ClusterNotice) -> None:
        await self._quotas.reread(TenantId(notice.tenant_id))

    async def _follow_settings(self) -> None:
        why = ""
        # Those of the server first: the settings of tenants lie above them.
        for tenant_id in sorted(self._unfollowed, key=lambda tenant: tenant or ""):
            try:
                await self._settings.catch_up(tenant_id)
                self._unfollowed.discard(tenant_id)
            except AgentVMError as error:
                why = str(error)
                logger.error("settings_not_followed", tenant_id=tenant_id, code=error.code, error=str(error))
        now = anyio.current_time()
        self._behind_since = (self._behind_since or now) if self._unfollowed else None
        is_late = self._behind_since is not None and now - self._behind_since > FOLLOW_SECONDS
        self._membership.lags_behind = (
            f"settings that were changed on another node cannot be followed: {why}" if is_late else None
        )


def _subject(notice: ClusterNotice) -> Subject:
    return notice.kind, notice.tenant_id, notice.subject
