"""MCP setup — the MCP servers of a running AgentVM: programs that its operator has set up, in jails, and servers on the web."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec

from agentvm.errors.resource import ResourceNotFound
from agentvm.errors.tool import TierUnavailable
from agentvm.log import mask_in_logs
from agentvm.model.ids import DEFAULT_TENANT, TenantId
from agentvm.model.tier import Job, Placed, TierRules
from agentvm.model.tool_settings import ToolSettings
from agentvm.resources.centre import ResourceCentre
from agentvm.resources.tool_entry import McpEntry
from agentvm.sharing.cache import Cache
from agentvm.tiers.base import Process
from agentvm.tools.base import Caller
from agentvm.tools.mcp.launch import ServerProgram, jailed_launch, server_job
from agentvm.tools.mcp.pool import McpPool
from agentvm.tools.mcp.servers import McpServers, OAuthSettings, server_grantee
from agentvm.tools.mcp.settings import McpServerSettings, server_settings
from agentvm.tools.metered_jobs import MeteredJobs
from agentvm.tools.safe_http import SafeHttp
from agentvm.tools.sandbox_jobs import SandboxSpec, limits_of, need_of
from agentvm.tools.secrets import SecretGrants
from agentvm.tools.stored_sandbox import find_sandbox

PLACES_MAX = 1_000
"""Placements of programs that are remembered, by server and tenant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPrograms:
    """Prepares and starts the programs of `tools.mcpServers`."""

    jobs: MeteredJobs
    resources: ResourceCentre
    grants: SecretGrants
    """Secrets of the tenant whose users call a server; without a grant by the tenant a server gets none."""
    _places: Cache[tuple[str, str], Placed] = field(default_factory=lambda: Cache(PLACES_MAX))

    async def prepare(self, server_id: str, settings: McpServerSettings, caller: Caller) -> ServerProgram:
        """Returns the program of a server. Its sandbox is the operator's: a tenant's of the same name does not count."""
        spec = await self.sandbox(settings)
        grantee, tenant_id = server_grantee(server_id), TenantId(caller.tenant_id)
        secrets = {name: await self.grants.reveal_to_code(tenant_id, grantee, name, spec.hosts) for name in settings.secrets}
        for secret in secrets.values():
            # The end of what the program says is logged, also where no call is made: while its tools are listed.
            mask_in_logs(secret.reveal())
        base = Job(
            engine="command",
            files=spec.files,
            env=spec.env,
            network=spec.hosts,
            packages=spec.packages,
            limits=limits_of(spec.limits),
        )
        job = server_job(settings, secrets, base)
        # It lives on while it is used, whatever its sandbox says of calls.
        need = msgspec.structs.replace(need_of(job, spec), talks=True, persistent=False)
        # One that all tenants share is the operator's alone.
        rules = TierRules() if settings.per == "server" else self.jobs.rules(tenant_id)
        # Placed before it is started, so that a machine that cannot run it says why.
        placed = await (await self.jobs.tiers.scheduler()).place(need, rules)
        self._places.put((server_id, caller.tenant_id), placed)
        return ServerProgram(need=need, job=job, rules=rules)

    def placed(self, entry: McpEntry, caller: Caller) -> Placed | None:
        """Returns the tier of the program that answers a caller; None for a server on the web."""
        return None if entry.server is None else self._places.get((entry.server, caller.tenant_id))

    async def sandbox(self, settings: McpServerSettings) -> SandboxSpec:
        """Returns the sandbox of a server."""
        if settings.sandbox is None:
            return SandboxSpec()
        try:
            return await find_sandbox(self.resources, DEFAULT_TENANT, settings.sandbox)
        except ResourceNotFound as error:
            raise TierUnavailable(f"The sandbox of the MCP server is not there: {error}") from None

    @asynccontextmanager
    async def open(self, program: ServerProgram) -> AsyncIterator[Process]:
        """Starts a program. It holds no slot: it lives for many calls, and each tenant has a number of them."""
        scheduler = await self.jobs.tiers.scheduler()
        async with scheduler.open(program.need, program.job, rules=program.rules) as process:
            yield process


def make_servers(
    settings: ToolSettings,
    *,
    http: SafeHttp,
    pool: McpPool,
    programs: ServerPrograms,
    oauth: OAuthSettings | None = None,
) -> McpServers:
    """Returns all MCP servers that the tools of this AgentVM can call."""
    return McpServers(
        http=http,
        pool=pool,
        launch=jailed_launch(programs.open, programs.prepare),
        settings=server_settings(settings.mcp_servers),
        sandbox=programs.sandbox,
        placed=programs.placed,
        oauth=oauth,
    )
