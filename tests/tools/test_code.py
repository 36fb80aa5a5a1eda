from collections.abc import Collection, Mapping
from typing import cast

import pytest

from agentvm.drivers.base import ToolSpec
from agentvm.errors import ToolFailed
from agentvm.model.ids import TenantId, UserId
from agentvm.model.secret import Secret
from agentvm.model.session_file import SessionFile
from agentvm.model.tier import INSTALL_SECONDS_MAX, Job, JobOwner, JobResult, Need
from agentvm.model.tool import ToolRuntime
from agentvm.resources.sandbox import SandboxLimits
from agentvm.resources.tool import ToolNeeds
from agentvm.tools.base import CallContext, Caller, CallTraits, SessionFiles
from agentvm.tools.code import CodeTool
from agentvm.tools.sandbox_jobs import GRACE_SECONDS, SandboxSpec
from agentvm.tools.secrets import CallSecrets, Grantee, SecretGrants


class Jobs:
    """Keeps the job that it is given, and ends it as it was told."""

    def __init__(self, result: JobResult) -> None:
        self.result = result
        self.jobs: list[tuple[JobOwner, Need, Job]] = []

    async def run_call(self, context: CallContext, need: Need, job: Job) -> JobResult:
        owner = JobOwner(tenant_id=TenantId(context.caller.tenant_id), user_id=UserId(context.caller.user_id))
        self.jobs.append((owner, need, job))
        return self.result


async def run(runtime: ToolRuntime, entry: str, result: JobResult, **given: object) -> tuple[Job, str, object]:
    jobs = Jobs(result)
    tool = CodeTool(
        spec=ToolSpec(name="t", description="d", input_schema={}),
        runtime=runtime,
        entry=entry,
        sandbox=SandboxSpec(),
        traits=CallTraits(timeout_seconds=2.0),
        jobs=jobs,  # type: ignore[arg-type]
    )
    outcome = await tool.run(given, CallContext(key="turn_1/c1", caller=Caller("acme", "ann"), deadline=0))
    ((owner, _, job),) = jobs.jobs
    assert (owner.tenant_id, owner.user_id, job.key) == ("acme", "ann", "turn_1/c1")
    return job, outcome.type, outcome.value


async def test_the_job_has_the_input_the_time_and_the_key_of_the_call() -> None:
    job, kind, value = await run("python", "def run(n): ...", JobResult(exit_code=0, value={"n": 1}), n=1)
    assert (job.engine, job.code, job.input, job.limits.wall_ms) == ("python", "def run(n): ...", {"n": 1}, 2_000)
    assert (kind, value) == ("json", {"n": 1})


def test_the_time_of_a_call_leaves_its_program_time_to_say_that_it_was_too_slow() -> None:
    parts = {"spec": ToolSpec(name="t", description="d", input_schema={}), "runtime": "python", "entry": "", "jobs": Jobs}
    tool = CodeTool(**parts, sandbox=SandboxSpec(), traits=CallTraits(timeout_seconds=2.0))  # type: ignore[arg-type]
    assert tool.timeout_seconds == 2 + GRACE_SECONDS
    box = SandboxSpec(packages=("numpy",), limits=SandboxLimits(timeout_ms=1_000))
    slow = CodeTool(**parts, sandbox=box, traits=CallTraits(timeout_seconds=2.0))  # type: ignore[arg-type]
    assert slow.timeout_seconds == 1 + GRACE_SECONDS + INSTALL_SECONDS_MAX


async def test_arguments_of_a_command_fill_its_elements_and_nothing_else() -> None:
    job, kind, value = await run("command", '["echo", "{a}", "x{b}"]', JobResult(exit_code=0, stdout=b"out"), a="1 2", b=[3])
    assert (job.argv, job.code) == (("echo", "1 2", "x[3]"), "")
    assert (kind, value) == ("text", "out")


@pytest.mark.parametrize(("given", "why"), [({"a": "1"}, "'b' is missing"), ({"a": "1\0", "b": "2"}, "'a' holds a NUL")])
async def test_a_command_whose_arguments_cannot_be_filled_is_not_run(given: dict[str, object], why: str) -> None:
    with pytest.raises(ToolFailed, match=why):
        await run("command", '["echo", "{a}", "x{b}"]', JobResult(exit_code=0), **given)


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (JobResult(timed_out=True, signal="SIGKILL"), "did not finish in time"),
        (JobResult(oom=True, signal="SIGKILL"), "more memory"),
        (JobResult(truncated=True, signal="SIGKILL"), "wrote more than its sandbox allows"),
        (JobResult(exit_code=7, stderr=b"no such file"), "exit code 7"),
        (JobResult(signal="SIGSYS"), "killed by SIGSYS"),
    ],
)
async def test_a_failure_names_its_cause(result: JobResult, why: str) -> None:
    _, kind, value = await run("shell", "x", result)
    assert kind == "error-json"
    assert isinstance(value, dict)
    assert why in str(value["error"])


