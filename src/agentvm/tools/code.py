"""Code tools — Python, JavaScript, shell scripts and commands of tool resources, each call a job in a sandbox of its own."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from agentvm.drivers.base import ToolSpec
from agentvm.model.tier import FULL_ENGINES, Job, JobResult
from agentvm.model.tool import ToolRuntime
from agentvm.resources.sandbox import SandboxLimits
from agentvm.resources.tool import ToolNeeds
from agentvm.resources.tool_entry import fill, parse_command
from agentvm.tools.base import CallContext, CallResult, CallTraits, TraitsOfTool, error_result
from agentvm.tools.metered_jobs import MeteredJobs
from agentvm.tools.redaction import Redaction
from agentvm.tools.sandbox_jobs import NO_NEEDS, SandboxSpec, limits_needed, limits_of, need_of, text_of
from agentvm.tools.session_jobs import keep_files, place_files

CODE_RUNTIMES: frozenset[ToolRuntime] = frozenset({"python", "javascript", "shell", "command"})
OUTPUT_TAIL_CHARACTERS = 4_000
"""Characters of the end of stderr that the model is told of a program that failed."""

NAMED_FILES_MAX = 50
"""Changed files that the model is told by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeTool(TraitsOfTool):
    """A tool whose calls run foreign code."""

    spec: ToolSpec
    runtime: ToolRuntime
    entry: str
    sandbox: SandboxSpec
    traits: CallTraits
    jobs: MeteredJobs
    needs: ToolNeeds = NO_NEEDS

    async def run(self, input: Mapping[str, object], context: CallContext) -> CallResult:
        """Runs the code with the call's input. The result is the value of `run`, or what the program wrote."""
        own = SandboxLimits(timeout_ms=max(1, int(self.timeout_seconds * 1000)))
        is_command = self.runtime == "command"
        values = {
            name: value if isinstance(value, str) else msgspec.json.encode(value).decode() for name, value in input.items()
        }
        secrets = {} if context.secrets is None else await context.secrets.for_code(self.sandbox.hosts)
        job = Job(
            engine=engine if (engine := self.needs.engine or "") in FULL_ENGINES else self.runtime,
            code="" if is_command else self.entry,
            argv=tuple(fill(part, values) for part in parse_command(self.entry)) if is_command else (),
            input=dict(input),
            env={**self.sandbox.env, **secrets},
            files=self.sandbox.files,
            limits=limits_of(self.sandbox.limits, limits_needed(self.needs), own),
            network=self.sandbox.hosts,
            key=context.key,
            keep=context.session if self.sandbox.persistent else "",
        )
        job = await place_files(job, context)
        result = await self.jobs.run_call(context, need_of(job, self.sandbox, self.needs), job)
        if context.secrets is not None:
            result = _redacted(result, context.secrets.redaction)
        if self.writes_files:
            result = await keep_files(result, context)
        return _result(self.spec.name, self.runtime, result)


def _redacted(result: JobResult, redaction: Redaction) -> JobResult:
    """Before anything is cut off or stored as a file: a half of a secret would not be recognised."""
    files = {path: redaction.clean(data) for path, data in result.files.items()}
    output = redaction.clean(result.stdout), redaction.clean(result.stderr)
    return msgspec.structs.replace(result, stdout=output[0], stderr=output[1], files=files)


def _result(name: str, runtime: ToolRuntime, result: JobResult) -> CallResult:
    if result.timed_out:
        return error_result(f"{name} was stopped: it did not finish in time")
    if result.oom:
        return error_result(f"{name} was stopped: it needed more memory than its sandbox has")
    if not result.succeeded:
        ended = f"was killed by {result.signal}" if result.exit_code is None else f"ended with exit code {result.exit_code}"
        return error_result(f"{name} {ended}\n{text_of(result.stderr)[-OUTPUT_TAIL_CHARACTERS:]}")
    if runtime in ("python", "javascript") and result.value is not None:
        return CallResult(type="json", value=result.value)
    return CallResult(type="text", value=f"{text_of(result.stdout)}{_changed(result)}")


def _changed(result: JobResult) -> str:
    """Returns a line with the files that a program has changed, for the model; nothing if it has changed none."""
    paths = sorted({*result.files, *result.deleted})
    more = f" and {len(paths) - NAMED_FILES_MAX:,} more" if len(paths) > NAMED_FILES_MAX else ""
    return f"\n[files changed: {', '.join(paths[:NAMED_FILES_MAX])}{more}]" if paths else ""
