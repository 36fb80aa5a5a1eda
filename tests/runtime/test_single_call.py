from tests.runtime.fixtures import run_tool, tool

from agentvm.runtime.tools import ToolSet
from agentvm.tools.base import CallResult, ResultFile, ResultText


async def test_files_of_a_result_are_named_since_there_is_nowhere_to_store_them() -> None:
    async def give(arguments: dict[str, object]) -> object:
        return CallResult(type="content", parts=(ResultText(text="a"), ResultFile(data=b"123", media_type="text/csv")))

    outcome = await run_tool(ToolSet([tool("give", give)]), "give")
    assert "[text/csv, 3 bytes]" in str(outcome)
