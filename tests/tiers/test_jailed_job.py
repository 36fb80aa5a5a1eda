"""Jobs that want more than their share: only the job itself fails, and says how."""

import os
import time

import anyio
import msgspec
import pytest
from tests.tiers.processes import descendants, out_of_memory_order, until

from agentvm.model.tier import Job, JobLimits, KnownAnswer
from agentvm.tiers import frames
from agentvm.tiers.frames import Asking, Value, encode
from agentvm.tiers.jailed_job import OPEN_CALLS_MAX
from agentvm.tiers.process import ProcessTier

MEGABYTE = 1024 * 1024
DEEP = b"[" * 50_000 + b"]" * 50_000


async def still_works(tier: ProcessTier) -> None:
    assert (await tier.run(Job(engine="python", code="1 + 1"))).value == 2
    assert descendants(tier.launcher_process_id) == []


async def test_a_job_is_killed_at_its_deadline_with_all_it_started(any_tier: ProcessTier) -> None:
    code = "(while :; do :; done) & setsid sh -c 'while :; do :; done' & while :; do :; done"
    began = time.monotonic()
    result = await any_tier.run(Job(engine="shell", code=code, limits=JobLimits(wall_ms=300)))
    assert (result.timed_out, result.signal, result.exit_code) == (True, "SIGKILL", None)
    assert time.monotonic() - began < 60
    await still_works(any_tier)


async def test_a_job_that_is_done_takes_its_background_with_it(any_tier: ProcessTier) -> None:
    result = await any_tier.run(Job(engine="shell", code="sleep 1000 & setsid sleep 1000 & echo done"))
    assert (result.stdout, result.exit_code) == (b"done\n", 0)
    await still_works(any_tier)


async def test_a_fork_bomb_stops_at_the_number_of_processes(any_tier: ProcessTier) -> None:
    code = """
import os, time
count = 0
try:
    while count < 300:
        if os.fork() == 0:
            time.sleep(1000)
            os._exit(0)
        count += 1
except OSError as error:
    print(error)
count
"""
    result = await any_tier.run(Job(engine="python", code=code, limits=JobLimits(processes=12)))
    assert result.value is not None
    # Without a uid or a user namespace all processes of the user count, and each that ends makes room.
    most = 12 if {"uid", "user"} & (await any_tier.offer()).walls else 40
    assert 5 <= int(str(result.value)) <= most
    await still_works(any_tier)


async def test_a_bomb_that_never_waits_ends_with_its_time(any_tier: ProcessTier) -> None:
    code = "bomb() { bomb | bomb & }; bomb; while :; do bomb; done"
    result = await any_tier.run(Job(engine="shell", code=code, limits=JobLimits(wall_ms=500, processes=16)))
    assert result.exit_code != 0
    await still_works(any_tier)


async def test_memory_beyond_the_limit_is_refused(any_tier: ProcessTier) -> None:
    code = "x = bytearray(200 * 1024 * 1024)"
    result = await any_tier.run(Job(engine="python", code=code, limits=JobLimits(memory_bytes=100 * MEGABYTE)))
    assert (result.exit_code, result.oom) == (1, True)
    assert b"MemoryError" in result.stderr
    result = await any_tier.run(Job(engine="python", code="len(bytearray(50 * 1024 * 1024))"))
    assert result.value == 50 * MEGABYTE


async def test_shared_memory_counts_as_well(any_tier: ProcessTier) -> None:
    code = "import mmap\nmmap.mmap(-1, 400 * 1024 * 1024)"
    result = await any_tier.run(Job(engine="python", code=code, limits=JobLimits(memory_bytes=100 * MEGABYTE)))
    assert result.exit_code == 1


async def test_javascript_cannot_take_more_memory_than_it_may(tier: ProcessTier) -> None:
    if "javascript" not in (await tier.offer()).engines:
        pytest.skip("node is not installed where jails see it")
    code = "export default function run() { const kept = []; for (;;) kept.push(Buffer.alloc(1 << 20, 1)); }"
    limits = JobLimits(memory_bytes=200 * MEGABYTE, disk_bytes=MEGABYTE, wall_ms=60_000)
    result = await tier.run(Job(engine="javascript", code=code, limits=limits))
    assert result.exit_code != 0
    assert not result.timed_out
    assert result.usage.max_rss_bytes < 400 * MEGABYTE
    assert result.oom == ("cgroup" in (await tier.offer()).walls)


