"""Tools from specs — makes the tool of an image out of what its build has stored: kind, entry, schemas, sandbox."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from agentvm.drivers.base import ToolSpec
from agentvm.errors.tool import SecretNotGranted
from agentvm.model.secret import Secret
from agentvm.model.tool import Effect, Repeat, ToolRuntime, World, default_world
from agentvm.resources.tool import HttpRequestParts, ToolNeeds
from agentvm.tools.base import CallableTool, CallTraits
from agentvm.tools.code import CODE_RUNTIMES, CodeTool
from agentvm.tools.http import HttpTool
from agentvm.tools.metered_jobs import MeteredJobs
from agentvm.tools.safe_http import SafeHttp
from agentvm.tools.sandbox_jobs import rendered_sandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFactory:
    """Makes tools of specs. A spec of a kind that this server lacks makes none."""

    http: SafeHttp
    jobs: MeteredJobs

    def make(self, spec: Mapping[str, Any]) -> CallableTool | None:
        """Returns the tool of a spec; `ToolFailed` when the spec cannot be one."""
        target = cast(Mapping[str, Any], spec.get("resolved", {}).get("entry", spec))
        runtime = cast(ToolRuntime, target.get("runtime"))
        told = ToolSpec(
            name=str(spec["name"]), description=str(spec["description"]), input_schema=dict(spec.get("inputSchema") or {})
        )
        if runtime == "http":
            return HttpTool(
                spec=told,
                entry=str(target["entry"]),
                parts=msgspec.convert(target.get("http") or {}, HttpRequestParts),
                traits=_traits(target, runtime),
                http=self.http,
                secrets=_no_secrets,
                output_schema=target.get("outputSchema"),
            )
        if runtime in CODE_RUNTIMES:
            return CodeTool(
                spec=told,
                runtime=runtime,
                entry=str(target["entry"]),
                sandbox=rendered_sandbox(str(target["name"]), target.get("resolved", {}).get("sandbox") or {}),
                traits=_traits(target, runtime),
                jobs=self.jobs,
                needs=msgspec.convert(target.get("needs") or {}, ToolNeeds),
            )
        return None


async def _no_secrets(name: str, host: str) -> Secret:
    raise SecretNotGranted(name, host)


def _traits(spec: Mapping[str, Any], runtime: ToolRuntime) -> CallTraits:
    effect: Effect = spec.get("effect") or "write"
    world: World = spec.get("world") or default_world(runtime)
    repeat: Repeat | None = spec.get("repeat")
    return CallTraits.of(effect, world=world, repeat=repeat, timeout_ms=spec.get("timeoutMs"))
