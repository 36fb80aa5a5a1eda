"""Chat with a server that asks who is there."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from tests.cli.program import ASKING, at_terminal, environment, run_avm, running

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.config import MEMORY, BillingSettings, SystemSettings
from agentvm.model.account import User
from agentvm.model.ids import DEFAULT_TENANT, KeyId, UserId
from agentvm.model.principal import EVERYTHING, MEMBER, Principal
from agentvm.server.local import RunningServer
from agentvm.vm import system_clock

OPERATOR = Principal(tenant_id=DEFAULT_TENANT, permissions=EVERYTHING)


@pytest.fixture
async def guarded(anyio_backend: str) -> AsyncIterator[RunningServer]:
    config = ServerConfig(
        system=SystemSettings(port=0, data_dir=MEMORY, shutdown_seconds=0, auth="on"),
        billing=BillingSettings(allow_unpriced="on"),
    )
    async with start_server(config, drivers={"scripted": ScriptedDriver()}) as server:
        yield server


async def key_of_alice(server: RunningServer) -> tuple[KeyId, str]:
    tenancy, now = server.server.vm.tenancy, system_clock()
    alice = User(user_id=UserId("user_1"), tenant_id=DEFAULT_TENANT, external_id="alice", created_at=now, updated_at=now)
    await tenancy.access.add_user(alice)
    record, secret = await tenancy.access.issue(
        DEFAULT_TENANT, name="hers", granter=OPERATOR, user_id=alice.user_id, permissions=MEMBER
    )
    return record.key_id, secret.reveal()


async def test_a_key_opens_the_chat_in_the_container_it_is_for(guarded: RunningServer, tmp_path: Path) -> None:
    _, key = await key_of_alice(guarded)
    env = environment(tmp_path, AVM_URL=guarded.url, AVM_KEY=key)
    async with running("chat", env=env, errors=tmp_path / "errors", given="hello\n") as chat:
        assert await chat.line() == "hello"
        assert await chat.wait() == 0
        assert key not in chat.errors
    store = guarded.server.vm.tenancy.store.tenant(DEFAULT_TENANT)
    assert await store.list_containers() == ("user-alice",)


async def test_the_operators_key_chats_in_the_container_default(guarded: RunningServer, tmp_path: Path) -> None:
    assert guarded.first_key is not None
    (tmp_path / "key").write_text(guarded.first_key.reveal())
    arguments = ("chat", "--url", guarded.url, "--key-file", str(tmp_path / "key"))
    async with running(*arguments, env=environment(tmp_path), errors=tmp_path / "errors", given="hello\n") as chat:
        assert await chat.line() == "hello"
        assert await chat.wait() == 0
    assert await guarded.server.vm.tenancy.store.tenant(DEFAULT_TENANT).list_containers() == ("default",)


@pytest.mark.parametrize("key", ["", "avm_wrong"])
async def test_no_key_and_a_wrong_one_are_explained_and_end_the_chat(guarded: RunningServer, tmp_path: Path, key: str) -> None:
    env = environment(tmp_path, AVM_KEY=key)
    done = await anyio.to_thread.run_sync(lambda: run_avm("chat", "--url", guarded.url, env=env, given="hello"))
    assert (done.returncode, done.stdout) == (4, "")
    assert "AVM_KEY=<key>" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "avm_wrong" not in done.stderr


async def test_a_key_that_is_revoked_ends_the_chat_with_the_reason(guarded: RunningServer, tmp_path: Path) -> None:
    key_id, key = await key_of_alice(guarded)
    env = environment(tmp_path, AVM_URL=guarded.url, AVM_KEY=key)
    async with at_terminal("chat", env=env) as keyboard:
        await keyboard.see(ASKING)
        await guarded.server.vm.tenancy.access.revoke(DEFAULT_TENANT, key_id)
        await keyboard.see("Connection closed")
        # The terminal is given back to the line editor with the prompt.
        await keyboard.see(ASKING)
        keyboard.press("hello?\r")
        await keyboard.see("Error: The server no longer accepts these credentials")
        assert await keyboard.wait() == 4


async def test_a_key_for_containers_by_pattern_has_to_say_which(guarded: RunningServer, tmp_path: Path) -> None:
    _, key = await guarded.server.vm.tenancy.access.issue(
        DEFAULT_TENANT, name="team", granter=OPERATOR, permissions=MEMBER, containers=("team-*",)
    )
    env = environment(tmp_path, AVM_URL=guarded.url, AVM_KEY=key.reveal())
    done = await anyio.to_thread.run_sync(lambda: run_avm("chat", env=env, given="hello"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "--container" in done.stderr
    done = await anyio.to_thread.run_sync(lambda: run_avm("chat", "--container", "team-a", env=env, given="hello"))
    assert (done.returncode, done.stdout) == (0, "hello\n")
    refused = await anyio.to_thread.run_sync(lambda: run_avm("chat", "--container", "other", env=env, given="hello"))
    assert (refused.returncode, refused.stderr) == (4, "Error: No access to container other; use a key of one of its users\n")
