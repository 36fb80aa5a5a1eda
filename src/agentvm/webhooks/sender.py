"""Sender — delivers the notices of webhooks, and retries failed deliveries.

Theory of operation. Every notice is a row, written in the commit of its event. One task looks for rows that are due, starts a
bounded number of attempts, and stores the result of each; nothing waits in memory, so a restart continues where the rows say.
An attempt that ended without being stored is made again, with the same `webhook-id`, by which receivers tell repetitions.

A failing webhook has one attempt at a time, and a tenant a few, so that a hanging address does not delay others.
"""

import secrets
from collections import Counter
from collections.abc import Callable
from http import HTTPStatus

import anyio
import httpcore2
import httpx2

from agentvm.errors import AgentVMError, InvalidInput, ToolFailed
from agentvm.errors.tool import EgressRefused
from agentvm.events.base import Event
from agentvm.events.lifecycle import QuotaWarning, SessionCreated
from agentvm.events.tool import ToolWaiting
from agentvm.events.turn import TurnResponse
from agentvm.log import get_logger
from agentvm.model.account import AuditEntry
from agentvm.model.ids import Clock, TenantId
from agentvm.model.secret import Secret
from agentvm.model.signature import SECRET_BYTES, secret_of, signed_headers
from agentvm.model.webhook import Attempted, DisableReason, DueDelivery, Webhook, WebhookId
from agentvm.storage.sql.store import Store
from agentvm.tenants.vault import Vault
from agentvm.tools.safe_http import SafeHttp, parse_url

logger = get_logger(__name__)

RETRY_SECONDS = (60, 300, 1_800, 7_200, 28_800, 86_400)
"""Time before each further attempt; the last one repeats."""
RETRY_MAX_MS = 5 * 24 * 3_600_000
"""A notice is tried this long; a webhook that has taken nothing for this long is disabled."""
RETENTION_MS = 30 * 24 * 3_600_000
"""Deliveries that have ended can be read this long."""
ATTEMPT_SECONDS = 15.0
ATTEMPTS_MAX = 32
"""Attempts at one time, of all tenants."""
TENANT_ATTEMPTS_MAX = 8
WEBHOOK_ATTEMPTS_MAX = 4
FAILING_ATTEMPTS_MAX = 1
POLL_SECONDS = 15.0
"""Time after which rows that have become due are looked for, if any tenant has a webhook."""
CLUSTER_POLL_SECONDS = 1.0
"""The same in a cluster: events of other nodes wake no task here."""
CLEANUP_INTERVAL_MS = 3_600_000
STORE_RETRY_SECONDS = 1.0
SERVER_ACTOR = "server"
DISABLED = "webhook.disable"


