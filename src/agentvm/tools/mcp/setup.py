"""MCP setup — the MCP servers of a running AgentVM: programs that its operator has set up, in jails, and servers on the web."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from agentvm.errors.resource import ResourceNotFound
from agentvm.errors.tool import TierUnavailable
from agentvm.log import conceal_here
from agentvm.model.ids import DEFAULT_TENANT, TenantId
from agentvm.model.tier import Job
from agentvm.model.tool_settings import ToolSettings
from agentvm.resources.centre import ResourceCentre
from agentvm.tiers.base import Process
from agentvm.tiers.on_demand import TiersOnDemand
from agentvm.tools.base import Caller
from agentvm.tools.mcp.launch import jailed_launch, server_job
from agentvm.tools.mcp.pool import McpPool
from agentvm.tools.mcp.servers import McpServers, OAuthSettings, server_grantee
from agentvm.tools.mcp.settings import McpServerSettings, server_settings
from agentvm.tools.safe_http import SafeHttp
from agentvm.tools.sandbox_jobs import SandboxSpec, limits_of, need_of
from agentvm.tools.secrets import SecretGrants
from agentvm.tools.stored_sandbox import find_sandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPrograms:
    """Prepares and starts the programs of `tools.mcpServers`."""

    tiers: TiersOnDemand
    resources: ResourceCentre
    grants: SecretGrants
    """Secrets of the tenant whose users call a server; without a grant by the tenant a server gets none."""

    async def prepare(self, server_id: str, settings: McpServerSettings, caller: Caller) -> Job:
        """Returns the job of a server. Its sandbox is the operator's: a tenant's resource of the same name does not count."""
        spec = await self.sandbox(settings)
        grantee, tenant_id = server_grantee(server_id), TenantId(caller.tenant_id)
        secrets = {name: await self.grants.reveal_to_code(tenant_id, grantee, name, spec.hosts) for name in settings.secrets}
        for secret in secrets.values():
            # The end of what the program says is logged, also where no call is made: while its tools are listed.
            conceal_here(secret.reveal())
        base = Job(engine="command", files=spec.files, env=spec.env, network=spec.hosts, limits=limits_of(spec.limits))
        job = server_job(settings, secrets, base)
        # Places it, so that a machine that cannot run it says why before anything is started.
        await (await self.tiers.scheduler()).place(need_of(job, spec))
        return job

    async def sandbox(self, settings: McpServerSettings) -> SandboxSpec:
        """Returns the sandbox of a server."""
        if settings.sandbox is None:
            return SandboxSpec()
        try:
            return await find_sandbox(self.resources, DEFAULT_TENANT, settings.sandbox)
        except ResourceNotFound as error:
            raise TierUnavailable(f"The sandbox of the MCP server is not there: {error}") from None

    @asynccontextmanager
    async def open(self, job: Job) -> AsyncIterator[Process]:
        """Starts a program. It holds no slot: it lives for many calls, and each tenant has a number of them."""
        scheduler = await self.tiers.scheduler()
        async with scheduler.open(need_of(job, SandboxSpec()), job) as process:
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
        oauth=oauth,
    )
