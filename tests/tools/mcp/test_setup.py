"""Programs that an operator has set up as MCP servers: their sandbox, their secrets, their end."""

from dataclasses import replace

import anyio
import pytest
from tests.operations.fixtures import Desk, open_desk
from tests.tools.mcp.test_turns import PROGRAM, converse, desk_with, register, settings

from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply, tool_calls
from agentvm.errors import ToolFailed
from agentvm.log import secrets_here
from agentvm.model.secret import Secret
from agentvm.model.secret_grant import SecretGrant
from agentvm.model.tool_settings import McpServerEntry
from agentvm.resources.tool_entry import parse_mcp
from agentvm.tools.base import Caller

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
            assert SECRET in secrets_here()
