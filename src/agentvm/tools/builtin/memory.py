"""remember, forget — the notes in every prompt of the agents of a container."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from agentvm.drivers.base import ToolSpec
from agentvm.errors import ToolFailed
from agentvm.model.memory import MEMORY_ID_MAX, MEMORY_TEXT_MAX, MemoryId
from agentvm.tools.base import CallContext, CallMemory, CallResult, CallTraits, TraitsOfTool, plain_text

_TRAITS = CallTraits.of("write", world="closed", repeat="safe")

Work = Callable[[CallMemory, Mapping[str, object]], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class MemoryTool(TraitsOfTool):
    """A tool over the memories of the container."""

    spec: ToolSpec
    work: Work
    traits: CallTraits = _TRAITS

    async def run(self, input: Mapping[str, object], context: CallContext) -> CallResult:
        if context.memory is None:
            raise ToolFailed("There is no memory here: the call has no conversation, or memory.by is off on this server.")
        return CallResult(type="json", value=await self.work(context.memory, input))


async def _remember(memory: CallMemory, input: Mapping[str, object]) -> object:
    text = " ".join(plain_text(str(input["text"])).split())
    if not text:
        raise ToolFailed("The text is empty.")
    existing = next((note for note in await memory.list() if note.text == text), None)
    stored = existing or await memory.remember(text)
    if stored.proposed:
        return {"id": stored.memory_id, "proposed": True, "note": "The user has to keep it, since text of strangers was read."}
    return {"id": stored.memory_id}


async def _forget(memory: CallMemory, input: Mapping[str, object]) -> object:
    if not await memory.forget(MemoryId(str(input["id"]))):
        some = ", ".join(f"{note.memory_id} ({note.text[:40]})" for note in (await memory.list())[:20]) or "none"
        raise ToolFailed(f"There is no memory {input['id']}. There are: {some}")
    return {"forgotten": input["id"]}


def _schema(name: str, **about: object) -> dict[str, object]:
    value = {"type": "string", "minLength": 1, **about}
    return {"type": "object", "properties": {name: value}, "required": [name], "additionalProperties": False}


MEMORY_TOOLS: tuple[MemoryTool, ...] = (
    MemoryTool(
        spec=ToolSpec(
            name="remember",
            description=(
                "Remembers a fact about the user for all later conversations: one short sentence. Use it for what will matter "
                "again, such as preferences and names. The user sees and edits all of it. Never for secrets."
            ),
            input_schema=_schema("text", maxLength=MEMORY_TEXT_MAX, description="One sentence that makes sense by itself"),
        ),
        work=_remember,
    ),
    MemoryTool(
        spec=ToolSpec(
            name="forget",
            description="Deletes a memory that is wrong or not wanted any more, by its id.",
            input_schema=_schema("id", maxLength=MEMORY_ID_MAX, description="The id, such as mem_…"),
        ),
        work=_forget,
    ),
)
