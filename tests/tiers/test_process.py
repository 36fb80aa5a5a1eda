import os

import anyio
import msgspec
import pytest
from tests.tiers.conftest import MODES, settings_of
from tests.tiers.processes import counts, descendants, is_alive, resident_bytes, until, until_running

from agentvm.errors import ToolFailed
from agentvm.errors.tool import TierUnavailable, WorkspaceFull
from agentvm.model.tier import Job, JobLimits
from agentvm.tiers.base import Tier
from agentvm.tiers.launcher_host import LauncherSettings
from agentvm.tiers.process import ProcessTier, open_process_tier

JOBS = int(os.environ.get("AVM_TEST_JAILS", "200"))
SLEEP = Job(engine="command", argv=("sleep", "1000"), limits=JobLimits(wall_ms=1_000_000))


def test_the_process_tier_is_a_tier(tier: ProcessTier) -> None:
    port: Tier = tier
    assert port.name == "process"


async def test_the_first_need_starts_the_launcher_and_idleness_ends_it() -> None:
    async with open_process_tier(LauncherSettings(idle_seconds=0.05)) as tier:
        assert tier.launcher_process_id is None
        await tier.run(Job(engine="python", code="1"))
        await until(lambda: tier.launcher_process_id is None)
        assert (await tier.run(Job(engine="python", code="2"))).value == 2


@pytest.mark.parametrize("mode", MODES)
async def test_a_server_that_keeps_its_files_to_itself_can_run_jobs(mode: str) -> None:
    before = os.umask(0o077)  # as `avm serve` does
    try:
        async with open_process_tier(settings_of(mode)) as tier:
            if (await tier.offer()).missing:
                pytest.skip(f"this host does not have the mode {mode}")
            paths = ("/dev/null", "mine", "/etc/hosts") if mode.startswith("namespaces") else ("/dev/null", "mine")
            code = f"for path in {paths}:\n    open(path).read()"
            result = await tier.run(Job(engine="python", code=code, files={"mine": b"x"}))
            assert (result.exit_code, result.stderr) == (0, b"")
    finally:
        os.umask(before)


async def test_leaving_the_tier_ends_the_launcher() -> None:
    async with open_process_tier() as tier:
        await tier.run(Job(engine="python", code="1"))
        launcher = tier.launcher_process_id
        assert launcher is not None
    assert not is_alive(launcher)


async def test_attachments_can_be_read_and_not_changed_in_every_mode(any_tier: ProcessTier) -> None:
    code = (
        "import os\nfolder = os.environ['AVM_IN']\nheld = open(folder + '/notes.txt').read()\nfailed = 0\n"
        "for name in ('notes.txt', 'more'):\n"
        "    try:\n        open(f'{folder}/{name}', 'a')\n    except OSError:\n        failed += 1\n"
        "for change in (lambda: os.chmod(folder + '/notes.txt', 0o777), lambda: os.remove(folder + '/notes.txt')):\n"
        "    try:\n        change()\n        open(folder + '/notes.txt', 'a')\n    except OSError:\n        failed += 1\n"
        "[held, os.listdir(folder), failed]"
    )
    result = await any_tier.run(Job(engine="python", code=code, inputs={"notes.txt": b"hello"}))
    assert (result.value, result.files) == (["hello", ["notes.txt"], 4], {}), result.stderr
    assert (await any_tier.run(Job(engine="python", code="import os\n'AVM_IN' in os.environ"))).value is False


async def test_files_of_skills_can_be_run_and_not_changed_in_every_mode(any_tier: ProcessTier) -> None:
    skills = {"pdf/SKILL.md": b"Do it.", "pdf/scripts/fields.sh": b"echo fields $1"}
    code = (
        'cd "$AVM_SKILLS/pdf" && sh scripts/fields.sh 7; cat SKILL.md; ls "$AVM_SKILLS" scripts\n'
        "for file in SKILL.md scripts/fields.sh more scripts/more; do ( echo x > $file ) 2> /dev/null || echo kept; done\n"
        "rm -f scripts/fields.sh 2> /dev/null; sh scripts/fields.sh 8"
    )
    result = await any_tier.run(Job(engine="shell", code=code, skills=skills))
    listed = result.stdout.decode().split("\n")
    assert (listed[0], listed[1].startswith("Do it."), listed.count("kept"), listed[-2]) == ("fields 7", True, 4, "fields 8")
    assert result.files == {}
    assert (await any_tier.run(Job(engine="python", code="import os\n'AVM_SKILLS' in os.environ"))).value is False


async def test_a_cancelled_job_is_dead_and_reaped_when_the_call_returns(any_tier: ProcessTier) -> None:
    code = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        pass\ntime.sleep(1000)"
    job = Job(engine="python", code=code, limits=JobLimits(wall_ms=1_000_000))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(any_tier.run, job)
        await until_running(any_tier, 3)
        tasks.cancel_scope.cancel()
    assert descendants(any_tier.launcher_process_id) == []


async def test_files_come_back_byte_for_byte_and_only_those_that_changed(any_tier: ProcessTier) -> None:
    files = {
        "same.bin": bytes(range(256)),
        "changed.txt": b"EOF\n'EOF'\n$(id)\n",
        "gone.txt": b"",
        "dir/$(touch x)\nline `id`": b"\0\xff",
        "run.sh": b"#!/bin/sh\nprintf ok > 'made by $(it)'\n",
    }
    code = """
import os
assert open("dir/$(touch x)\\nline `id`", "rb").read() == b"\\0\\xff"
with open("changed.txt", "ab") as file:
    file.write(b"more\\0")
os.remove("gone.txt")
os.makedirs("a/b")
open("a/b/new", "wb").write(b"\\r\\n")
os.chmod("a/b/new", 0o755)
os.execv("./run.sh", ["./run.sh"])
"""
    result = await any_tier.run(Job(engine="python", code=code, files=files, executable=frozenset({"run.sh"})))
    assert result.exit_code == 0, result.stderr
    assert result.files == {
        "changed.txt": files["changed.txt"] + b"more\0",
        "a/b/new": b"\r\n",
        "made by $(it)": b"ok",
    }
    assert result.deleted == ("gone.txt",)
    assert result.executable == {"a/b/new"}


