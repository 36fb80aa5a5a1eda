"""Metrics — `/v1/metrics`, `/metrics` and `/v1/status`: how much, how fast and how well.

The operator sees the whole server: who has `system:admin`, or a key of the operator's own tenant that is bound to nobody, so
that a scraper needs no more than `metrics:read`. Everybody else sees what is theirs.
"""

from datetime import UTC, datetime

import anyio.to_thread

from agentvm.errors import AccessDenied
from agentvm.model.ids import DEFAULT_TENANT, UserId
from agentvm.model.ledger import UsageRow
from agentvm.model.principal import Principal
from agentvm.observability.exposition import OPENMETRICS, render
from agentvm.observability.report import ServerMetrics, TenantMetrics
from agentvm.observability.status import Status
from agentvm.operations.accept import preferred
from agentvm.server.http.route import Answer, Ask, Nothing, Routes

routes = Routes()

READ = ("metrics:read",)
JSON, TEXT = "application/json", "text/plain"
NOT_THEIRS = "The text form is of the whole server, and for its operator; ask for application/json to see your own numbers"


@routes.add("GET", "/v1/metrics", needs=READ, takes=Nothing, media_type="text/plain")
async def show(ask: Ask[Nothing]) -> ServerMetrics | TenantMetrics | Answer[bytes]:
    """See what the server counts.

    JSON, or what Prometheus reads if that is asked for. A tenant sees its own numbers.
    """
    form = preferred(ask.accept, (JSON, TEXT, OPENMETRICS))
    if form != JSON:
        return await _text(ask, form)
    if ask.named or not operates(ask.principal):
        return await _of_tenant(ask)
    return ask.vm.monitor.report()


@routes.add("GET", "/metrics", needs=READ, across=False, takes=Nothing, media_type="text/plain")
async def scrape(ask: Ask[Nothing]) -> Answer[bytes]:
    """See what the server counts, as Prometheus reads it."""
    return await _text(ask, preferred(ask.accept, (TEXT, OPENMETRICS)))


@routes.add("GET", "/v1/status", needs=READ, across=False, takes=Nothing)
async def status(ask: Ask[Nothing]) -> Status:
    """See whether the server is well, and what to do if not.

    It is the server's, so there is nothing of a tenant in it. The operator also sees the address of a provider that fails.
    """
    return ask.vm.monitor.status(ask.vm.config.limits.disk_free, addresses=ask.principal.may("system:admin"))


def operates(principal: Principal) -> bool:
    """Whether the whole server is theirs to see."""
    if principal.may("system:admin"):
        return True
    return principal.tenant_id == DEFAULT_TENANT and principal.user_id is None and principal.containers is None


async def _text(ask: Ask[Nothing], form: str) -> Answer[bytes]:
    if ask.named or not operates(ask.principal):
        raise AccessDenied(NOT_THEIRS)
    found = ask.vm.monitor.samples()
    text, media_type = await anyio.to_thread.run_sync(lambda: render(found, openmetrics=form == OPENMETRICS))
    return Answer(content=text, media_type=media_type)


async def _of_tenant(ask: Ask[Nothing]) -> TenantMetrics:
    """As in `/v1/usage`, who does not administer the tenant sees their own usage."""
    one, roster = ask.principal, ask.vm.runtime.roster
    whole = one.may("tenants:admin") or one.user_id is None
    day = datetime.fromtimestamp(ask.vm.clock() / 1000, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    user_id = None if whole else one.user_id
    return TenantMetrics(
        scope="tenant" if whole else "user",
        turns_running=roster.count_running(ask.tenant_id) if whole else 0,
        messages_waiting=roster.count_waiting(ask.tenant_id) if whole else 0,
        connections=ask.vm.count_connected(ask.tenant_id) if whole else 0,
        today=await _used(ask, int(day.timestamp() * 1000), user_id),
        month=await _used(ask, int(day.replace(day=1).timestamp() * 1000), user_id),
        total=await _used(ask, 0, user_id),
    )


async def _used(ask: Ask[Nothing], since: int, user_id: UserId | None) -> UsageRow:
    ledger, one = ask.accounts.ledger, ask.principal
    containers = None
    if one.containers is not None and not one.may("tenants:admin"):
        # A key has patterns, the ledger has names.
        used = await ledger.usage(by=("container",), since=since, user_id=user_id)
        containers = [row.container_id for row in used if row.container_id is not None and one.reaches(row.container_id)]
    (row,) = await ledger.usage(by=(), since=since, user_id=user_id, containers=containers)
    return row
