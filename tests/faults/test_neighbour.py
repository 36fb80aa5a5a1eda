"""F27, a noisy neighbour: one tenant that reads, writes, attaches and is refused as much as it can keeps no other waiting.

Nothing here is measured by the clock: the noise is held in the middle of what it does, and the neighbour must get through.
`bench/neighbour.py` has the times.
"""

import json
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from tests.conformance.attachments import digest_of
from tests.operations.fixtures import Desk

from agentvm.app import open_agentvm
from agentvm.config import ServerConfig, SessionSettings, SystemSettings
from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import Pause, ScriptedDriver, ScriptStep, echo, reply
from agentvm.model.account import Tenant
from agentvm.model.attachment import reference_to
from agentvm.model.ids import ContainerId, TenantId
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.observability.log_filter import LogFilter, log_scope
from agentvm.observability.log_limit import REFUSED_RATE
from agentvm.operations.dispatch import answer
from agentvm.operations.table import CODEC
from agentvm.protocol.connection import CommandReceived, PeerConnection
from agentvm.runtime import attached
from agentvm.storage.attachments import Upload
from agentvm.storage.engines.lane import BATCH_SECONDS
from agentvm.storage.sql import rows, session_write
from agentvm.storage.sql import sessions as session_store
from agentvm.storage.sql.sessions import index, pending
from agentvm.vm import AgentVM

NOISY, QUIET = TenantId("tnt_noisy"), TenantId("tnt_quiet")


class Held:
    """Holds the noisy tenant's threads inside a function of the store until it is let go."""

    def __init__(self, inner: Any, whose: Any) -> None:
        self._inner, self._whose = inner, whose
        self.inside = 0
        self._go = threading.Event()

    def __call__(self, *args: Any, **about: Any) -> Any:
        if self._whose(*args):
            self.inside += 1
            assert self._go.wait(20)
        return self._inner(*args, **about)

    def let_go(self) -> None:
        self._go.set()

    async def wait_inside(self, count: int = 1) -> None:
        while self.inside < count:
            await checkpoint()


@contextmanager
def holding(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, whose: Any) -> Iterator[Held]:
    held = Held(getattr(module, name), whose)
    monkeypatch.setattr(module, name, held)
    try:
        yield held
    finally:
        held.let_go()


@asynccontextmanager
async def both(tmp_path: Path, driver: ScriptedDriver | None = None) -> AsyncIterator[tuple[Desk, Desk]]:
    config = ServerConfig(system=SystemSettings(data_dir=str(tmp_path)), sessions=SessionSettings(titles="off"))
    with anyio.fail_after(200):
        async with open_agentvm(config, drivers={"scripted": driver or ScriptedDriver()}) as vm:
            for tenant_id in (NOISY, QUIET):
                tenant = Tenant(tenant_id=tenant_id, slug=tenant_id, name="T", created_at=1, updated_at=1)
                await vm.tenancy.store.directory.add_tenant(tenant)
            yield desk(vm, NOISY), desk(vm, QUIET)


def desk(vm: AgentVM, tenant_id: TenantId) -> Desk:
    return Desk(vm, vm.attach(Principal(tenant_id=tenant_id, permissions=EVERYTHING)))


async def noise(noisy: Desk, command: str, **data: object) -> None:
    """On a socket of its own, for as long as it is held."""
    received = PeerConnection("c", CODEC).receive(
        json.dumps({"type": f"{command}_request", "data": {**data, "requestId": "r"}})
    )
    assert isinstance(received, CommandReceived)
    await answer(noisy.vm.attach(noisy.peer.principal), received.request, received.request_id)


async def goes_about_its_business(quiet: Desk) -> None:
    """Reads, lists, searches and writes, and is answered."""
    made = await quiet.create_image()
    assert "errorCode" not in await quiet.ask("message_send", imageId=made["imageId"], content="hello there")
    await quiet.hear("turn_response")
    assert len((await quiet.ask("image_messages", imageId=made["imageId"]))["messages"]) == 2
    assert (await quiet.ask("session_browse"))["total"] == 1
    found = await quiet.ask("session_search", q="there")
    assert found["total"] == 2
    quiet.forget()


async def test_f27_searches_that_never_end_keep_no_other_tenant_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with both(tmp_path) as (noisy, quiet):
        await noisy.create_image()
        with holding(monkeypatch, session_store, "search_messages", lambda connection, tenant, *_: tenant == NOISY) as held:
            async with anyio.create_task_group() as tasks:
                for _ in range(8):
                    tasks.start_soon(lambda: noise(noisy, "session_search", q="the"))
                await held.wait_inside()
                await goes_about_its_business(quiet)
                # Its own small reads get through too, and one search at a time holds a thread.
                assert "records" in await noisy.ask("image_list", containerId="c1")
                assert held.inside == 1
                held.let_go()


