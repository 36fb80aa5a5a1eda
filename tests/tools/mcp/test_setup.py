"""Programs that an operator has set up as MCP servers: their sandbox, their secrets, their end."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import cast

import anyio
import msgspec
import pytest
from tests.operations.fixtures import Desk, open_desk
from tests.tiers.test_scheduler import FakeTier
from tests.tools.mcp.test_turns import PROGRAM, converse, desk_with, register, settings

from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply, tool_calls
from agentvm.errors import ToolFailed
from agentvm.errors.tool import TierUnavailable
from agentvm.log import masked_secrets
from agentvm.model.secret import Secret
from agentvm.model.secret_grant import SecretGrant
from agentvm.model.tier import Job, Offer, TierRules
from agentvm.model.tool_settings import McpServerEntry
from agentvm.resources.tool_entry import parse_mcp
from agentvm.tiers.base import Process
from agentvm.tiers.on_demand import TiersOnDemand
from agentvm.tiers.scheduler import Scheduler
from agentvm.tools.base import Caller
from agentvm.tools.mcp.settings import McpServerSettings
from agentvm.tools.mcp.setup import ServerPrograms
from agentvm.tools.metered_jobs import MeteredJobs
from agentvm.tools.secrets import SecretGrants

pytestmark = pytest.mark.anyio
ARGV = (*PROGRAM, "good")
SECRET = "tell-nobody-7"


async def grant(desk: Desk, hosts: tuple[str, ...] = ()) -> None:
    tenant_id = desk.peer.tenant_id
    await desk.vm.tenancy.vault.put(tenant_id, "KEY", Secret(SECRET))
    server = "stdio:keyed"
    granted = SecretGrant(secret="KEY", tool=server, grantee=server, use="env", hosts=hosts, granted_by="a", granted_at=1)
    await desk.vm.tenancy.store.accounts(tenant_id).grants.put(granted)


async def test_a_program_has_granted_secrets_and_results_do_not_show_them() -> None:
    calls = tool_calls(("c1", "srv__whoami", {}), ("c2", "srv__echo", {"text": SECRET}))
    driver = ScriptedDriver(in_turn(calls, reply("done"), tool_calls(("c3", "srv__echo", {})), reply("done")))
    tools = settings()
    keyed = McpServerEntry(argv=ARGV, sandbox="resource://sandboxes/mcp", secrets=("KEY",))
    tools = replace(tools, mcp_servers={**tools.mcp_servers, "keyed": keyed})
    async with desk_with(driver, tools) as desk:
        refused = await register(desk, "stdio:keyed")
        assert "KEY is not granted to" in refused["error"]
        await grant(desk)
        assert "errorCode" not in await register(desk, "stdio:keyed")
        image = await desk.create_image(tools=["resource://tools/srv"])
        (_, about), echoed = await converse(desk, driver, image)
        assert about["env"]["KEY"] == "[secret KEY]"
        assert echoed == ("text", "[secret KEY]")
        # A grant that was taken back holds for the process that has the value already.
        grants = desk.vm.tenancy.store.accounts(desk.peer.tenant_id).grants
        assert await grants.remove("KEY", "stdio:keyed", "stdio:keyed", None)
        ((kind, reason),) = await converse(desk, driver, image, turns=2)
        assert (kind, "KEY is not granted" in reason) == ("error-text", True)


async def test_the_sandbox_of_a_program_is_the_operators_and_its_absence_is_told() -> None:
    with anyio.fail_after(60):
        async with open_desk(tool_settings=settings()) as desk:
            other = desk.another("acme")
            assert "errorCode" not in await other.ask(
                "resource_register", type="sandboxes", name="mcp", content={"runtime": "python", "files": {"server.py": "evil"}}
            )
            refused = await register(desk, "stdio:good")
            assert "The sandbox of the MCP server is not there" in refused["error"]
            mcp = desk.vm.tool_sets
            assert mcp is not None
            with pytest.raises(ToolFailed, match="The sandbox of the MCP server is not there"):
                await mcp.mcp.list_tools(parse_mcp("stdio:good"), Caller("acme", "eve"))


async def test_secrets_of_a_program_are_redacted_from_the_log_wherever_it_is_started() -> None:
    keyed = McpServerEntry(argv=ARGV, secrets=("KEY",))
    async with open_desk(tool_settings=replace(settings(), mcp_servers={"keyed": keyed})) as desk:
        await grant(desk)
        assert desk.vm.tool_sets is not None
        launch, server = desk.vm.tool_sets.mcp._launch, desk.vm.tool_sets.mcp.settings["keyed"]
        async with launch("keyed", server, Caller(desk.peer.tenant_id, "")):
            assert SECRET in masked_secrets()


class _Tier(FakeTier):
    """Notes the jobs that it opens."""

    async def offer(self) -> Offer:
        return msgspec.structs.replace(await super().offer(), talks=self.name == "process", packages=True)

    @asynccontextmanager
    async def open(self, job: Job) -> AsyncIterator[Process]:
        self.jobs.append(job)
        yield cast("Process", None)


async def test_a_program_has_the_packages_of_its_sandbox_and_never_a_weaker_tier_than_that_or_its_tenant_asks_for() -> None:
    process, container, rules = _Tier("process", engine="command"), _Tier("container", engine="command"), TierRules()
    both = Scheduler((process, container), slots={}, clock=lambda: 0)
    async with open_desk(tool_settings=settings()) as desk:
        vm, tenant = desk.vm, Caller(desk.peer.tenant_id, "u")
        await desk.publish("sandboxes", "boxed", {"runtime": "python", "packages": ["greeting"], "persistent": True})
        await desk.publish("sandboxes", "strong", {"runtime": "python", "isolator": "docker"})
        tiers = TiersOnDemand(lambda: vm.settings.config, lambda: 0)
        tiers._scheduler = both
        tiers._ready.set()
        grants = SecretGrants(store=vm.tenancy.store, vault=vm.tenancy.vault)
        jobs = MeteredJobs(
            tiers=tiers, store=vm.tenancy.store, quotas=vm.tenancy.quotas, clock=lambda: 0, rules=lambda tenant_id: rules
        )
        programs = ServerPrograms(jobs=jobs, resources=vm.resources, grants=grants)
        boxed, strong = (
            McpServerSettings(argv=ARGV, sandbox=f"resource://sandboxes/{name}", per="tenant") for name in ("boxed", "strong")
        )
        async with programs.open(await programs.prepare("boxed", boxed, tenant)):
            assert process.jobs[0].packages == ("greeting",)
        placed = programs.placed(parse_mcp("stdio:boxed"), tenant)
        assert placed is not None
        assert (placed.tier, dict(placed.why)["container"]) == ("process", "runs no programs that are talked to; process does")
        with pytest.raises(TierUnavailable, match="process: weaker than container"):
            await programs.prepare("strong", strong, tenant)
        rules = TierRules(walls=frozenset({"machine"}))
        with pytest.raises(TierUnavailable, match="lacks wall machine"):
            await programs.prepare("boxed", boxed, tenant)
        # One that all tenants share is the operator's.
        await programs.prepare("boxed", replace(boxed, per="server"), tenant)
        assert len(process.jobs) == 1