async def test_the_disk_is_as_large_as_it_may_be(tier: ProcessTier) -> None:
    code = """
import os
written = 0
try:
    while True:
        with open(f"file{written}", "wb") as file:
            file.write(bytes(100_000))
        written += 1
except OSError as error:
    reason = error.strerror
[written, reason]
"""
    result = await tier.run(Job(engine="python", code=code, limits=JobLimits(disk_bytes=1_000_000)))
    assert isinstance(result.value, list)
    assert 8 <= result.value[0] <= 10
    assert result.value[1] == "No space left on device"
    await still_works(tier)


async def test_files_are_as_many_as_they_may_be(tier: ProcessTier) -> None:
    code = """
count = 0
try:
    while True:
        open(f"f{count}", "w").close()
        count += 1
except OSError:
    pass
count
"""
    result = await tier.run(Job(engine="python", code=code, limits=JobLimits(files=50)))
    assert 40 <= int(str(result.value)) <= 50
    assert len(result.files) == result.value


async def test_one_file_is_no_larger_than_the_disk_even_in_a_folder(any_tier: ProcessTier) -> None:
    code = "with open('big', 'wb') as file:\n    for _ in range(100):\n        file.write(bytes(100_000))"
    result = await any_tier.run(Job(engine="python", code=code, limits=JobLimits(disk_bytes=500_000)))
    assert not result.succeeded
    assert sum(map(len, result.files.values())) <= 500_000


async def test_a_gigabyte_of_output_is_cut_and_the_program_killed(any_tier: ProcessTier) -> None:
    result = await any_tier.run(
        Job(engine="shell", code="head -c 1000000000 /dev/zero", limits=JobLimits(output_bytes=100_000))
    )
    assert (result.truncated, len(result.stdout), result.signal) == (True, 100_000, "SIGKILL")
    assert not result.timed_out
    both = "import os\nwhile True:\n    os.write(1, b'o' * 1000)\n    os.write(2, b'e' * 1000)"
    result = await any_tier.run(Job(engine="python", code=both, limits=JobLimits(output_bytes=50_000)))
    assert (result.truncated, result.timed_out) == (True, False)
    assert len(result.stdout) + len(result.stderr) == 50_000


@pytest.mark.parametrize(
    ("engine", "code"),
    [("python", "def run():\n    return 'x' * 5_000_000"), ("javascript", "export default () => 'x'.repeat(5_000_000)")],
)
async def test_a_value_that_is_too_large_is_an_error_of_its_program(tier: ProcessTier, engine: str, code: str) -> None:
    result = await tier.run(Job(engine=engine, code=code))
    assert (result.exit_code, result.timed_out, result.value) == (1, False, None)
    assert b"more than 4,193,280 bytes" in result.stderr


async def test_output_of_exactly_the_limit_is_whole(tier: ProcessTier) -> None:
    result = await tier.run(Job(engine="shell", code="head -c 50000 /dev/zero", limits=JobLimits(output_bytes=50_000)))
    assert (result.truncated, len(result.stdout), result.exit_code) == (False, 50_000, 0)


async def test_a_processor_is_used_only_so_long(any_tier: ProcessTier) -> None:
    result = await any_tier.run(Job(engine="python", code="while True: pass", limits=JobLimits(cpu_seconds=1, wall_ms=600_000)))
    assert result.signal in ("SIGXCPU", "SIGKILL")
    assert not result.timed_out
    assert 500 <= result.usage.cpu_ms <= 2_500