async def test_a_failure_has_all_that_the_program_wrote() -> None:
    ended = JobResult(exit_code=1, stdout=b"- old\n+ new\n", stderr=b"\x1b[31mdiffers", duration_ms=7, files={"a": b"1"})
    _, kind, value = await run("command", '["diff"]', ended)
    whole = {"exitCode": 1, "stdout": "- old\n+ new\n", "stderr": "[31mdiffers", "durationMs": 7, "files": ["a"]}
    assert (kind, isinstance(value, dict)) == ("error-json", True)
    assert {name: value[name] for name in whole} == whole  # type: ignore[index]
    assert {"truncated", "timedOut", "usage"} <= set(value)  # type: ignore[call-overload]


async def test_an_entry_can_be_the_source_among_the_files_of_the_sandbox() -> None:
    jobs = Jobs(JobResult(exit_code=0, value=3))

    def tool(files: dict[str, bytes]) -> CodeTool:
        spec = ToolSpec(name="t", description="d", input_schema={})
        traits, sandbox = CallTraits(), SandboxSpec(files=files)
        return CodeTool(spec=spec, runtime="python", entry="main.py", sandbox=sandbox, traits=traits, jobs=jobs)  # type: ignore[arg-type]

    context = CallContext(key="k", caller=Caller("acme", ""), deadline=0)
    await tool({"main.py": b"def run(): return 3"}).run({}, context)
    ((_, _, job),) = jobs.jobs
    assert job.code == "def run(): return 3"
    for files in ({}, {"main.py": b"\xff"}):
        with pytest.raises(ToolFailed, match=r"main\.py of its sandbox"):
            await tool(files).run({}, context)


async def test_a_tool_that_needs_a_subset_engine_only_says_so_in_its_job() -> None:
    jobs = Jobs(JobResult(exit_code=0))
    tool = CodeTool(
        spec=ToolSpec(name="t", description="d", input_schema={}),
        runtime="python",
        entry="1",
        sandbox=SandboxSpec(persistent=True),
        traits=CallTraits(),
        jobs=jobs,  # type: ignore[arg-type]
        needs=ToolNeeds(engine="python-subset", walls=("mount",)),
    )
    await tool.run({}, CallContext(key="k", caller=Caller("acme", ""), deadline=0, session="s"))
    ((_, need, job),) = jobs.jobs
    assert (need.engine, need.walls, job.engine) == ("python-subset", frozenset({"mount"}), "python-subset")
    assert (need.persistent, job.keep) == (True, "s")


async def test_a_tool_with_secrets_shares_its_processes_with_no_other_tool() -> None:
    jobs, kept = Jobs(JobResult(exit_code=0)), list[str]()
    tool = CodeTool(
        spec=ToolSpec(name="t", description="d", input_schema={}),
        runtime="shell",
        entry="true",
        sandbox=SandboxSpec(persistent=True),
        traits=CallTraits(),
        jobs=jobs,  # type: ignore[arg-type]
    )
    for grantee, session in (("res_1", "s"), ("res_2", "s"), ("res_1", "")):
        secrets = CallSecrets(cast("SecretGrants", None), Grantee(grantee, "t"), TenantId("acme"), ())
        context = CallContext(key="k", caller=Caller("acme", ""), deadline=0, session=session, secrets=secrets)
        await tool.run({}, context)
        kept.append(jobs.jobs[-1][2].keep)
    assert kept == ["s/res_1", "s/res_2", ""]


class Written:
    """An empty session that keeps what a call writes."""

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}
        self.executable: set[str] = set()

    async def list(self, under: str = "") -> tuple[SessionFile, ...]:
        return ()

    async def read_all(self, max_bytes: int) -> Mapping[str, bytes]:
        return {}

    async def write_all(self, files: Mapping[str, bytes], executable: Collection[str] = ()) -> None:
        self.bodies |= files
        self.executable |= set(executable)


class Granting:
    """Gives every secret to every tool."""

    async def reveal_to_code(self, tenant_id: TenantId, grantee: Grantee, name: str, network: object = ()) -> Secret:
        return Secret("hunter-22")


async def test_files_have_no_secret_in_their_bytes_or_names() -> None:
    left = JobResult(exit_code=0, files={"a/hunter-22.txt": b"it is hunter-22"}, executable=frozenset({"a/hunter-22.txt"}))
    files = Written()
    tool = CodeTool(
        spec=ToolSpec(name="t", description="d", input_schema={}),
        runtime="shell",
        entry="true",
        sandbox=SandboxSpec(),
        traits=CallTraits(writes_files=True),
        jobs=Jobs(left),  # type: ignore[arg-type]
    )
    secrets = CallSecrets(cast("SecretGrants", Granting()), Grantee("res_1", "t"), TenantId("acme"), ("KEY",))
    context = CallContext(key="k", caller=Caller("acme", ""), deadline=0, secrets=secrets, files=cast("SessionFiles", files))
    outcome = await tool.run({}, context)
    assert files.bodies == {"a/[secret KEY].txt": b"it is [secret KEY]"}
    assert files.executable == {"a/[secret KEY].txt"}
    assert "hunter" not in str(outcome)
