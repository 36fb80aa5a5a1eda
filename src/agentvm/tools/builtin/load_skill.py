"""load_skill — reads a skill of the agent, or one of its files."""

from collections.abc import Mapping

from agentvm.errors import ToolFailed
from agentvm.tools.base import CallContext, CallResult, CallTraits, TraitsOfTool, text_result, tool_spec

_SPEC = tool_spec(
    "load_skill",
    (
        "Reads a skill of this agent: instructions for a task, and the names of its files. With path it reads one of the "
        "files. Read the skill before you begin with a task that fits its description."
    ),
    ["name"],
    {
        "name": {"type": "string", "minLength": 1, "maxLength": 64},
        "path": {"type": "string", "minLength": 1, "maxLength": 200, "description": "A file of the skill"},
    },
)


class LoadSkill(TraitsOfTool):
    """The tool `load_skill`."""

    spec = _SPEC
    traits = CallTraits.of("read", world="closed", timeout_ms=30_000)

    async def run(self, input: Mapping[str, object], context: CallContext) -> CallResult:
        if context.skills is None:
            raise ToolFailed("This agent has no skills: its image names none.")
        path = input.get("path")
        part = await context.skills(str(input["name"]), None if path is None else str(path))
        if path is not None:
            return text_result(part.text)
        result: dict[str, object] = {"skill": part.text}
        if part.files:
            result["files"] = [{"path": path, "bytes": size} for path, size in part.files.items()]
            result["folder"] = f"/skills/{input['name']}"
        if part.allowed_tools is not None:
            result["onlyTools"] = list(part.allowed_tools)
            result["rule"] = "While you follow this skill, use no tools but load_skill and those of onlyTools that you have."
        return CallResult(type="json", value=result)
