"""F22: backups at random moments of a busy server; each restores to a store in which everything holds."""

import random
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

import anyio
import anyio.to_thread
from tests.cli.program import environment, run_avm
from tests.faults.invariants import check_events, check_messages, check_texts
from tests.faults.process import open_server, read_log, read_messages
from tests.faults.server import text_of

from agentvm import AgentX, create_agentx, remote_runtime
from agentvm.protocol.link import WireEvent
from agentvm.storage.engines.sqlite.backup import BackupManifest, make_backup
from agentvm.storage.engines.sqlite.restore import restore_backup
from agentvm.vm import system_clock

SESSIONS, BACKUPS = 4, 3
BETWEEN = (20, 250)
"""Events that are heard between two backups."""


class Speaker:
    """Talks without end, and knows what it was told to be stored."""

    def __init__(self, agentx: AgentX, name: str) -> None:
        self._agentx, self._name = agentx, name
        self.session_id = self.image_id = ""
        self.acknowledged: dict[str, str] = {}

    async def begin(self) -> None:
        record = await self._agentx.images.create(container_id=self._name)
        self.session_id, self.image_id = str(record.session_id), record.image_id

    async def talk(self) -> None:
        agent = await self._agentx.images.run(self.image_id)
        for number in count():
            text = f"{'tool' if number % 2 else 'say'} {self._name} {number}"
            async for event in agent.stream(text):
                if "turnId" in event.context:
                    self.acknowledged[str(event.context["turnId"])] = text


@dataclass
class Taken:
    """A backup, with what every user knew to be stored when it was begun."""

    path: Path
    begun: int
    ended: int
    manifest: BackupManifest
    acknowledged: list[dict[str, str]]


class Keeper:
    """Takes backups in this process, beside the server's, after every so many events."""

    def __init__(self, data_dir: Path, folder: Path, users: list[Speaker]) -> None:
        self._data_dir, self._folder, self._users = data_dir, folder, users
        self._chance = random.Random(22)
        self._left = 0
        self._enough = anyio.Event()
        self.taken: list[Taken] = []

    def listen(self, event: WireEvent) -> None:
        self._left -= 1
        if self._left <= 0:
            self._enough.set()

    async def run(self) -> None:
        for number in range(BACKUPS):
            self._left, self._enough = self._chance.randint(*BETWEEN), anyio.Event()
            await self._enough.wait()
            known = [dict(user.acknowledged) for user in self._users]
            begun, target = system_clock(), self._folder / f"{number}.backup"
            made = await anyio.to_thread.run_sync(partial(make_backup, self._data_dir, target, clock=system_clock))
            self.taken.append(Taken(target, begun, system_clock(), made.manifest, known))


async def take_backups(tmp_path: Path) -> tuple[list[Speaker], list[Taken]]:
    data_dir = tmp_path / "data"
    async with open_server(data_dir) as server, create_agentx(remote_runtime(server.url)) as agentx:
        users = [Speaker(agentx, f"u{number}") for number in range(SESSIONS)]
        for user in users:
            await user.begin()
        keeper = Keeper(data_dir, tmp_path, users)
        agentx.runtime.on("*", keeper.listen)
        async with anyio.create_task_group() as talking:
            for user in users:
                talking.start_soon(user.talk)
            await keeper.run()
            talking.cancel_scope.cancel()
        return users, keeper.taken


async def test_f22_a_backup_of_any_moment_under_load_restores_to_a_consistent_store(tmp_path: Path) -> None:
    with anyio.fail_after(200):
        users, taken = await take_backups(tmp_path)
        resumed = 0
        for number, one in enumerate(taken):
            assert one.begun <= one.manifest.at <= one.ended
            restored = tmp_path / f"restored-{number}"
            await anyio.to_thread.run_sync(restore_backup, one.path, restored)
            async with open_server(restored) as server:
                for user, acknowledged in zip(users, one.acknowledged, strict=True):
                    events = await read_log(server.url, user.session_id)
                    messages = await read_messages(server.url, user.session_id)
                    check_events(events)
                    check_texts(events)
                    check_messages(events, messages)
                    resumed += sum(event["type"] == "turn_resumed" for event in events)
                    for turn_id, text in acknowledged.items():
                        own = [message for message in messages if message.get("turnId") == turn_id]
                        assert [message["content"] for message in own if message["role"] == "user"] == [text]
                        assert own[-1]["content"][-1]["text"] == text_of(text)
        # Some were taken in the middle of turns, which went on where the backup was restored.
        assert resumed > 0
        assert len(taken) == BACKUPS


async def test_the_command_backs_up_a_server_that_runs_and_refuses_to_restore_under_it(tmp_path: Path) -> None:
    data_dir, backup = tmp_path / "data", tmp_path / "b"
    env = environment(tmp_path)
    with anyio.fail_after(200):
        async with open_server(data_dir) as server, create_agentx(remote_runtime(server.url)) as agentx:
            user = Speaker(agentx, "u")
            await user.begin()
            agent = await agentx.images.run(user.image_id)
            async for event in agent.stream("say it"):
                if event.type == "message_start":
                    done = await anyio.to_thread.run_sync(
                        lambda: run_avm("backup", str(backup), "--data-dir", str(data_dir), env=env)
                    )
                    assert done.returncode == 0, done.stderr
            refused = await anyio.to_thread.run_sync(
                lambda: run_avm("restore", str(backup), "--force", "--data-dir", str(data_dir), env=env)
            )
            assert (refused.returncode, "in use by another AgentVM server" in refused.stderr) == (1, True)
        done = await anyio.to_thread.run_sync(
            lambda: run_avm("restore", str(backup), "--data-dir", str(tmp_path / "new"), env=env)
        )
        assert done.returncode == 0, done.stderr
        async with open_server(tmp_path / "new") as server:
            check_events(await read_log(server.url, user.session_id))