class WebhookSender:
    """An effector; `run` is its task."""

    kinds = (TurnResponse, SessionCreated, ToolWaiting, QuotaWarning)

    def __init__(
        self,
        store: Store,
        vault: Vault,
        http: SafeHttp,
        clock: Clock,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._store, self._vault, self._http, self._clock, self._random_bytes = store, vault, http, clock, random_bytes
        self._client: httpx2.AsyncClient | None = None
        self._woken = anyio.Event()
        self._flying: dict[int, DueDelivery] = {}
        """Attempts that are being made, by the numbers of their deliveries."""
        self._tidied_at = 0

    def react(self, event: Event) -> None:
        if event.tenant_id in self._store.hooked:
            self.wake()

    def wake(self) -> None:
        """Looks for deliveries that are due."""
        self._woken.set()

    def new_secret(self, tenant_id: TenantId, webhook_id: WebhookId) -> tuple[Secret, bytes]:
        """Returns a secret to be shown once, and the same sealed."""
        secret = secret_of(self._random_bytes(SECRET_BYTES))
        return secret, self._vault.seal(tenant_id, _name(webhook_id), secret)

    async def check_url(self, text: str) -> str:
        """Returns an address that may be told of events; `InvalidInput` says why another may not."""
        try:
            url = parse_url(text)
            if url.scheme != "https" and not self._http.allows_plain(url):
                raise InvalidInput("url must begin with https://; the operator can allow others by tools.network.allow")
            await self._http.network.check(url.host, url.port or (443 if url.scheme == "https" else 80))
        except EgressRefused as error:
            raise InvalidInput(f"url: {error}") from None
        except httpcore2.ConnectError:
            # A name that is not known today may be tomorrow: deliveries say so.
            pass
        return text

    async def run(self) -> None:
        """Sends until cancelled."""
        async with anyio.create_task_group() as tasks:
            while True:
                self._woken = anyio.Event()
                try:
                    for due in await self._choose():
                        self._flying[due.delivery.number] = due
                        tasks.start_soon(self._fly, due)
                    await self._tidy()
                except AgentVMError as error:
                    logger.error("webhooks_not_read", code=error.code, error=str(error))
                with anyio.move_on_after(self._pause()):
                    await self._woken.wait()

    def _pause(self) -> float | None:
        """Seconds to the next look; None if nothing can become due before it is woken here."""
        if self._store.node_id:
            return CLUSTER_POLL_SECONDS
        return POLL_SECONDS if self._store.hooked else None

    async def attempt(self, due: DueDelivery) -> Attempted:
        """Sends a delivery now, and stores the result."""
        status, error = await self._send(due)
        now = self._clock()
        disable = self._disabling(due.webhook, status, error, now)
        next_at = None if error is None or disable is not None else _next_at(due, now)
        attempted = Attempted(at=now, status=status, error=error, next_at=next_at, disable=disable)
        entry = None if disable is None else _entry(due, disable, now)
        await self._store.due_deliveries.finish(due, attempted, entry)
        if disable is not None:
            logger.warning("webhook_disabled", tenant_id=due.tenant_id, webhook_id=due.webhook.webhook_id, reason=disable)
        return attempted

    async def _choose(self) -> list[DueDelivery]:
        """Returns the deliveries to begin now."""
        if not self._store.hooked or len(self._flying) >= ATTEMPTS_MAX:
            return []
        of_webhooks = Counter(due.webhook_key for due in self._flying.values())
        of_tenants = Counter(due.tenant_id for due in self._flying.values())
        full = [key for key, count in of_webhooks.items() if count >= WEBHOOK_ATTEMPTS_MAX]
        rows = await self._store.due_deliveries.list_due(
            self._clock(),
            full=full,
            flying=self._flying,
            limit=WEBHOOK_ATTEMPTS_MAX,
            failing_limit=FAILING_ATTEMPTS_MAX,
        )
        chosen: list[DueDelivery] = []
        # Those that fail come last: they may hang, and there are only so many attempts at a time.
        for due in sorted(rows, key=lambda due: due.webhook.failing_since is not None):
            failing = due.webhook.failing_since is not None
            room = FAILING_ATTEMPTS_MAX if failing else WEBHOOK_ATTEMPTS_MAX
            if of_webhooks[due.webhook_key] < room and of_tenants[due.tenant_id] < TENANT_ATTEMPTS_MAX:
                of_webhooks[due.webhook_key] += 1
                of_tenants[due.tenant_id] += 1
                chosen.append(due)
        return chosen[: ATTEMPTS_MAX - len(self._flying)]

    async def _fly(self, due: DueDelivery) -> None:
        try:
            await self.attempt(due)
        except AgentVMError as error:
            logger.error("webhook_not_stored", webhook_id=due.webhook.webhook_id, code=error.code, error=str(error))
            await anyio.sleep(STORE_RETRY_SECONDS)
        finally:
            del self._flying[due.delivery.number]
            self.wake()

    async def _send(self, due: DueDelivery) -> tuple[int | None, str | None]:
        """Returns the status of the response, and why the notice was not taken."""
        webhook, now = due.webhook, self._clock()
        try:
            signing = [self._vault.unseal(due.tenant_id, _name(webhook.webhook_id), webhook.secret)]
            if webhook.previous_secret is not None and now < (webhook.previous_until or 0):
                signing.append(self._vault.unseal(due.tenant_id, _name(webhook.webhook_id), webhook.previous_secret))
            signed = signed_headers(due.delivery.event_id, now // 1000, due.body, signing)
            status = await self._post(webhook.url, due.body, (("Content-Type", "application/json"), *signed))
        except AgentVMError as error:
            return None, str(error)
        if 200 <= status < 300:
            return status, None
        return status, "redirects are not followed" if 300 <= status < 400 else f"the receiver answered {status}"

    async def _post(self, url: str, body: bytes, headers: tuple[tuple[str, str], ...]) -> int:
        """Returns the status. The body of the response is not read, however long it is."""
        if self._client is None:
            self._client = self._http.client(redirects=0)
        try:
            with anyio.fail_after(ATTEMPT_SECONDS):
                async with self._client.stream("POST", parse_url(url), content=body, headers=list(headers)) as response:
                    return response.status_code
        except TimeoutError:
            raise ToolFailed(f"the receiver did not answer within {ATTEMPT_SECONDS:g} seconds") from None
        except (httpx2.HTTPError, OSError, ExceptionGroup) as error:
            # A group comes from an attempt to connect to several addresses at once.
            raise ToolFailed(f"the receiver could not be reached: {type(error).__name__}") from None

    def _disabling(self, webhook: Webhook, status: int | None, error: str | None, now: int) -> DisableReason | None:
        if error is None:
            return None
        if status == HTTPStatus.GONE:
            return "gone"
        return "failing" if webhook.failing_since is not None and now - webhook.failing_since >= RETRY_MAX_MS else None

    async def _tidy(self) -> None:
        now = self._clock()
        if self._store.hooked and now - self._tidied_at >= CLEANUP_INTERVAL_MS:
            self._tidied_at = now
            await self._store.due_deliveries.drop_old(now - RETENTION_MS)


def _next_at(due: DueDelivery, now: int) -> int | None:
    delay = RETRY_SECONDS[min(due.delivery.attempts, len(RETRY_SECONDS) - 1)]
    return None if now - due.delivery.created_at >= RETRY_MAX_MS else now + delay * 1000


def _name(webhook_id: WebhookId) -> str:
    """Returns the name under which a secret is sealed."""
    return f"webhook:{webhook_id}"


def _entry(due: DueDelivery, reason: DisableReason, now: int) -> AuditEntry:
    return AuditEntry(
        at=now,
        tenant_id=due.tenant_id,
        actor=SERVER_ACTOR,
        action=DISABLED,
        target=due.webhook.webhook_id,
        result=reason,
    )
