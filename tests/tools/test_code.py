import pytest

from agentvm.drivers.base import ToolSpec
from agentvm.model.ids import TenantId, UserId
from agentvm.model.tier import Job, JobOwner, JobResult, Need
from agentvm.model.tool import ToolRuntime
from agentvm.resources.tool import ToolNeeds
from agentvm.tools.base import CallContext, Caller, CallTraits
from agentvm.tools.code import CodeTool
from agentvm.tools.sandbox_jobs import SandboxSpec


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


async def test_arguments_of_a_command_fill_its_elements_and_nothing_else() -> None:
    job, kind, value = await run("command", '["echo", "{a}", "x{b}"]', JobResult(exit_code=0, stdout=b"out"), a="1 2", b=[3])
    assert (job.argv, job.code) == (("echo", "1 2", "x[3]"), "")
    assert (kind, value) == ("text", "out")


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (JobResult(timed_out=True, signal="SIGKILL"), "did not finish in time"),
        (JobResult(oom=True, signal="SIGKILL"), "more memory"),
        (JobResult(exit_code=7, stderr=b"no such file"), "exit code 7\nno such file"),
        (JobResult(signal="SIGSYS"), "killed by SIGSYS"),
    ],
)
async def test_a_failure_names_its_cause(result: JobResult, why: str) -> None:
    _, kind, value = await run("shell", "x", result)
    assert kind == "error-text"
    assert why in str(value)


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
