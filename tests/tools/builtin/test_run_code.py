from dataclasses import replace
from typing import Any

import msgspec
import pytest

from agentvm.drivers.base import ToolSpec
from agentvm.errors import ToolFailed
from agentvm.model.tier import Job, JobResult, JobUsage, KnownAnswer, Need
from agentvm.resources.schema import check_schema
from agentvm.tiers.base import HostCalls
from agentvm.tools.base import CallContext, Caller
from agentvm.tools.builtin.run_code import CODE_TOOLS, RUN_PYTHON, RUN_SHELL, SH, RunCode, programs_text

CONTEXT = CallContext(key="turn_1/c1", caller=Caller("acme", "ann"), deadline=0)
BOX = {"limits": {"timeoutMs": 5_000}, "env": {"A": "b"}, "files": {"data.csv": "1,2"}}


class Jobs:
    """Keeps the job that it is given, and ends it as it was told."""

    def __init__(self, result: JobResult) -> None:
        self.result = result
        self.jobs: list[tuple[CallContext, Need, Job]] = []
        self.heard: list[object] = []

    async def run_call(self, context: CallContext, need: Need, job: Job, calls: HostCalls | None = None) -> JobResult:
        self.jobs.append((context, need, job))
        if calls is not None:
            self.heard.append(await calls("look", {"n": 1}))
        return self.result

    async def why_missing(self, engine: str) -> str | None:
        return None if engine == "python" else "no shell; install one"


def tool(spec: Any, result: JobResult | None = None) -> tuple[RunCode, Jobs]:
    jobs = Jobs(result or JobResult(exit_code=0))
    engine = {told.name: engine for told, engine in CODE_TOOLS}[spec.name]
    return RunCode(spec=spec, engine=engine, jobs=jobs), jobs  # type: ignore[arg-type]


def test_the_schemas_are_sound_and_the_names_are_those_of_the_design() -> None:
    assert [spec.name for spec, _ in CODE_TOOLS] == ["run_python", "run_shell", "sh"]
    for spec, _ in CODE_TOOLS:
        check_schema("inputSchema", spec.input_schema, of_object=True)


async def test_the_result_says_how_the_program_ended_and_what_it_left() -> None:
    ended = JobResult(
        exit_code=3,
        stdout=b"out\x1b[31m\xff",
        stderr=b"err",
        duration_ms=12,
        usage=JobUsage(cpu_ms=4, max_rss_bytes=9),
        files={"b.txt": b"", "a.txt": b"1"},
        deleted=("c.txt",),
        value={"n": 1},
    )
    run_python, jobs = tool(RUN_PYTHON, ended)
    result = await run_python.run({"code": "print(1)"}, CONTEXT)
    assert (result.type, result.value) == (
        "json",
        {
            "exitCode": 3,
            "stdout": "out[31m\ufffd",
            "stderr": "err",
            "truncated": False,
            "timedOut": False,
            "durationMs": 12,
            "usage": {"cpuMs": 4, "maxRssBytes": 9},
            "files": ["a.txt", "b.txt", "c.txt"],
            "value": {"n": 1},
        },
    )
    ((context, need, job),) = jobs.jobs
    assert (context, job.key, job.code, job.script) == (CONTEXT, "turn_1/c1", "print(1)", True)
    assert (need.engine, job.limits.wall_ms) == ("python", 60_000)


async def test_a_killed_program_has_no_exit_code_and_names_its_signal() -> None:
    run_shell, _ = tool(RUN_SHELL, JobResult(signal="SIGKILL", oom=True, timed_out=True, truncated=True))
    value = (await run_shell.run({"script": "x"}, CONTEXT)).value
    assert isinstance(value, dict)
    assert (value["exitCode"], value["signal"], value["oom"], value["timedOut"], value["truncated"]) == (
        None, "SIGKILL", True, True, True,
    )  # fmt: skip


async def test_the_sandbox_of_the_image_gives_limits_variables_and_files() -> None:
    run_shell, jobs = tool(RUN_SHELL)
    boxed = run_shell.within(BOX)
    assert (boxed.world, boxed.repeat, boxed.timeout_seconds) == ("closed", "safe", 15.0)
    await boxed.run({"script": "cat data.csv"}, CONTEXT)
    ((_, _, job),) = jobs.jobs
    assert (job.limits.wall_ms, job.env, job.files, job.network) == (5_000, {"A": "b"}, {"data.csv": b"1,2"}, ())


async def test_a_sandbox_with_a_network_reaches_the_world_and_is_not_repeated() -> None:
    run_python, jobs = tool(RUN_PYTHON)
    boxed = run_python.within({"network": {"mode": "allowlist", "allow": ["api.example.org"]}})
    assert (boxed.effect, boxed.world, boxed.repeat) == ("write", "open", "never")
    await boxed.run({"code": "1"}, CONTEXT)
    assert jobs.jobs[0][2].network == ("api.example.org",)


