from collections.abc import Sequence

import pytest
from tests.conformance.memories import memory
from tests.support.session_files import call_context

from agentvm.errors import ToolFailed
from agentvm.model.memory import Memory, MemoryId
from agentvm.resources.schema import check_schema, misfits
from agentvm.runtime.policy import CallFacts, decide
from agentvm.tools.base import CallContext, Caller
from agentvm.tools.builtin.memory import MEMORY_TOOLS

REMEMBER, FORGET = MEMORY_TOOLS


class KeptMemories:
    """Memories in a list."""

    def __init__(self) -> None:
        self.kept: list[Memory] = []

    async def list(self) -> Sequence[Memory]:
        return self.kept

    async def remember(self, text: str) -> Memory:
        self.kept.append(memory(len(self.kept), text))
        return self.kept[-1]

    async def forget(self, memory_id: MemoryId) -> bool:
        before = len(self.kept)
        self.kept = [one for one in self.kept if one.memory_id != memory_id]
        return len(self.kept) < before


def context(memories: KeptMemories) -> CallContext:
    return CallContext(key="t/c", caller=Caller("acme", "ann"), deadline=0, memory=memories)


async def test_a_fact_is_remembered_once_and_forgotten_by_its_id() -> None:
    memories = KeptMemories()
    first = await REMEMBER.run({"text": " Likes\n tea\x1b[31m "}, context(memories))
    again = await REMEMBER.run({"text": "Likes tea[31m"}, context(memories))
    assert first.value == again.value == {"id": "mem_0"}
    assert [one.text for one in memories.kept] == ["Likes tea[31m"]
    with pytest.raises(ToolFailed, match=r"There are: mem_0 \(Likes tea"):
        await FORGET.run({"id": "mem_9"}, context(memories))
    assert (await FORGET.run({"id": "mem_0"}, context(memories))).value == {"forgotten": "mem_0"}
    assert memories.kept == []


async def test_nothing_is_remembered_without_words_or_without_a_conversation() -> None:
    with pytest.raises(ToolFailed, match="empty"):
        await REMEMBER.run({"text": " \x00 "}, context(KeptMemories()))
    with pytest.raises(ToolFailed, match=r"memory\.by"):
        await REMEMBER.run({"text": "x"}, call_context(None))
    assert misfits("input", REMEMBER.spec.input_schema, {"text": "x" * 501})


def test_the_tools_need_nobodys_approval_and_may_be_repeated() -> None:
    for made in MEMORY_TOOLS:
        check_schema("inputSchema", made.spec.input_schema)
        facts = CallFacts(tool=made.spec.name, runtime="builtin", effect=made.effect, world=made.world)
        assert (decide(facts, ()).do, made.repeat) == ("allow", "safe")
