"""Webhooks — addresses of tenants to which events are sent, and the deliveries to them.

A delivery is a row of the commit that stores the event, so none is lost, and none is made of an event that was not stored.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from agentvm.errors import Conflict
from agentvm.model.account import AuditEntry
from agentvm.model.ids import ContainerId, TenantId
from agentvm.model.session import Session
from agentvm.model.webhook import Attempted, Delivery, DueDelivery, Notice, Webhook, WebhookId
from agentvm.storage.sql.accounts.audit import add_entry
from agentvm.storage.sql.connection import Connection, Database
from agentvm.storage.sql.dialect import numbers_of
from agentvm.storage.sql.records import Columns, Scope, TenantScope
from agentvm.storage.sql.rows import refuse_deleted

WEBHOOKS_MAX = 50
"""Webhooks of one tenant under any quota."""
DROPPED_MAX = 500
"""Old deliveries that one commit drops."""

_WEBHOOK = Columns(Webhook, without=("events",))
_DELIVERY = Columns(Delivery, without=("number",))
_ADD = f"INSERT INTO webhooks (tenant_id, events, {_WEBHOOK.text}) VALUES (?, ?, {_WEBHOOK.marks})"
_CHANGE = f"""
UPDATE webhooks SET events = ?, {", ".join(f"{name} = ?" for name in _WEBHOOK.names)} WHERE tenant_id = ? AND webhook_id = ?
"""
_COUNT = "SELECT count(*) FROM webhooks WHERE tenant_id = ?"
_LIST = f"SELECT events, {_WEBHOOK.text} FROM webhooks WHERE tenant_id = ? ORDER BY webhook_key"
_GET = f"SELECT events, {_WEBHOOK.text} FROM webhooks WHERE tenant_id = ? AND webhook_id = ?"
_REMOVE = "DELETE FROM webhooks WHERE tenant_id = ? AND webhook_id = ?"
_STOP = "UPDATE webhooks SET disabled_at = 0 WHERE tenant_id = ? AND webhook_id = ?"
_REMOVE_SOME = """
DELETE FROM webhook_deliveries WHERE delivery_key IN (
    SELECT d.delivery_key FROM webhook_deliveries AS d JOIN webhooks AS w USING (webhook_key)
    WHERE w.tenant_id = ? AND w.webhook_id = ? LIMIT ?
)
"""
_TENANTS = "SELECT DISTINCT tenant_id FROM webhooks WHERE disabled_at IS NULL"
_INSERT = "INSERT INTO webhook_deliveries (webhook_key, tenant_id, container_id, event_id, type, body, created_at, next_at)"
# From the webhooks themselves: one that is deleted or disabled meanwhile gets nothing, and hinders no turn.
_NOTIFY = f"""
{_INSERT}
SELECT webhook_key, tenant_id, ?1, ?2, ?3, ?4, ?5, ?5 FROM webhooks
WHERE tenant_id = ?6 AND disabled_at IS NULL AND events LIKE ?7
ON CONFLICT (webhook_key, event_id) DO NOTHING
"""
_NOTIFY_ONE = f"""
{_INSERT}
SELECT webhook_key, tenant_id, NULL, ?1, ?2, ?3, ?4, ?5 FROM webhooks WHERE tenant_id = ?6 AND webhook_id = ?7
RETURNING delivery_key
"""
_OF_DELIVERY = ", ".join(f"d.{name}" for name in _DELIVERY.names)
_DELIVERIES = f"""
SELECT d.delivery_key, {_OF_DELIVERY} FROM webhook_deliveries AS d JOIN webhooks AS w USING (webhook_key)
WHERE w.tenant_id = ? AND w.webhook_id = ? AND d.delivery_key < ? ORDER BY d.delivery_key DESC LIMIT ?
"""
_RESEND = """
UPDATE webhook_deliveries SET next_at = ?1, attempts = 0, delivered_at = NULL
WHERE delivery_key = ?2 AND webhook_key IN (SELECT webhook_key FROM webhooks WHERE tenant_id = ?3 AND webhook_id = ?4)
"""
_OF_WEBHOOK = ", ".join(f"w.{name}" for name in _WEBHOOK.names)
_ITEM = f"""
SELECT d.tenant_id, w.webhook_key, d.delivery_key, d.body, w.events, {_OF_DELIVERY}, {_OF_WEBHOOK}
FROM webhook_deliveries AS d JOIN webhooks AS w USING (webhook_key)
"""
_ONE = f"{_ITEM} WHERE d.tenant_id = ? AND d.delivery_key = ?"
_WITH_DUE = f"""
SELECT w.webhook_key, w.tenant_id, w.failing_since IS NOT NULL FROM webhooks AS w
WHERE w.disabled_at IS NULL AND w.webhook_key NOT IN ({numbers_of("?1")}) AND EXISTS (
    SELECT 1 FROM webhook_deliveries AS d
    WHERE d.webhook_key = w.webhook_key AND d.next_at <= ?2 AND d.delivery_key NOT IN ({numbers_of("?3")})
)
ORDER BY w.webhook_key
"""
_DUE = f"""
{_ITEM}
WHERE d.webhook_key = ?1 AND d.next_at <= ?2 AND d.delivery_key NOT IN ({numbers_of("?3")}) ORDER BY d.next_at LIMIT ?4
"""
_ATTEMPTED = """
UPDATE webhook_deliveries
SET attempts = attempts + 1, last_at = ?1, status = ?2, error = ?3, next_at = ?4, delivered_at = ?5 WHERE delivery_key = ?6
"""
_SUCCEEDS = "UPDATE webhooks SET failing_since = NULL WHERE webhook_key = ? AND failing_since IS NOT NULL"
_FAILS = "UPDATE webhooks SET failing_since = ? WHERE webhook_key = ? AND failing_since IS NULL"
_DISABLE = "UPDATE webhooks SET disabled_at = ?, disabled_reason = ? WHERE webhook_key = ? AND disabled_at IS NULL"
_DROP_OLD = """
DELETE FROM webhook_deliveries WHERE delivery_key IN (
    SELECT delivery_key FROM webhook_deliveries WHERE created_at < ? ORDER BY created_at LIMIT ?
)
"""
_NUMBER_MAX = 2**62


class WebhookStore(TenantScope):
    """The webhooks of one tenant. `hooked` are the tenants that have any."""

    __slots__ = ("_hooked",)

    def __init__(self, database: Database, tenant_id: TenantId, hooked: set[TenantId]) -> None:
        super().__init__(database, tenant_id)
        self._hooked = hooked

    async def add(self, webhook: Webhook) -> None:
        """Adds a webhook; `Conflict` when there are too many."""

        def write(connection: Connection) -> None:
            refuse_deleted(connection, self._tenant_id)
            if connection.fetch(_COUNT, (self._tenant_id,))[0][0] >= WEBHOOKS_MAX:
                raise Conflict(f"A tenant has at most {WEBHOOKS_MAX} webhooks: delete some first")
            connection.execute(_ADD, (self._tenant_id, _event_text(webhook.events), *_WEBHOOK.encode(webhook)))

        # Before the commit: an event of the next moment must not pass it by.
        self._hooked.add(self._tenant_id)
        await self._database.write(write)

    async def change(self, webhook_id: WebhookId, modify: Callable[[Webhook], Webhook]) -> Webhook | None:
        """Changes a webhook as it is at that moment, and returns it; None when it is gone."""

        def write(connection: Connection) -> Webhook | None:
            for row in connection.fetch(_GET, (self._tenant_id, webhook_id)):
                changed = modify(_webhook(row))
                values = (_event_text(changed.events), *_WEBHOOK.encode(changed))
                connection.execute(_CHANGE, (*values, self._tenant_id, webhook_id))
                return changed
            return None

        self._hooked.add(self._tenant_id)
        return await self._database.write(write)

    async def list(self) -> tuple[Webhook, ...]:
        """Oldest first."""
        return await self._all(_webhook, _LIST, (self._tenant_id,))

    async def count(self) -> int:
        return await self._first(lambda row: int(row[0]), _COUNT, (self._tenant_id,)) or 0

    async def get(self, webhook_id: WebhookId) -> Webhook | None:
        return await self._first(_webhook, _GET, (self._tenant_id, webhook_id))

    async def remove(self, webhook_id: WebhookId) -> bool:
        """Removes a webhook with its deliveries, some of them in each commit."""
        if not await self._execute(_STOP, (self._tenant_id, webhook_id)):
            return False
        while await self._execute(_REMOVE_SOME, (self._tenant_id, webhook_id, DROPPED_MAX)):
            pass
        return await self._execute(_REMOVE, (self._tenant_id, webhook_id))

    async def notify(self, webhook_id: WebhookId, notice: Notice, next_at: int) -> DueDelivery | None:
        """Adds a delivery for one webhook, whichever events it wants; None when it is gone."""
        row = (notice.event_id, notice.type, body_of(notice), notice.at, next_at, self._tenant_id, webhook_id)

        def write(connection: Connection) -> DueDelivery | None:
            added = connection.fetch(_NOTIFY_ONE, row)
            return _due(connection.fetch(_ONE, (self._tenant_id, added[0][0]))[0]) if added else None

        return await self._database.write(write)

    async def deliveries(self, webhook_id: WebhookId, *, before: int | None, limit: int) -> tuple[Delivery, ...]:
        """Newest first; those with a number below `before`."""
        start = _NUMBER_MAX if before is None else before
        return await self._all(_delivery, _DELIVERIES, (self._tenant_id, webhook_id, start, limit))

    async def redeliver(self, webhook_id: WebhookId, number: int, next_at: int) -> DueDelivery | None:
        """Makes a delivery pending again, to be tried at that time; None when there is no such delivery."""

        def write(connection: Connection) -> DueDelivery | None:
            if not connection.execute(_RESEND, (next_at, number, self._tenant_id, webhook_id)):
                return None
            return _due(connection.fetch(_ONE, (self._tenant_id, number))[0])

        return await self._database.write(write)

    async def get_delivery(self, number: int) -> Delivery | None:
        rows = await self._all(_due, _ONE, (self._tenant_id, number))
        return rows[0].delivery if rows else None


class DueDeliveries(Scope):
    """The pending deliveries of all tenants, for the one that sends them."""

    async def tenants(self) -> set[TenantId]:
        """Returns the tenants that have webhooks."""
        return set(await self._all(lambda row: TenantId(row[0]), _TENANTS, ()))

    async def list_due(
        self, now: int, *, full: Collection[int], flying: Collection[int], limit: int, failing_limit: int
    ) -> tuple[DueDelivery, ...]:
        """Returns up to `limit` due deliveries of each webhook that is not `full`; those that are `flying` are left out.

        Of a webhook that fails up to `failing_limit`.
        """
        busy, sent = _numbers(full), _numbers(flying)

        def read(connection: Connection) -> tuple[DueDelivery, ...]:
            due: list[DueDelivery] = []
            for webhook_key, _, failing in connection.fetch(_WITH_DUE, (busy, now, sent)):
                rows = connection.fetch(_DUE, (webhook_key, now, sent, failing_limit if failing else limit))
                due += map(_due, rows)
            return tuple(due)

        return await self._database.read(read)

    async def finish(self, due: DueDelivery, attempted: Attempted, entry: AuditEntry | None) -> None:
        """Stores the result of an attempt; with `disable` the webhook is disabled, and `entry` is in the audit log."""
        was_delivered = attempted.error is None

        def write(connection: Connection) -> None:
            about = (attempted.at, attempted.status, attempted.error, attempted.next_at)
            delivered = attempted.at if was_delivered else None
            connection.execute(_ATTEMPTED, (*about, delivered, due.delivery.number))
            if was_delivered:
                connection.execute(_SUCCEEDS, (due.webhook_key,))
                return
            connection.execute(_FAILS, (attempted.at, due.webhook_key))
            if attempted.disable is None:
                return
            if connection.execute(_DISABLE, (attempted.at, attempted.disable, due.webhook_key)) and entry is not None:
                add_entry(connection, due.tenant_id, entry)

        await self._database.of(due.tenant_id).write(write)

    async def drop_old(self, before: int) -> None:
        """Drops deliveries from before that time, some in each commit."""
        while await self._database.write(lambda connection: connection.execute(_DROP_OLD, (before, DROPPED_MAX))):
            pass


def add_deliveries(connection: Connection, tenant_id: TenantId, notices: Sequence[tuple[Notice, bytes]]) -> None:
    """Adds a delivery of each notice for every webhook of the tenant that wants it."""
    for notice, body in notices:
        about = (notice.container_id, notice.event_id, notice.type, body, notice.at)
        connection.execute(_NOTIFY, (*about, tenant_id, f"% {notice.type} %"))


def add_session_notice(connection: Connection, key: tuple[TenantId, ContainerId], session: Session) -> None:
    """Adds the deliveries of a session that is created in this commit."""
    data: dict[str, object] = {
        "sessionId": session.session_id,
        "imageId": session.image_id,
        "containerId": key[1],
        "createdAt": session.created_at,
    }
    notice = Notice(
        event_id=f"evt_{session.session_id}", type="session.created", at=session.created_at, container_id=key[1], data=data
    )
    add_deliveries(connection, key[0], [(notice, body_of(notice))])


def body_of(notice: Notice) -> bytes:
    """Returns the body of a request, as Standard Webhooks has it."""
    at = datetime.fromtimestamp(notice.at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return msgspec.json.encode({"id": notice.event_id, "type": notice.type, "timestamp": at, "data": notice.data})


def _event_text(events: Sequence[str]) -> str:
    """Returns the events with a blank before and behind each."""
    return f" {' '.join(events)} "


def _numbers(keys: Collection[int]) -> str:
    return msgspec.json.encode(sorted(keys)).decode()


def _webhook(row: Sequence[Any]) -> Webhook:
    events, *rest = row
    return Webhook(events=tuple(events.split()), **dict(zip(_WEBHOOK.names, rest, strict=True)))


def _delivery(row: Sequence[Any]) -> Delivery:
    number, *rest = row
    return Delivery(number=number, **dict(zip(_DELIVERY.names, rest, strict=True)))


def _due(row: Sequence[Any]) -> DueDelivery:
    tenant_id, webhook_key, number, body, events, *rest = row
    width = len(_DELIVERY.names)
    return DueDelivery(
        tenant_id=tenant_id,
        webhook_key=webhook_key,
        webhook=_webhook((events, *rest[width:])),
        delivery=_delivery((number, *rest[:width])),
        body=bytes(body),
    )
