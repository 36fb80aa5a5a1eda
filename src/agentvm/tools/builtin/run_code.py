"""run_python, run_shell — code that the model has written, each call a job in a sandbox of its own.

The sandbox is that of the agent's image. Unless that is persistent or has a network, a job can only change the files of the
session, and those are stored with its result: a call whose job was lost is therefore repeated.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec

from agentvm.drivers.base import ToolSpec
from agentvm.model.tier import Job
from agentvm.model.tool import Effect, Repeat, World
from agentvm.resources.sandbox import SandboxLimits
from agentvm.tools.base import CallContext, CallResult, tool_spec
from agentvm.tools.code_outcome import code_outcome
from agentvm.tools.metered_jobs import MeteredJobs
from agentvm.tools.sandbox_jobs import (
    WALL_MAX_MS,
    SandboxSpec,
    call_seconds,
    image_of,
    limits_of,
    need_of,
    rendered_sandbox,
)
from agentvm.tools.session_jobs import keep_files, place_files

CodeEngine = Literal["python", "shell"]
CODE_MAX = 1024 * 1024
"""Characters of one program."""
SIGNATURES_MAX = 40
"""Maximum tools whose parameters are part of the description of `run_python`."""

_NAMES_TOOLS = re.compile(r"\btools\b")
_PYTHON = (
    "Runs a Python program and returns what it printed. The value of the last expression is returned as well. The program sees "
    "the standard library, and begins in the folder /workspace. Files attached to the user's message are in /in, which the "
    "variable AVM_IN names, read-only. Variables are not kept between two calls."
)
_SHELL = (
    "Runs a script with /bin/sh and returns what it printed. It begins in the folder /workspace. Files attached to the user's "
    "message are in /in, which the variable AVM_IN names, read-only."
)
_TIMEOUT = {"type": "integer", "minimum": 1, "maximum": WALL_MAX_MS}


def _spec(name: str, description: str, member: str, about: str, **more: object) -> ToolSpec:
    code = {"type": "string", "minLength": 1, "maxLength": CODE_MAX, "description": about}
    return tool_spec(name, description, [member], {member: code, **more})


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
    def has_network(self) -> bool:
        return bool(self.sandbox.hosts)

    @property
    def world(self) -> World:
        return "open" if self.has_network else "closed"

    @property
    def repeat(self) -> Repeat:
        return "never" if self.sandbox.hosts or self.sandbox.persistent else "safe"

    @property
    def timeout_seconds(self) -> float:
        limits = limits_of(self.sandbox.limits)
        limits = msgspec.structs.replace(limits, wall_ms=WALL_MAX_MS) if self.runs_programs else limits
        return call_seconds(limits, self.sandbox.packages)

    @property
    def runs_programs(self) -> bool:
        """Whether the code may call tools. It may be run again, so it must have no effect by itself.

        Only the tier process passes calls on, which has neither images nor sandboxes that live on.
        """
        box = self.sandbox
        return (
            self.engine == "python"
            and not (box.hosts or box.persistent)
            and image_of(box) is None
            and box.isolator in (None, "process")
        )

    def within(self, rendered: Mapping[str, Any]) -> "RunCode":
        """Returns the tool in the sandbox of an image."""
        return replace(self, sandbox=rendered_sandbox(self.spec.name, rendered))

    async def why_missing(self) -> str | None:
        """Returns why no tier of this machine can run the code, with the remedy; None if one can."""
        return await self.jobs.why_missing(self.engine)

    async def run(self, input: Mapping[str, object], context: CallContext) -> CallResult:
        """Runs the code. Every end is a result: the model reads the exit code and the output."""
        timeout_ms = input.get("timeout")
        own = SandboxLimits(timeout_ms=timeout_ms if isinstance(timeout_ms, int) else None)
        code = _code(input)
        # A program that does not name them runs on any tier.
        others = context.others if self.runs_programs and _NAMES_TOOLS.search(code) else None
        job = Job(
            engine=self.engine,
            code=code,
            script=True,
            env=self.sandbox.env,
            files=self.sandbox.files,
            limits=limits_of(self.sandbox.limits, own),
            network=self.sandbox.hosts,
            functions={} if others is None else {spec.name: tuple(_parameters(spec)) for spec in others.tools},
            known=() if others is None else tuple(others.known_answers),
            key=context.key,
            keep=context.session if self.sandbox.persistent else "",
        )
        if others is not None and self.sandbox.limits.timeout_ms is None:
            # Its calls take their time, too.
            job = msgspec.structs.replace(job, limits=msgspec.structs.replace(job.limits, wall_ms=WALL_MAX_MS))
        job = await place_files(job, context)
        need, calls = need_of(job, self.sandbox), None if others is None else others.call
        result = await keep_files(await self.jobs.run_call(context, need, job, calls), context)
        return CallResult(type="json", value=code_outcome(result))


def programs_text(tools: Sequence[ToolSpec]) -> str:
    """Returns how code calls these tools, for the model."""
    listed = ", ".join(_signature(spec) for spec in tools[:SIGNATURES_MAX])
    more = f" and {len(tools) - SIGNATURES_MAX} more, by their names" if len(tools) > SIGNATURES_MAX else ""
    return (
        f"The program can call your other tools as functions: {listed}{more}. A call returns the result, text or JSON, and "
        "raises ToolError if it fails; only what the program prints comes back to you. A program that has to wait for a person "
        "is run again from its start with the results it had, so its calls must be the same each time: no threads, no clock."
    )


def _signature(spec: ToolSpec) -> str:
    parameters = ", ".join(name if required else f"{name}=…" for name, required in _parameters(spec).items())
    return f"tools.{spec.name}({parameters})" if spec.name.isidentifier() else f'tools["{spec.name}"]({parameters})'


def _parameters(spec: ToolSpec) -> dict[str, bool]:
    """Returns the names of a tool's parameters, and whether each is required."""
    properties, required = spec.input_schema.get("properties"), spec.input_schema.get("required")
    names = list(properties) if isinstance(properties, Mapping) else []
    needed = required if isinstance(required, Sequence) else ()
    return {name: name in needed for name in sorted(names, key=lambda name: name not in needed)}


def _code(input: Mapping[str, object]) -> str:
    code = next(str(input[name]) for name in ("code", "script", "command") if name in input)
    folder = input.get("cwd")
    return code if folder is None else f"cd -- {shlex.quote(str(folder))} || exit\n{code}"