async def test_a_sandbox_that_the_tool_cannot_use_is_refused() -> None:
    with pytest.raises(ToolFailed, match=r"logo\.png"):
        tool(RUN_PYTHON)[0].within({"files": {"logo.png": {"blob": "sha256:0", "size": 1}}})


async def test_a_command_of_agentx_has_its_folder_and_its_time() -> None:
    sh, jobs = tool(SH)
    await sh.run({"command": "ls", "cwd": "a b/$(id)", "timeout": 2_000}, CONTEXT)
    ((_, _, job),) = jobs.jobs
    assert (job.engine, job.code, job.limits.wall_ms) == ("shell", "cd -- 'a b/$(id)' || exit\nls", 2_000)


async def test_a_tool_knows_whether_the_machine_can_run_it() -> None:
    assert await tool(RUN_PYTHON)[0].why_missing() is None
    assert await tool(RUN_SHELL)[0].why_missing() == "no shell; install one"


LOOK = ToolSpec(
    name="look", description="Looks.",
    input_schema={"type": "object", "properties": {"far": {}, "n": {}}, "required": ["n"]},
)  # fmt: skip


class Others:
    tools = (LOOK, msgspec.structs.replace(LOOK, name="my-tool"))

    known_answers = (KnownAnswer(value=b"7"),)

    async def call(self, name: str, input: dict[str, object]) -> object:
        return [name, input]


async def test_a_program_is_told_its_tools_and_can_call_them() -> None:
    run_python, jobs = tool(RUN_PYTHON)
    told = programs_text(Others.tools)
    assert 'as functions: tools.look(n, far=…), tools["my-tool"](n, far=…).' in told
    await run_python.run({"code": "tools.look(1)"}, replace(CONTEXT, others=Others()))
    ((_, need, job),) = jobs.jobs
    assert need.calls
    # Required parameters come first.
    assert job.functions == {"look": ("n", "far"), "my-tool": ("n", "far")}
    assert job.known == Others.known_answers
    assert job.limits.wall_ms == 600_000
    assert jobs.heard == [["look", {"n": 1}]]


@pytest.mark.parametrize(
    "sandbox", [{"isolator": "container"}, {"isolator": "remote"}, {"runtime": "ruby:3"}, {"persistent": True}]
)
async def test_on_tiers_that_pass_no_calls_on_code_is_told_of_no_tools(sandbox: dict[str, object]) -> None:
    run_python, jobs = tool(RUN_PYTHON)
    stronger = run_python.within(sandbox)
    assert not stronger.runs_programs
    await stronger.run({"code": "tools.look(1)"}, replace(CONTEXT, others=Others()))
    # And a program that names no tools runs anywhere.
    await run_python.run({"code": "1"}, replace(CONTEXT, others=Others()))
    assert [(need.calls, job.functions) for _, need, job in jobs.jobs] == [(False, {}), (False, {})]


async def test_a_word_that_only_contains_tools_calls_none_and_so_runs_anywhere() -> None:
    run_python, jobs = tool(RUN_PYTHON)
    for code in ("import itertools, setuptools", "print(tools['look'](1))"):
        await run_python.run({"code": code}, replace(CONTEXT, others=Others()))
    assert [need.calls for _, need, _ in jobs.jobs] == [False, True]


@pytest.mark.parametrize("spec", [RUN_PYTHON, RUN_SHELL])
async def test_a_sandbox_that_lives_on_does_so_for_the_session_and_its_calls_are_not_repeated(spec: ToolSpec) -> None:
    made, jobs = tool(spec)
    lives_on = made.within({"persistent": True})
    for tool_made in (made, lives_on):
        await tool_made.run({"code": "1", "script": "true"}, replace(CONTEXT, session="sess_1"))
    assert [(job.keep, need.persistent) for _, need, job in jobs.jobs] == [("", False), ("sess_1", True)]
    assert (made.repeat, lives_on.repeat) == ("safe", "never")


async def test_many_tools_are_told_in_part() -> None:
    told = programs_text([LOOK] * 45)
    assert told.count("tools.look") == 40
    assert "and 5 more, by their names" in told


async def test_code_with_a_network_and_scripts_call_no_tools() -> None:
    networked = tool(RUN_PYTHON)[0].within({"network": {"mode": "allowlist", "allow": ["api.example.org"]}})
    assert [networked.runs_programs, tool(RUN_SHELL)[0].runs_programs, tool(RUN_PYTHON)[0].runs_programs] == [
        False,
        False,
        True,
    ]
    jobs = networked.jobs
    await networked.run({"code": "1"}, replace(CONTEXT, others=Others()))
    assert jobs.jobs[0][2].functions == {}  # type: ignore[attr-defined]
