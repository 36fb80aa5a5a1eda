"""From the first key to the bill: a server with tenants, used by its operator, a tenant and two of its users."""

import json
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from tests.cli.desk import Desk, open_desk
from tests.cli.program import environment, run_avm

from agentvm import AgentX, create_agentx, remote_runtime
from agentvm.errors import AgentVMError, ContainerForbidden, Unauthenticated
from agentvm.model.secret import Secret


async def chat(desk: Desk, home: Path, key: str, text: str) -> tuple[int, str, str]:
    """The real `avm chat`, as a process."""
    env = environment(home, AVM_URL=desk.server.url, AVM_KEY=key)
    done = await anyio.to_thread.run_sync(lambda: run_avm("chat", env=env, given=text))
    return done.returncode, done.stdout, done.stderr


async def tenant_of_two(desk: Desk) -> dict[str, str]:
    """Keys of alice and bob, of the tenant acme."""
    await desk.ok("tenant", "create", "acme", "--name", "Acme")
    keys = {}
    for name in ("alice", "bob"):
        await desk.ok("user", "create", name, "--tenant", "acme")
        keys[name] = (await desk.ok("key", "create", f"{name}'s", "--user", name, "--tenant", "acme")).strip()
    return keys


async def images_of(agentx: AgentX) -> list[str]:
    return [image.container_id for name in await agentx.containers.list() for image in await agentx.images.list(name)]


async def test_two_users_chat_without_seeing_each_other(tmp_path: Path) -> None:
    async with open_desk() as desk:
        keys = await tenant_of_two(desk)
        for name, key in keys.items():
            assert (await chat(desk, tmp_path, key, f"I am {name}"))[:2] == (0, f"I am {name}\n")
        for name, key in keys.items():
            async with create_agentx(remote_runtime(desk.server.ws_url, key=Secret(key))) as agentx:
                assert await images_of(agentx) == [f"user-{name}"]
                other = next(each for each in keys if each != name)
                with pytest.raises(ContainerForbidden):
                    await agentx.images.list(f"user-{other}")


async def test_a_quota_stops_its_user_and_nobody_else(tmp_path: Path) -> None:
    async with open_desk() as desk:
        keys = await tenant_of_two(desk)
        await desk.ok("quota", "set", "tokens_per_day", "--hard", "1", "--user", "alice", "--tenant", "acme")
        code, _, said = await chat(desk, tmp_path, keys["alice"], "hello")
        assert code == 1
        assert "Daily token limit: " in said
        assert (await chat(desk, tmp_path, keys["bob"], "hello"))[0] == 0
        await desk.ok("quota", "delete", "tokens_per_day", "--user", "alice", "--yes", "--tenant", "acme")
        assert (await chat(desk, tmp_path, keys["alice"], "hello"))[0] == 0


async def test_what_is_used_is_billed_paid_from_the_wallet_and_agrees_with_the_provider(tmp_path: Path) -> None:
    async with open_desk() as desk:
        keys = await tenant_of_two(desk)
        await desk.ok("wallet", "credit", "1.00", "--reference", "invoice-1", "--tenant", "acme")
        for key in keys.values():
            assert (await chat(desk, tmp_path, key, "hello"))[0] == 0
        rows = await desk.record("usage", "--by", "user", "--tenant", "acme")
        assert [row["calls"] for row in rows] == [1, 1]
        wallet = await desk.record("wallet", "show", "--tenant", "acme")
        assert wallet["spent"] == sum(row["price"] for row in rows) > 0
        lines = await desk.record("wallet", "statement", "--tenant", "acme")
        assert sum(line["amount"] for line in lines) == wallet["balance"]
        export = tmp_path / "export.json"
        export.write_text(json.dumps(await desk.record("usage", "--by", "day,model", "--tenant", "acme")))
        assert (await desk.ok("usage", "reconcile", str(export))).endswith("Every difference is explained.\n")


async def test_an_empty_wallet_refuses_until_money_is_paid_in(tmp_path: Path) -> None:
    async with open_desk() as desk:
        key = (await tenant_of_two(desk))["alice"]
        await desk.ok("wallet", "credit", "0.000000001", "--reference", "almost nothing", "--tenant", "acme")
        code, _, said = await chat(desk, tmp_path, key, "hello")
        assert (code, "wallet" in said.lower()) == (1, True)
        await desk.ok("wallet", "credit", "5", "--reference", "invoice-2", "--tenant", "acme")
        assert (await chat(desk, tmp_path, key, "hello"))[0] == 0


async def test_a_key_that_is_revoked_ends_whoever_uses_it() -> None:
    async with open_desk() as desk:
        old = (await tenant_of_two(desk))["alice"]
        key_id = (await desk.record("whoami", key=old))["keyId"]
        new = (await desk.ok("key", "rotate", key_id, "--grace", "1h", "--tenant", "acme")).strip()
        opened = anyio.Event()
        ended: list[AgentVMError] = []

        async def be_a_client() -> None:
            try:
                async with create_agentx(remote_runtime(desk.server.ws_url, key=Secret(old))):
                    opened.set()
                    await anyio.sleep_forever()
            except Unauthenticated as error:
                ended.append(error)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(be_a_client)
                await opened.wait()
                await desk.ok("key", "revoke", key_id, "--yes", "--tenant", "acme")
        assert len(ended) == 1
        async with create_agentx(remote_runtime(desk.server.ws_url, key=Secret(new))) as agentx:
            assert await agentx.containers.list() == ("user-alice",)
