"""Single call — makes one tool call outside a conversation: there is nowhere to store pictures and files of its result."""

from functools import partial

import msgspec

from agentvm.errors import AgentVMError, ToolFailed
from agentvm.model.limits import Limits
from agentvm.model.message import ToolCall
from agentvm.runtime.call_run import Ended, make, unknown
from agentvm.runtime.calls import ToolOutcome
from agentvm.runtime.tool_results import ResultKeeper, cut
from agentvm.runtime.tool_task import ToolTask
from agentvm.runtime.tools import ToolSet
from agentvm.tools.base import CallContext, CallResult, Outcome, ResultFile, ResultImage, ResultText


async def run_once(tools: ToolSet, call: ToolCall, context: CallContext, limits: Limits) -> Ended:
    """Makes a call outside a conversation: pictures and files of its result are named, since there is nowhere to store them."""
    tool = tools.find(call.name)
    if tool is None:
        return unknown(tools, call)
    keeper = ResultKeeper(
        name=call.name,
        owner=context.caller.tenant_id,
        output_max=limits.tool_output,
        file_max_bytes=limits.attachment_bytes,
        store=_store_nowhere,
        spill=_spill_nowhere,
        output_schema=tool.output_schema,
    )
    try:
        if faults := tools.misfits(call):
            raise ToolFailed(f"The input does not fit: {'; '.join(faults)}")
        task: ToolTask[Outcome] = ToolTask(
            call.name,
            partial(make, tool, call, context),
            timeout_seconds=tool.timeout_seconds,
            seconds_max=limits.tool_seconds,
        )
        outcome = await task.run()
        return await keeper.keep(_named_files(outcome)) if isinstance(outcome, CallResult) else outcome
    except AgentVMError as error:
        return ToolOutcome(cut(str(error), limits.tool_output), True)
    except TimeoutError:
        return ToolOutcome(f"{call.name} did not finish within {tool.timeout_seconds:g} seconds", True)


def _named_files(result: CallResult) -> CallResult:
    parts = tuple(
        ResultText(text=f"[{part.media_type}, {len(part.data)} bytes]") if isinstance(part, ResultImage | ResultFile) else part
        for part in result.parts
    )
    return msgspec.structs.replace(result, parts=parts)


async def _store_nowhere(data: bytes, media_type: str, name: str | None) -> str:
    raise ToolFailed("a file outside a conversation")


async def _spill_nowhere(body: bytes) -> str | None:
    return None
