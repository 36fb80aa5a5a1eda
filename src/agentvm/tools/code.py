"""Code tools — Python, JavaScript, shell scripts and commands of tool resources, each call a job in a sandbox of its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import msgspec

from agentvm.drivers.base import ToolSpec
from agentvm.errors import ToolFailed
from agentvm.errors.tool import TierUnavailable
from agentvm.model.tier import FULL_ENGINES, Job, JobLimits, JobResult
from agentvm.model.tool import ToolRuntime, World
from agentvm.resources.sandbox import SandboxLimits
from agentvm.resources.tool import ToolNeeds
from agentvm.resources.tool_entry import arguments_of, fill, parse_command
from agentvm.sharing.large_work import go_through
from agentvm.tools.base import CallContext, CallResult, CallTraits, TraitsOfTool
from agentvm.tools.code_outcome import code_outcome
from agentvm.tools.metered_jobs import MeteredJobs
from agentvm.tools.redaction import Redaction
from agentvm.tools.sandbox_jobs import NO_NEEDS, SandboxSpec, call_seconds, limits_needed, limits_of, need_of, text_of
from agentvm.tools.session_jobs import keep_files, place_files

MAIN = "main.py"
"""The entry of a Python tool whose source is a file of its sandbox."""
CODE_RUNTIMES: frozenset[ToolRuntime] = frozenset({"python", "javascript", "shell", "command"})
NAMED_FILES_MAX = 50
"""Changed files that the model receives by name."""


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

    @property
    def world(self) -> World:
        """Code that reaches other servers is open, also if its author says otherwise."""
        return "open" if self.has_network else self.traits.world

    @property
    def has_network(self) -> bool:
        return bool(self.sandbox.hosts)

    @property
    def timeout_seconds(self) -> float:
        return call_seconds(self._limits, (*self.sandbox.packages, *self.needs.packages))

    @property
    def _limits(self) -> JobLimits:
        own = SandboxLimits(timeout_ms=max(1, int(self.traits.timeout_seconds * 1000)))
        return limits_of(self.sandbox.limits, limits_needed(self.needs), own)

    @property
    def _engine(self) -> str:
        return engine if (engine := self.needs.engine or "") in FULL_ENGINES else self.runtime

    async def why_missing(self) -> str | None:
        """Returns why no tier of this machine can run the code, with the remedy; None if one can."""
        argv = parse_command(self.entry) if self.runtime == "command" else ()
        try:
            need = need_of(Job(engine=self._engine, argv=argv, limits=self._limits), self.sandbox, self.needs)
        except TierUnavailable as error:
            return str(error)
        return await self.jobs.why_missing(need.engine)

    async def run(self, input: Mapping[str, object], context: CallContext) -> CallResult:
        """Runs the code with the call's input. The result is the value of `run`, or the program's output."""
        is_command = self.runtime == "command"
        values = {
            name: value if isinstance(value, str) else msgspec.json.encode(value).decode() for name, value in input.items()
        }
        secrets = {} if context.secrets is None else await context.secrets.for_code(self.sandbox.hosts)
        job = Job(
            engine=self._engine,
            code="" if is_command else self._code(),
            argv=self._argv(values) if is_command else (),
            input=dict(input),
            env={**self.sandbox.env, **secrets},
            files=self.sandbox.files,
            limits=self._limits,
            network=self.sandbox.hosts,
            key=context.key,
            keep=self._keep(context) if self.sandbox.persistent else "",
        )
        job = await place_files(job, context)
        result = await self.jobs.run_call(context, need_of(job, self.sandbox, self.needs), job)
        if context.secrets is not None:
            size = len(result.stdout) + len(result.stderr) + sum(map(len, result.files.values()))
            redacted = partial(_redacted, result, context.secrets.redaction)
            result = await go_through(context.caller.tenant_id, size, redacted)
        if self.writes_files:
            result = await keep_files(result, context)
        return _result(self.spec.name, self.runtime, result)

    def _argv(self, values: dict[str, str]) -> tuple[str, ...]:
        """Returns the elements of the command with the arguments of a call."""
        elements = parse_command(self.entry)
        used = dict.fromkeys(name for element in elements for name in arguments_of(element))
        if missing := next((name for name in used if name not in values), None):
            raise ToolFailed(f"{missing!r} is missing; the command needs it")
        if odd := next((name for name in used if "\0" in values[name]), None):
            raise ToolFailed(f"{odd!r} holds a NUL, which no argument of a command can")
        return tuple(fill(element, values) for element in elements)

    def _keep(self, context: CallContext) -> str:
        """Returns the name of the sandbox that lives on: the session's, or this tool's own if its processes know secrets."""
        if context.secrets is None or not context.session:
            return context.session
        return f"{context.session}/{context.secrets.grantee.id}"

    def _code(self) -> str:
        """Returns the text of the program; that of a file of the sandbox, never the session's file of the same name."""
        if self.runtime != "python" or self.entry.strip() != MAIN:
            return self.entry
        try:
            return self.sandbox.files[MAIN].decode()
        except (KeyError, UnicodeDecodeError):
            raise ToolFailed(f"{self.spec.name} runs {MAIN} of its sandbox, which has no such file that is text") from None


def _redacted(result: JobResult, redaction: Redaction) -> JobResult:
    """Before anything is cut off or stored as a file: a half of a secret would not be recognised."""
    # Names of files are told, too.
    files = {redaction.clean_text(path): redaction.clean(data) for path, data in result.files.items()}
    executable = frozenset(map(redaction.clean_text, result.executable))
    output = redaction.clean(result.stdout), redaction.clean(result.stderr)
    return msgspec.structs.replace(result, stdout=output[0], stderr=output[1], files=files, executable=executable)


def _result(name: str, runtime: ToolRuntime, result: JobResult) -> CallResult:
    """Returns the result for the model: the value or the output of a program, or its failure with all output."""
    if not result.succeeded:
        return CallResult(type="error-json", value=code_outcome(result, f"{name} {_failure(result)}"))
    if runtime in ("python", "javascript") and result.value is not None:
        return CallResult(type="json", value=result.value)
    return CallResult(type="text", value=f"{text_of(result.stdout)}{_changed(result)}")


def _failure(result: JobResult) -> str:
    if result.timed_out:
        return "was stopped: it did not finish in time"
    if result.oom:
        return "was stopped: it needed more memory than its sandbox has"
    if result.truncated:
        return "was stopped: it wrote more than its sandbox allows"
    return f"was killed by {result.signal}" if result.exit_code is None else f"ended with exit code {result.exit_code}"


def _changed(result: JobResult) -> str:
    """Returns a line with the files that a program has changed, for the model; nothing if it has changed none."""
    paths = sorted({*result.files, *result.deleted})
    more = f" and {len(paths) - NAMED_FILES_MAX:,} more" if len(paths) > NAMED_FILES_MAX else ""
    return f"\n[files changed: {', '.join(paths[:NAMED_FILES_MAX])}{more}]" if paths else ""
