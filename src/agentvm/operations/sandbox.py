"""Sandboxes — one run of code in a jail, with the same decision, limits and ledger as the tools of an agent."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from agentvm.errors import InvalidInput, QuotaExceeded, shorten
from agentvm.errors.bounds import ServerBusy
from agentvm.errors.resource import ResourceNotFound
from agentvm.errors.tool import TierBroken, TierUnavailable, WorkspaceFull
from agentvm.model.base import Record, record_from
from agentvm.model.tier import Job, JobOwner, JobResult, JobUsage, Offer, Placed, TierName
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.protocol.requests import Request
from agentvm.resources.sandbox import ENV_VALUE_MAX, SandboxLimits
from agentvm.tools.sandbox_jobs import (
    FileContent,
    SandboxSpec,
    bytes_of,
    check_files,
    engine_of,
    limits_of,
    need_of,
    shown,
    text_of,
)
from agentvm.tools.stored_sandbox import find_sandbox

operation = OperationGroup("sandboxes")

BODY_MAX_BYTES = 32 * 1024 * 1024
VALUES_MAX = 100_000
INPUTS_MAX = 100
SKILL_FILES_MAX = 6_432
"""Files of 32 skills with 201 each."""

Argument = Annotated[str, msgspec.Meta(max_length=128 * 1024)]
VariableName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]
VariableText = Annotated[str, msgspec.Meta(max_length=ENV_VALUE_MAX)]


class SandboxFound(Record):
    """The tier that ran the code, and the verdict on each: `[["process", "chosen"]]`."""

    tier: str
    why: tuple[tuple[str, str], ...] = ()


class SandboxOutcome(Record):
    """`exitCode` is absent for a program that was killed. `files` are those that were added or changed."""

    exit_code: int | None = None
    signal: str | None = None
    stdout: str
    stderr: str
    truncated: bool
    timed_out: bool
    oom: bool
    duration_ms: int
    usage: JobUsage
    value: Any = None
    files: dict[str, FileContent]
    deleted: tuple[str, ...]
    executable: tuple[str, ...]
    left_out: int
    placed: SandboxFound


class SandboxRun(Request[SandboxOutcome]):
    """`code` of an `engine`, or the `argv` of a program. Files are text, or `{"data": base64}`.

    `inputs` are in `/in`, by name, and `skills` below `/skills`, by path.
    `sandbox` is the URI of a sandbox whose limits, files, variables and network hold; the request can only narrow them.
    """

    engine: Literal["python", "python-subset", "shell", "shell-subset", "javascript", "command"] | None = None
    code: Annotated[str, msgspec.Meta(max_length=1024 * 1024)] = ""
    script: bool = False
    """Python runs as it stands: a function `run` in it is not called."""
    argv: Annotated[tuple[Argument, ...], msgspec.Meta(max_length=1_000)] = ()
    input: dict[str, Any] | None = None
    stdin: str = ""
    env: dict[VariableName, VariableText] = msgspec.field(default_factory=dict)
    files: dict[str, FileContent] = msgspec.field(default_factory=dict)
    executable: tuple[str, ...] = ()
    inputs: Annotated[dict[str, FileContent], msgspec.Meta(max_length=INPUTS_MAX)] = msgspec.field(default_factory=dict)
    skills: Annotated[dict[str, FileContent], msgspec.Meta(max_length=SKILL_FILES_MAX)] = msgspec.field(default_factory=dict)
    limits: SandboxLimits = SandboxLimits()
    sandbox: str | None = None


@operation(
    "sandbox.run",
    needs="tools:invoke",
    http=Http("POST", "/v1/sandboxes/run", max_body_bytes=BODY_MAX_BYTES, max_values=VALUES_MAX, attended=True),
    audit="sandbox.run",
    raises=(TierUnavailable, TierBroken, WorkspaceFull, QuotaExceeded, ServerBusy, ResourceNotFound),
)
async def run(context: Context, request: SandboxRun) -> SandboxOutcome:
    """Run code in a sandbox.

    The code runs in its own jail, which is removed before the reply is sent. Its time counts towards the quota of sandbox
    seconds.
    """
    spec = (
        SandboxSpec()
        if request.sandbox is None
        else await find_sandbox(context.vm.resources, context.tenant_id, request.sandbox)
    )
    job = _job(request, spec)
    need = need_of(job, spec)
    owner = JobOwner(tenant_id=context.tenant_id, user_id=context.principal.user_id)
    keep = f"{context.principal.user_id or ''}/{request.sandbox}" if spec.persistent else ""
    job = msgspec.structs.replace(job, key=context.vm.new_id("job"), keep=keep)
    placed, result = await context.vm.jobs.run(owner, need, job)
    return _outcome(placed, result)


class TierView(Record):
    """A tier of this server. `missing` names the requirements of a tier that cannot run here."""

    tier: TierName
    engines: tuple[str, ...]
    """Without the programs of the host, of which there are many."""
    walls: tuple[str, ...]
    network: bool
    packages: bool
    persistent: bool
    missing: str | None = None


class TiersFound(Record):
    tiers: tuple[TierView, ...]


class TiersList(Request[TiersFound]):
    pass


@operation("sandbox.tiers", needs="tools:invoke", http=Http("GET", "/v1/sandboxes/tiers"))
async def tiers(context: Context, request: TiersList) -> TiersFound:
    """List the tiers of this server, the weakest first, with the engines and walls of each.

    The first request tries every wall of the machine.
    """
    return TiersFound(tiers=tuple(map(_view, await (await context.vm.jobs.tiers.scheduler()).offers())))


def _view(offer: Offer) -> TierView:
    return TierView(
        tier=offer.tier,
        engines=tuple(sorted(engine for engine in offer.engines if not engine.startswith("binary:"))),
        walls=tuple(sorted(offer.walls)),
        network=offer.egress,
        packages=offer.packages,
        persistent=offer.persistent,
        missing=offer.missing or None,
    )


def _job(request: SandboxRun, spec: SandboxSpec) -> Job:
    engine = engine_of(request.engine or ("command" if request.argv else None), spec)
    if (engine == "command") != bool(request.argv):
        raise InvalidInput("A command has `argv` and no other engine has: name the engine, and give `code` or `argv`")
    if request.argv and not request.argv[0]:
        raise InvalidInput("argv.0 is the program, and it is empty")
    if request.script and not engine.startswith("python"):
        raise InvalidInput(f"script has no meaning for {engine}, which calls no function `run`")
    files = {**spec.files, **bytes_of(request.files)}
    if engine != "command" and not request.code and not (engine == "python" and "main.py" in files):
        raise InvalidInput("`code` is missing; only Python can do with a file main.py instead")
    if name := next((name for name, text in request.env.items() if "\0" in text), None):
        raise InvalidInput(f"env.{name} holds a NUL, which no variable can")
    if any("\0" in argument for argument in request.argv):
        raise InvalidInput("argv holds a NUL, which no argument can")
    limits = limits_of(spec.limits, request.limits)
    inputs, skills = bytes_of(request.inputs), bytes_of(request.skills)
    for group in (files, inputs, skills):
        check_files(group, limits)
    if path := next((path for path in request.executable if path not in files), None):
        raise InvalidInput(f"executable: {shorten(path)!r} is not among the files")
    if path := next((path for path in inputs if "/" in path), None):
        raise InvalidInput(f"inputs: {shorten(path)!r} is not the name of a file")
    return Job(
        engine=engine,
        code=request.code,
        script=request.script,
        argv=request.argv,
        input=request.input,
        stdin=request.stdin.encode(),
        env={**request.env, **spec.env},
        files=files,
        executable=frozenset(request.executable),
        inputs=inputs,
        skills=skills,
        limits=limits,
        network=spec.hosts,
    )


def _outcome(placed: Placed, result: JobResult) -> SandboxOutcome:
    files: Mapping[str, FileContent] = shown(result.files)
    return record_from(
        SandboxOutcome,
        result,
        stdout=text_of(result.stdout),
        stderr=text_of(result.stderr),
        files=dict(files),
        executable=tuple(sorted(result.executable)),
        placed=SandboxFound(tier=placed.tier, why=placed.why),
    )