async def test_a_payload_that_speaks_nonsense_on_its_line_harms_only_itself(tier: ProcessTier) -> None:
    code = """
import os, stat
for number in range(3, 100):
    try:
        if stat.S_ISSOCK(os.fstat(number).st_mode):
            os.write(number, {data!r})
    except OSError:
        pass
print("said")
"""
    for data in (b"\0\0\0\5hello", b"\xff" * 100, b"\0\0\0\4", b"\0\0\0\1\xc0", b"\0\0\0\x0b\x94\xa5Value\xc4\x01x\xc2\xc0"):
        result = await tier.run(Job(engine="python", code=code.format(data=data), limits=JobLimits(wall_ms=5_000)))
        assert result.stdout == b"said\n"
    await still_works(tier)


@pytest.mark.parametrize("message", [Value(value=DEEP), Asking(id=1, name="ask", args=b'{"a":' + DEEP + b"}")])
async def test_json_that_is_nested_without_end_harms_only_its_payload(tier: ProcessTier, message: Value | Asking) -> None:
    async def calls(name: str, args: dict[str, object]) -> object:
        raise AssertionError

    code = f"""
import os, socket, stat
number = next(n for n in range(3, 100) if os.path.exists(f"/proc/self/fd/{{n}}") and stat.S_ISSOCK(os.fstat(n).st_mode))
line = socket.socket(fileno=number)
line.sendall({encode(message)!r})
if {isinstance(message, Asking)}:
    print(b"recursion" in line.recv(1000))
os._exit(0)
"""
    result = await tier.run(Job(engine="python", code=code, functions={"ask": ()}), calls)
    assert (result.exit_code, result.value) == (0, None)
    assert result.stdout == (b"True\n" if isinstance(message, Asking) else b"")
    await still_works(tier)


async def test_a_payload_that_asks_and_does_not_listen_is_ended_by_its_time(tier: ProcessTier) -> None:
    async def calls(name: str, args: dict[str, object]) -> object:
        return "x" * 8_000_000

    code = """
import os, stat, sys, threading, time
line = next(n for n in range(3, 100) if os.path.exists(f"/proc/self/fd/{n}") and stat.S_ISSOCK(os.fstat(n).st_mode))
threading.Thread(target=tools.ask, daemon=True).start()
time.sleep(0.05)
os.close(line)
time.sleep(1000)
"""
    result = await tier.run(Job(engine="python", code=code, functions={"ask": ()}, limits=JobLimits(wall_ms=700)), calls)
    assert result.timed_out
    await still_works(tier)


async def test_a_job_steps_back_behind_the_server(any_tier: ProcessTier) -> None:
    async with any_tier.open(Job(engine="python", code="import time\nprint('begun', flush=True)\ntime.sleep(60)")) as process:
        assert await process.receive() == b"begun\n"
        *_, program = descendants(any_tier.launcher_process_id)
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert os.getpriority(os.PRIO_PROCESS, program) == min(19, own + 10)
        assert out_of_memory_order(program) == 1000


async def test_usage_is_that_of_the_whole_job(tier: ProcessTier) -> None:
    code = """
import os, time
if os.fork() == 0:
    while time.process_time() < 0.3:
        pass
    os._exit(0)
os.wait()
"""
    result = await tier.run(Job(engine="python", code=code))
    assert result.usage.cpu_ms >= 250
    assert result.usage.max_rss_bytes > MEGABYTE
    assert result.duration_ms >= 250


async def test_calls_of_the_server_are_many_and_each_is_answered_in_turn(tier: ProcessTier) -> None:
    async def calls(name: str, args: dict[str, object]) -> object:
        return int(str(args["n"])) + 1

    code = "n = 0\nfor _ in range(1000):\n    n = tools.add(n=n)\nn"
    result = await tier.run(Job(engine="python", code=code, functions={"add": ()}, limits=JobLimits(calls=1000)), calls)
    assert result.value == 1000, result.stderr


