"""Interpreters in jailed workers: what they run, what they lack, and that nothing of one job reaches the next."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from tests.tiers.conftest import settings_of

from agentvm.errors import ToolFailed
from agentvm.errors.tool import EngineLacking, TierUnavailable
from agentvm.model.tier import Job, JobLimits, JobResult, Need
from agentvm.tiers import isolate
from agentvm.tiers.isolate import IsolateTier, installed_engines, open_isolate_tier
from agentvm.tiers.process import ProcessTier
from agentvm.tiers.scheduler import Scheduler

ENGINES = ("python-subset", "shell-subset", "javascript")
installed = pytest.mark.skipif(
    installed_engines() != frozenset(ENGINES),
    reason="the interpreters are not installed, or lie below /tmp: pip install 'agentvm[isolate]'",
)


@pytest.fixture(scope="module")
async def interpreters(tier: ProcessTier) -> AsyncIterator[IsolateTier]:
    async with open_isolate_tier(tier, settings_of("namespaces")) as opened:
        yield opened


async def run(tier: IsolateTier, engine: str, code: str, **about: object) -> JobResult:
    with anyio.fail_after(60):
        return await tier.run(Job(engine=engine, code=code, owner=about.pop("owner", "a"), **about))  # type: ignore[arg-type]


@installed
async def test_each_engine_runs_a_program_with_its_input_files_and_output(interpreters: IsolateTier) -> None:
    files = {"in/x": b"\0\xff$(id)"}
    script = 'cat; echo; cat in/x > out; rm in/x; echo "$ARG_A"; echo oops >&2; exit 3'
    shell = await run(interpreters, "shell-subset", script, input={"a": "q r"}, files=files)
    assert (shell.exit_code, shell.stdout, shell.stderr) == (3, b'{"a":"q r"}\nq r\n', b"oops\n")
    assert (shell.files, shell.deleted) == ({"out": b"\0\xff$(id)"}, ("in/x",))
    code = "def run(a):\n    open('out', 'w').write(open('g').read() + a)\n    print('p')\n    return [a]"
    python = await run(interpreters, "python-subset", code, input={"a": "x"}, files={"g": b"g"})
    assert (python.exit_code, python.value, python.stdout, python.files) == (0, ["x"], b"p\n", {"out": b"gx"})
    own = await run(interpreters, "python-subset", "def run(a):\n    return a\nrun(3)", script=True)
    assert (own.exit_code, own.value) == (0, 3)
    assert (await run(interpreters, "shell-subset", "cat", input={})).stdout == b"{}"
    code = "export default async function run(input) { console.log('l', input); return await Promise.resolve(input.a + 1); }"
    script_result = await run(interpreters, "javascript", code, input={"a": 1})
    assert (script_result.value, script_result.stdout) == (2, b'l {"a":1}\n')


@installed
@pytest.mark.parametrize(
    ("engine", "code"),
    [
        ("python-subset", "import statistics"),
        ("python-subset", "def g():\n    yield 1"),
        ("shell-subset", "no-such-program"),
        ("shell-subset", "if then"),
        ("javascript", "import fs from 'fs'; export default 1"),
        ("javascript", "export default () => process.env.HOME"),
    ],
)
async def test_what_an_engine_lacks_is_an_error_of_its_own(interpreters: IsolateTier, engine: str, code: str) -> None:
    with pytest.raises(EngineLacking):
        await run(interpreters, engine, code)


@installed
@pytest.mark.parametrize(
    ("engine", "code"),
    [("python-subset", "open('f', 'w').write('x')\nimport statistics"), ("shell-subset", "echo x > f; no-such-program")],
)
async def test_a_program_that_wrote_a_file_fails_where_it_is(interpreters: IsolateTier, engine: str, code: str) -> None:
    result = await run(interpreters, engine, code)
    assert result.exit_code not in (0, None)
    assert list(result.files) == ["f"]


@installed
async def test_a_program_that_calls_tools_is_refused_before_it_begins(interpreters: IsolateTier) -> None:
    workers = interpreters.workers
    with pytest.raises(TierUnavailable, match="call no tools"):
        await run(interpreters, "python-subset", "tools.tell()", functions={"tell": ()}, owner="caller")
    assert interpreters.workers == workers
    assert not (await interpreters.offer()).calls


@installed
async def test_attachments_are_copies_in_their_own_folder_and_the_next_job_sees_none(interpreters: IsolateTier) -> None:
    inputs = {"notes.txt": b"hello"}
    shell = await run(interpreters, "shell-subset", 'cat /in/notes.txt; echo " $AVM_IN"; echo x > /in/more', inputs=inputs)
    assert (shell.stdout, shell.files, shell.deleted) == (b"hello /in\n", {}, ())
    assert (await run(interpreters, "shell-subset", "ls /in")).stdout == b""
    python = await run(interpreters, "python-subset", "open('/in/notes.txt').read()", inputs=inputs)
    assert (python.value, python.files) == ("hello", {})
    refused = await run(interpreters, "python-subset", "open('/in/notes.txt', 'w').write('x')", inputs=inputs)
    assert refused.exit_code == 1
    assert (await run(interpreters, "python-subset", "open('/in/notes.txt').read()")).exit_code == 1


@installed
async def test_an_interpreter_reads_files_of_skills_below_their_folder(interpreters: IsolateTier) -> None:
    skills = {"pdf/scripts/a.sh": b"echo hello"}
    shell = await run(interpreters, "shell-subset", "sh $AVM_SKILLS/pdf/scripts/a.sh; ls /in", skills=skills)
    assert (shell.stdout, shell.files) == (b"hello\n", {})
    python = await run(interpreters, "python-subset", "open('/skills/pdf/scripts/a.sh').read()", skills=skills)
    assert (python.value, python.files) == ("echo hello", {})
    refused = await run(interpreters, "python-subset", "open('/skills/pdf/scripts/a.sh', 'w').write('x')", skills=skills)
    assert refused.exit_code == 1


@installed
@pytest.mark.parametrize(
    ("engine", "code"),
    [("python-subset", "while True:\n    pass"), ("shell-subset", "while true; do :; done"), ("javascript", "for (;;);")],
)
async def test_a_program_without_an_end_is_killed_at_its_deadline(interpreters: IsolateTier, engine: str, code: str) -> None:
    result = await run(interpreters, engine, code, limits=JobLimits(wall_ms=500))
    assert (result.timed_out, result.signal, result.exit_code) == (True, "SIGKILL", None)
    # The next job finds a worker all the same.
    after = {"python-subset": "7", "shell-subset": "echo 7", "javascript": "export default () => 7"}[engine]
    result = await run(interpreters, engine, after)
    assert (result.value, result.stdout) in ((7, b""), (None, b"7\n"))


@installed
async def test_nothing_of_one_job_is_seen_by_the_next(interpreters: IsolateTier) -> None:
    await run(interpreters, "shell-subset", "export LEFT=1; f() { :; }; echo x > /tmp/y; echo z > w; cd /", env={"KEY": "k"})
    after = await run(interpreters, "shell-subset", 'echo "[$LEFT$KEY]"; type f; ls /tmp; ls; pwd')
    assert after.stdout.splitlines()[0] == b"[]"
    assert after.stdout.splitlines()[-1] == b"/workspace"
    assert b"y" not in after.stdout.splitlines()
    assert b"w" not in after.stdout.splitlines()
    await run(interpreters, "python-subset", "left = 1")
    assert b"NameError" in (await run(interpreters, "python-subset", "left")).stderr
    await run(interpreters, "javascript", "globalThis.left = 1")
    assert (await run(interpreters, "javascript", "export default () => typeof left")).value == "undefined"


@installed
async def test_two_tenants_never_share_a_worker_and_the_oldest_idle_one_makes_room(
    interpreters: IsolateTier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolate, "WORKERS_MAX", 2)
    await run(interpreters, "shell-subset", "true", owner="a")
    await run(interpreters, "shell-subset", "true", owner="b")
    assert {worker.owner for worker in interpreters.workers} >= {"a", "b"}
    first = interpreters.workers
    await run(interpreters, "shell-subset", "true", owner="b")
    assert interpreters.workers == first
    await run(interpreters, "shell-subset", "true", owner="c")
    assert [worker.owner for worker in interpreters.workers] == ["b", "c"]


@installed
async def test_an_idle_worker_dies(tier: ProcessTier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolate, "IDLE_SECONDS", 0.05)
    async with open_isolate_tier(tier, settings_of("namespaces")) as opened:
        await run(opened, "shell-subset", "true")
        (worker,) = opened.workers
        with anyio.fail_after(60):
            await worker.gone.wait()
        assert opened.workers == ()


@installed
async def test_a_cancelled_job_is_killed_before_it_returns(interpreters: IsolateTier) -> None:
    with anyio.move_on_after(0.5) as scope:
        await run(interpreters, "shell-subset", "while true; do :; done", owner="cancelled")
    assert scope.cancelled_caught
    assert "cancelled" not in {worker.owner for worker in interpreters.workers}


@installed
async def test_code_in_an_interpreter_reads_nothing_of_the_machine(interpreters: IsolateTier) -> None:
    shell = await run(interpreters, "shell-subset", "cat /etc/passwd /proc/self/environ 2>&1; ls /usr/bin | head -3; id")
    assert str(Path.home()).encode() not in shell.stdout
    python = await run(interpreters, "python-subset", "open('/etc/passwd').read()")
    assert b"PermissionError" in python.stderr


@installed
async def test_a_subset_that_lacks_something_moves_to_the_whole_engine(tier: ProcessTier, interpreters: IsolateTier) -> None:
    scheduler = Scheduler([interpreters, tier], slots={}, clock=lambda: 0)
    need, job = Need(engine="python-subset"), Job(engine="python-subset", code="import statistics\nstatistics.mean([1, 3])")
    placed, result = await scheduler.run(need, job, tenant="a")
    assert (placed.tier, placed.escalated_from, result.value) == ("process", "isolate", 2)
    assert dict(placed.why)["isolate"].startswith("left: ModuleNotFoundError")
    placed, result = await scheduler.run(need, Job(engine="python-subset", code="1 + 1"), tenant="a")
    assert (placed.tier, placed.escalated_from, result.value) == ("isolate", None, 2)


async def test_without_the_packages_the_tier_names_the_remedy(tier: ProcessTier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolate, "find_spec", lambda name: None)
    async with open_isolate_tier(tier, settings_of("namespaces")) as opened:
        assert "pip install 'agentvm[isolate]'" in (await opened.offer()).missing
        with pytest.raises(TierUnavailable):
            await opened.run(Job(engine="shell-subset", code="true"))


async def test_a_network_or_a_program_that_lives_on_is_refused(tier: ProcessTier) -> None:
    async with open_isolate_tier(tier, settings_of("namespaces")) as opened:
        with pytest.raises(ToolFailed):
            await opened.run(Job(engine="shell-subset", code="true", network=("example.org",)))
        with pytest.raises(TierUnavailable):
            opened.open(Job(engine="shell-subset"))
