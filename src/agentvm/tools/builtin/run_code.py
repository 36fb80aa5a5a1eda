"""run_python, run_shell — code that the model has written, each call a job in a sandbox of its own.

The sandbox is that of the agent's image. Without a network a job can change nothing but the files of the session, and those are
stored with its result: so a call whose job was lost is simply made again.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec

from agentvm.drivers.base import ToolSpec
from agentvm.model.base import Record
from agentvm.model.tier import Job, JobResult, JobUsage
from agentvm.model.tool import Effect, Repeat, World
from agentvm.resources.sandbox import SandboxLimits
from agentvm.tools.base import CallContext, CallResult, sound
from agentvm.tools.metered_jobs import MeteredJobs
from agentvm.tools.sandbox_jobs import WALL_MAX_MS, SandboxSpec, limits_of, need_of, rendered_sandbox, text_of
from agentvm.tools.session_jobs import keep_files, place_files

CodeEngine = Literal["python", "shell"]
CODE_MAX = 1024 * 1024
"""Characters of one program."""
GRACE_SECONDS = 10.0
"""Time beyond that of the job, for its start and its end."""

_PYTHON = (
    "Runs a Python program and returns what it printed. The value of the last expression is returned as well. The program sees "
    "the standard library, and begins in the folder /workspace. Variables are not kept between two calls."
)
_SHELL = "Runs a script with /bin/sh and returns what it printed. It begins in the folder /workspace."
_TIMEOUT = {"type": "integer", "minimum": 1, "maximum": WALL_MAX_MS}


def _spec(name: str, description: str, member: str, about: str, **more: object) -> ToolSpec:
    code = {"type": "string", "minLength": 1, "maxLength": CODE_MAX, "description": about}
    properties = {member: code, **more}
    schema = {"type": "object", "properties": properties, "required": [member], "additionalProperties": False}
    return ToolSpec(name=name, description=description, input_schema=schema)


RUN_PYTHON = _spec("run_python", _PYTHON, "code", "The text of the program")
RUN_SHELL = _spec("run_shell", _SHELL, "script", "The text of the script")
SH = _spec(
    "sh",
    _SHELL,
    "command",
    "The command",
    cwd={"type": "string", "description": "A folder below /workspace to begin in", "maxLength": 1024},
    timeout={**_TIMEOUT, "description": "The most milliseconds that it may take; 60,000 when left out"},
)
"""`run_shell` as AgentX 2.9 calls it."""


CODE_TOOLS: tuple[tuple[ToolSpec, CodeEngine], ...] = ((RUN_PYTHON, "python"), (RUN_SHELL, "shell"), (SH, "shell"))
"""The tools of this module, each with its engine."""


class CodeOutcome(Record):
    """The end of a program, as the model is told."""

    exit_code: int | None
    """None for a program that was killed."""
    signal: str | None = None
    stdout: str
    stderr: str
    truncated: bool
    timed_out: bool
    oom: bool = False
    duration_ms: int
    usage: JobUsage
    files: list[str]
    """Files that were added, changed or deleted."""
    value: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCode:
    """The tools `run_python`, `run_shell` and `sh`."""

    spec: ToolSpec
    engine: CodeEngine
    jobs: MeteredJobs
    sandbox: SandboxSpec = field(default_factory=SandboxSpec)
    effect: Effect = "write"
    writes_files: bool = True

    @property
    def world(self) -> World:
        return "open" if self.sandbox.hosts else "closed"

    @property
    def repeat(self) -> Repeat:
        return "never" if self.sandbox.hosts else "safe"

    @property
    def timeout_seconds(self) -> float:
        return limits_of(self.sandbox.limits).wall_ms / 1000 + GRACE_SECONDS

    def within(self, rendered: Mapping[str, Any]) -> "RunCode":
        """Returns the tool in the sandbox of an image."""
        return replace(self, sandbox=rendered_sandbox(self.spec.name, rendered))

    async def why_missing(self) -> str | None:
        """Returns why no tier of this machine can run the code, with the remedy; None if one can."""
        return await self.jobs.why_missing(self.engine)

    async def run(self, input: Mapping[str, object], context: CallContext) -> CallResult:
        """Runs the code. However it ends is a result: the model reads the exit code and what was written."""
        timeout_ms = input.get("timeout")
        own = SandboxLimits(timeout_ms=timeout_ms if isinstance(timeout_ms, int) else None)
        job = Job(
            engine=self.engine,
            code=_code(input),
            script=True,
            env=self.sandbox.env,
            files=self.sandbox.files,
            limits=limits_of(self.sandbox.limits, own),
            network=self.sandbox.hosts,
            key=context.key,
        )
        job = await place_files(job, context)
        result = await self.jobs.run_call(context, need_of(job, self.sandbox), job)
        result = await keep_files(result, context)
        return CallResult(type="json", value=msgspec.to_builtins(_outcome(result)))


def _code(input: Mapping[str, object]) -> str:
    code = next(str(input[name]) for name in ("code", "script", "command") if name in input)
    folder = input.get("cwd")
    return code if folder is None else f"cd -- {shlex.quote(str(folder))} || exit\n{code}"


def _outcome(result: JobResult) -> CodeOutcome:
    return CodeOutcome(
        exit_code=result.exit_code,
        signal=result.signal,
        stdout=sound(text_of(result.stdout)),
        stderr=sound(text_of(result.stderr)),
        truncated=result.truncated,
        timed_out=result.timed_out,
        oom=result.oom,
        duration_ms=result.duration_ms,
        usage=result.usage,
        files=sorted({*result.files, *result.deleted}),
        value=result.value,
    )
