import os

import anyio
import pytest
from tests.support.mcp_process import Launcher
from tests.support.processes import wait_ended

from agentvm.errors import ToolFailed
from agentvm.errors.tool import EgressRefused, SecretNotGranted, TierBroken, TierUnavailable, WorkspaceFull
from agentvm.tools.base import Caller
from agentvm.tools.mcp import pool as module
from agentvm.tools.mcp.connection import McpConnection, dial_process
from agentvm.tools.mcp.pool import McpPool, PoolKey
from agentvm.tools.mcp.settings import McpServerSettings


def key(user: str = "alice", server: str = "files") -> PoolKey:
    return PoolKey(server, user, "acme")


class Opened:
    """Opens connections in a mode, and keeps them."""

    def __init__(self, mode: str = "good") -> None:
        self.mode = mode
        self.launcher = Launcher()
        self.connections: list[McpConnection] = []

    async def __call__(self) -> McpConnection:
        settings = McpServerSettings(argv=("/server", self.mode))
        dial = dial_process(lambda: self.launcher("files", settings, Caller("acme", "alice")))
        self.connections.append(McpConnection("files", dial, shared=False, on_list_changed=lambda: None))
        return self.connections[-1]


async def leased(pool: McpPool, open: Opened, of: PoolKey | None = None, idle: float = 60) -> McpConnection:
    async with pool.lease(of or key(), open, idle_seconds=idle) as connection:
        return connection


async def test_calls_with_one_key_share_a_connection_and_other_users_have_their_own() -> None:
    opened = Opened()
    with anyio.fail_after(60):
        async with McpPool() as pool:
            async with anyio.create_task_group() as tasks:
                for _ in range(10):
                    tasks.start_soon(leased, pool, opened)
            assert len(opened.connections) == 1
            bobs = await leased(pool, opened, key("bob"))
            assert bobs is not opened.connections[0]
            assert pool.alive == 2
        assert all(connection.ended.is_set() for connection in opened.connections)


async def test_an_idle_connection_is_closed_and_one_in_use_is_not() -> None:
    opened = Opened()
    with anyio.fail_after(60):
        async with McpPool() as pool:
            async with pool.lease(key(), opened, idle_seconds=0.05) as busy:
                idle = await leased(pool, opened, key("bob"), idle=0.05)
                await idle.ended.wait()
                assert not busy.ended.is_set()
            await busy.ended.wait()
            assert pool.alive == 0
            assert (idle.failure, busy.failure) == (None, None)
            assert await leased(pool, opened) is not busy


async def test_a_server_that_keeps_failing_is_left_alone_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    opened = Opened("crash")
    with anyio.fail_after(60):
        async with McpPool(clock=lambda: now) as pool:
            for _ in range(module.RESTARTS_MAX):
                with pytest.raises(ToolFailed, match="has ended"):
                    await leased(pool, opened)
            with pytest.raises(ToolFailed, match="tried again in 300 seconds"):
                await leased(pool, opened)
            assert len(opened.connections) == module.RESTARTS_MAX
            assert (await leased(pool, Opened(), key("bob"))).usable, "another user's process is another process"
            now += module.BROKEN_SECONDS + 1
            opened.mode = "good"
            assert (await leased(pool, opened)).usable


async def test_failures_long_ago_are_forgotten() -> None:
    now = 1000.0
    opened = Opened("crash")
    with anyio.fail_after(60):
        async with McpPool(clock=lambda: now) as pool:
            for _ in range(module.RESTARTS_MAX * 2):
                with pytest.raises(ToolFailed, match="has ended"):
                    await leased(pool, opened)
                now += module.RESTART_WINDOW_SECONDS


async def test_a_tenant_has_a_bounded_number_and_the_longest_idle_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PER_TENANT_MAX", 2)
    opened = Opened()
    with anyio.fail_after(60):
        async with McpPool() as pool:
            first = await leased(pool, opened, key("a"))
            second = await leased(pool, opened, key("b"))
            await leased(pool, opened, key("c"))
            await first.ended.wait()
            assert not second.ended.is_set()
            async with pool.lease(key("b"), opened), pool.lease(key("c"), opened):
                with pytest.raises(ToolFailed, match="in use already"):
                    await leased(pool, opened, key("d"))
                assert (await leased(pool, opened, PoolKey("files", "x", "globex"))).usable


@pytest.mark.parametrize(
    "refusal",
    [
        EgressRefused("not allowed"),
        SecretNotGranted("KEY", "stdio:files", "env", None),
        TierUnavailable("its sandbox is not there"),
        WorkspaceFull("its files do not fit"),
    ],
    ids=lambda refusal: refusal.code,
)
async def test_an_opening_that_is_refused_is_no_failure_of_the_server(refusal: ToolFailed) -> None:
    async def refused() -> McpConnection:
        raise refusal

    with anyio.fail_after(60):
        async with McpPool() as pool:
            for _ in range(module.RESTARTS_MAX + 1):
                with pytest.raises(type(refusal)):
                    async with pool.lease(key(), refused):
                        pass
            assert pool.alive == 0


async def test_a_jail_that_breaks_is_a_failure_and_the_last_one_is_told() -> None:
    async def broken() -> McpConnection:
        raise TierBroken("the launcher has ended")

    with anyio.fail_after(60):
        async with McpPool() as pool:
            for _ in range(module.RESTARTS_MAX):
                with pytest.raises(TierBroken):
                    async with pool.lease(key(), broken):
                        pass
            with pytest.raises(ToolFailed, match=r"3 times within 5 minutes.* The last failure: the launcher has ended"):
                async with pool.lease(key(), broken):
                    pass


async def test_a_connection_that_answers_nothing_is_replaced() -> None:
    opened = Opened()
    with anyio.fail_after(60):
        async with McpPool() as pool:
            hung = await leased(pool, opened)
            hung._abandoned = 3
            assert await leased(pool, opened) is not hung
            await hung.ended.wait()


async def test_after_many_starts_and_ends_no_process_task_or_file_is_left() -> None:
    opened = Opened()
    with anyio.fail_after(100):
        async with McpPool() as pool:
            await leased(pool, opened, idle=0.01)
            files, starts = open_files(), int(os.environ.get("AVM_TEST_MCP_STARTS", "30"))
            for start in range(starts):
                opened.mode = ("good", "grandchild", "crash-call")[start % 3]
                async with pool.lease(key(f"user-{start}"), opened, idle_seconds=0.01) as connection:
                    if start % 5 == 0:
                        connection.kill()
                await connection.ended.wait()
            await opened.connections[0].ended.wait()
            assert (pool.alive, pool.started, opened.launcher.running) == (0, starts + 1, 0)
            assert open_files() <= files
        for pid in opened.launcher.pids:
            await wait_ended(pid)


def open_files() -> int:
    return len(os.listdir("/dev/fd"))