async def test_links_and_pipes_are_left_behind(any_tier: ProcessTier) -> None:
    code = """
import os
os.symlink("/etc/passwd", "link")
os.symlink("/", "root")
os.mkfifo("pipe")
open("kept", "w").write("k")
os.link("kept", "second")
"""
    result = await any_tier.run(Job(engine="python", code=code))
    assert result.exit_code == 0, result.stderr
    assert (set(result.files), result.left_out) == ({"kept", "second"}, 3)


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a//b", "a/./b", "", "a/../../b", "x\0y"])
async def test_a_path_that_climbs_is_refused_before_anything_runs(tier: ProcessTier, path: str) -> None:
    with pytest.raises(ToolFailed, match="files") as failed:
        await tier.run(Job(engine="python", code="1", files={path: b""}))
    # It is the job's fault: others go on using the tier.
    assert not isinstance(failed.value, TierUnavailable)


@pytest.mark.parametrize("place", ["files", "inputs", "skills"])
@pytest.mark.parametrize("files", [{"x" * 256: b""}, {"a": b"", "a/b": b""}])
async def test_names_that_no_file_can_have_are_the_fault_of_their_job(
    any_tier: ProcessTier, place: str, files: dict[str, bytes]
) -> None:
    with pytest.raises(ToolFailed, match="files") as failed:
        await any_tier.run(msgspec.structs.replace(Job(engine="python", code="1"), **{place: files}))
    assert not isinstance(failed.value, TierUnavailable)


async def test_files_that_do_not_fit_are_an_error_of_their_own(tier: ProcessTier) -> None:
    with pytest.raises(WorkspaceFull):
        await tier.run(Job(engine="python", code="1", files={"a": b"x" * 200_000}, limits=JobLimits(disk_bytes=100_000)))


async def test_a_process_that_lives_on_is_talked_to(any_tier: ProcessTier) -> None:
    code = "import sys\nfor line in sys.stdin:\n    print(line.strip().upper(), flush=True)\n    print('seen', file=sys.stderr)"
    async with any_tier.open(Job(engine="python", code=code, limits=JobLimits(wall_ms=60_000))) as process:
        with anyio.fail_after(60):
            for word in (b"one", b"two"):
                await process.send(word + b"\n")
                assert await process.receive() == word.upper() + b"\n"
        await until(lambda: process.stderr_tail == "seen\nseen\n")
    assert descendants(any_tier.launcher_process_id) == []


async def test_leaving_a_process_kills_it_and_all_it_started(any_tier: ProcessTier) -> None:
    async with any_tier.open(Job(engine="shell", code="sleep 1000 & setsid sleep 1000 & echo up; wait")) as process:
        assert await process.receive() == b"up\n"
    assert descendants(any_tier.launcher_process_id) == []


async def test_a_flood_on_stdin_of_a_process_that_does_not_read_waits_and_can_be_cancelled(tier: ProcessTier) -> None:
    async with tier.open(SLEEP) as process:
        with anyio.move_on_after(1.0) as waiting:
            while True:
                await process.send(b"x" * 1_000_000)
        assert waiting.cancelled_caught
    assert descendants(tier.launcher_process_id) == []


async def test_an_engine_that_is_not_there_is_unavailable(tier: ProcessTier) -> None:
    with pytest.raises(TierUnavailable):
        await tier.run(Job(engine="cobol", code="x"))


async def test_a_network_without_namespaces_is_unavailable() -> None:
    async with open_process_tier(LauncherSettings(namespaces=False)) as tier:
        with pytest.raises(TierUnavailable):
            await tier.run(Job(engine="python", code="1", network=("example.org",)))


async def test_a_launcher_that_cannot_start_is_told_with_its_last_words() -> None:
    async with open_process_tier(LauncherSettings(command=("/bin/sh", "-c", "echo broken pipe dream >&2; exit 3"))) as tier:
        offer = await tier.offer()
        assert "status 3: broken pipe dream" in offer.missing
        with pytest.raises(TierUnavailable, match="dream"):
            await tier.run(Job(engine="python", code="1"))
    async with open_process_tier(LauncherSettings(command=("/nowhere/python",))) as tier:
        assert "cannot be started" in (await tier.offer()).missing


async def test_many_jobs_at_once_do_not_mix(any_tier: ProcessTier) -> None:
    values: dict[int, object] = {}

    async def run(number: int) -> None:
        job = Job(engine="python", code="import os\ndef run(n):\n    return [n, os.listdir()]", input={"n": number})
        values[number] = (await any_tier.run(job)).value

    async with anyio.create_task_group() as tasks:
        for number in range(30):
            tasks.start_soon(run, number)
    assert values == {number: [number, []] for number in range(30)}


async def test_descriptors_processes_and_mounts_stay_flat(tier: ProcessTier) -> None:
    job = Job(engine="python", code="1", files={"a": b"b"})
    for _ in range(20):
        await tier.run(job)
    before, memory = counts(tier.launcher_process_id), resident_bytes(tier.launcher_process_id)
    for _ in range(JOBS):
        await tier.run(job)
    assert counts(tier.launcher_process_id) == before
    assert descendants(tier.launcher_process_id) == []
    assert resident_bytes(tier.launcher_process_id) - memory < 1_000_000