async def test_f27_histories_that_take_long_keep_no_other_tenant_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with both(tmp_path) as (noisy, quiet):
        made = await noisy.create_image()
        with holding(monkeypatch, rows, "read_recent_messages", lambda connection, key, *_: key[0] == NOISY) as held:
            async with anyio.create_task_group() as tasks:
                for _ in range(8):
                    tasks.start_soon(lambda: noise(noisy, "image_messages", imageId=made["imageId"]))
                await held.wait_inside(2)
                await goes_about_its_business(quiet)
                assert held.inside == 2
                held.let_go()


async def test_f27_words_of_large_messages_are_not_cut_where_everybody_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with both(tmp_path, ScriptedDriver(lambda prompt: reply("there"))) as (noisy, quiet):
        made = await noisy.create_image()
        where: set[str] = set()
        cut = index.words_of

        def words_of(key: str, text: str) -> str:
            where.add(threading.current_thread().name)
            return cut(key, text)

        monkeypatch.setattr(pending, "words_of", words_of)
        monkeypatch.setattr(session_write, "words_of", words_of)
        await noisy.ask("message_send", imageId=made["imageId"], content="word " * 20_000)
        await noisy.hear("turn_response")
        assert where == set()
        assert (await noisy.ask("session_search", q="word"))["total"] == 1
        assert {name.split("-")[1] for name in where} == {"reader"}
        await goes_about_its_business(quiet)


async def test_f27_many_writes_of_one_tenant_are_not_before_one_of_another(tmp_path: Path) -> None:
    """The order of batches is that of `tests/storage/engines/sqlite/test_lane.py`; here, turns and commands go this way."""
    assert BATCH_SECONDS <= 0.05
    async with both(tmp_path) as (noisy, _):
        store = noisy.vm.tenancy.store.tenant(NOISY)
        waits, go = threading.Event(), threading.Event()

        def block(connection: Any) -> None:
            waits.set()
            assert go.wait(20)

        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(store._database.write, block)
                while not waits.is_set():
                    await checkpoint()
                done: list[str] = []

                async def write(name: str, tenant_id: TenantId, number: int) -> None:
                    own = noisy.vm.tenancy.store.tenant(tenant_id).container(ContainerId(f"c{number}"))
                    await own.create(1)
                    done.append(name)

                for number in range(500):
                    tasks.start_soon(write, "noisy", NOISY, number)
                await anyio.wait_all_tasks_blocked()
                tasks.start_soon(write, "quiet", QUIET, 0)
                await anyio.wait_all_tasks_blocked()
                go.set()
        finally:
            go.set()
        # Delivered with its batch; without turns it would have been the last.
        assert done.index("quiet") < 500
        assert len(done) == 501


async def test_f27_files_of_one_tenant_leave_room_for_anothers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large, small = b"x" * 1_000, b"y" * 10
    monkeypatch.setattr(attached, "PROMPTS_MAX_BYTES", 4 * len(large))
    go = anyio.Event()

    def slowly(prompt: Prompt) -> list[ScriptStep]:
        noisy = "noisy" in str(prompt.conversation)
        return [*([Pause(go)] if noisy else []), *echo(prompt)]

    async with both(tmp_path, ScriptedDriver(slowly)) as (noisy, quiet):
        for who, body in ((noisy, large), (quiet, small)):
            await who.create_image()
            files = noisy.vm.tenancy.store.tenant(who.peer.tenant_id).container(ContainerId("c1")).attachments
            await files.add(BytesIO(body), Upload(media_type="image/png"), noisy.vm.clock())
        for _ in range(6):
            made = await noisy.create_image()
            parts = [{"type": "text", "text": "noisy"}, picture(large)]
            assert "errorCode" not in await noisy.ask("message_send", imageId=made["imageId"], content=parts)
        made = await quiet.create_image()
        await quiet.ask("message_send", imageId=made["imageId"], content=[picture(small)])
        await quiet.hear("turn_response")
        go.set()
        await noisy.hear("turn_response", times=6)


def picture(body: bytes) -> dict[str, str]:
    return {"type": "image", "data": reference_to(digest_of(body)), "mediaType": "image/png", "name": "a.png"}


async def test_f27_refused_commands_of_one_tenant_leave_the_log_to_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "agentvm")
    async with both(tmp_path) as (noisy, quiet):
        await quiet.ask("image_messages", imageId="absent")
        await noisy.limit("requests_per_minute", 50)
        for _ in range(2_000):
            assert "errorCode" in await noisy.ask("image_messages", imageId="absent")
            noisy.forget()
        book = noisy.vm.logs
        whole = log_scope(Principal(tenant_id=TenantId("default"), permissions=EVERYTHING), None)
        found = await book.find(LogFilter(event="command_refused"), whole, limit=1_000)
        counts = [sum(entry.tenant_id == tenant_id for entry in found.entries) for tenant_id in (NOISY, QUIET)]
        assert 0 < counts[0] <= REFUSED_RATE.burst + 60
        assert counts[1] == 1