async def test_code_that_is_run_again_does_not_wait_for_answers_that_it_has_had(tier: ProcessTier) -> None:
    heard: list[object] = []
    ended, one_at_a_time = anyio.Event(), anyio.Lock()

    async def calls(name: str, args: dict[str, object]) -> object:
        async with one_at_a_time:
            # Nobody waits for the answer, but the job is not over before the call was looked at.
            await ended.wait()
            heard.append(args["n"])
            return "live"

    code = """
def ask(n):
    try:
        return tools.ask(n)
    except ToolError as error:
        return str(error)
print([ask(n) for n in range(40)], flush=True)
"""
    known = (KnownAnswer(value=b'{"a":1}'), KnownAnswer(error="denied"), *(KnownAnswer(value=b"3") for _ in range(38)))
    job = Job(engine="python", code=code, functions={"ask": ("n",)}, known=known)

    async def release() -> None:
        await until(lambda: descendants(tier.launcher_process_id) == [])
        assert heard == []
        ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(release)
        result = await tier.run(job, calls)
    assert result.stdout.decode() == f"{[{'a': 1}, 'denied', *[3] * 38]}\n", result.stderr
    assert heard == list(range(40))
    later = msgspec.structs.replace(
        job, code="[tools.ask(1), tools.ask(2), tools.ask('new')]", known=(KnownAnswer(), KnownAnswer())
    )
    assert (await tier.run(later, calls)).value == [None, None, "live"]
    assert heard[40:] == [1, 2, "new"]


async def test_a_cancelled_job_cancels_the_call_that_it_waits_for(any_tier: ProcessTier) -> None:
    begun, ended = anyio.Event(), []

    async def calls(name: str, args: dict[str, object]) -> object:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(name)
        return None

    job = Job(engine="python", code="tools.wait()", functions={"wait": ()}, limits=JobLimits(wall_ms=60_000))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(any_tier.run, job, calls)
        await begun.wait()
        tasks.cancel_scope.cancel()
    assert ended == ["wait"]
    await still_works(any_tier)


async def test_a_call_that_waits_longer_than_the_job_may_is_cancelled_with_it(tier: ProcessTier) -> None:
    ended = []

    async def calls(name: str, args: dict[str, object]) -> object:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(name)
        return None

    job = Job(engine="python", code="tools.wait()", functions={"wait": ()}, limits=JobLimits(wall_ms=300))
    assert (await tier.run(job, calls)).timed_out
    assert ended == ["wait"]


async def test_an_error_of_the_server_in_a_call_ends_the_job_and_is_raised_as_it_is(tier: ProcessTier) -> None:
    class Parked(Exception):
        pass

    async def calls(name: str, args: dict[str, object]) -> object:
        raise Parked

    with pytest.raises(Parked):
        await tier.run(Job(engine="python", code="tools.wait()\nprint('never')", functions={"wait": ()}), calls)
    await still_works(tier)


async def test_a_flood_of_calls_is_read_no_faster_than_it_is_answered(
    tier: ProcessTier, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = answered = most = 0
    plain = frames.decode

    def decode(body: bytes) -> object:
        nonlocal read
        message = plain(body)
        read += isinstance(message, Asking)
        return message

    async def calls(name: str, args: dict[str, object]) -> object:
        nonlocal answered, most
        await anyio.sleep(0.001)
        most = max(most, read - answered)
        answered += 1
        return None

    monkeypatch.setattr(frames, "decode", decode)
    code = """
import os, stat, struct
line = next(n for n in range(3, 100) if os.path.exists(f"/proc/self/fd/{n}") and stat.S_ISSOCK(os.fstat(n).st_mode))
def frame(number):
    body = b"\\x94\\xa6Asking" + b"\\xcd" + struct.pack("!H", number) + b"\\xa1f" + b"\\xc4\\x02{}"
    return struct.pack("!I", len(body)) + body
data = b"".join(frame(number) for number in range(300))
while data:
    data = data[os.write(line, data):]
answers = b""
while answers.count(b"HostAnswer") < 300:
    answers += os.read(line, 65536)
[answers.count(b"HostAnswer"), answers.count(b"more than 200 calls")]
"""
    result = await tier.run(Job(engine="python", code=code, functions={"f": ()}, limits=JobLimits(wall_ms=20_000)), calls)
    assert result.value == [300, 100], result.stderr
    assert most == OPEN_CALLS_MAX
