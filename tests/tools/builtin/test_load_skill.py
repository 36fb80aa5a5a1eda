import pytest
from tests.support.session_files import call_context

from agentvm.errors import ToolFailed
from agentvm.resources.schema import check_schema
from agentvm.runtime.policy import CallFacts, decide
from agentvm.tools.base import CallContext, Caller, SkillPart
from agentvm.tools.builtin.load_skill import LoadSkill


async def test_the_model_gets_a_skill_with_the_names_of_its_files_and_the_only_tools_to_use() -> None:
    asked: list[tuple[str, str | None]] = []

    async def load(name: str, path: str | None) -> SkillPart:
        asked.append((name, path))
        return SkillPart(text="Do it.", files={"a.py": 3}, allowed_tools=("read_file",))

    context = CallContext(key="t/c", caller=Caller("acme", "ann"), deadline=0, skills=load)
    whole = await LoadSkill().run({"name": "pdf"}, context)
    assert isinstance(whole.value, dict)
    assert "use no tools but load_skill" in whole.value.pop("rule")
    assert whole.value.pop("folder") == "/skills/pdf"
    assert whole.value == {
        "skill": "Do it.",
        "files": [{"path": "a.py", "bytes": 3}],
        "onlyTools": ["read_file"],
    }
    part = await LoadSkill().run({"name": "pdf", "path": "a.py"}, context)
    assert (part.type, part.value) == ("text", "Do it.")
    assert asked == [("pdf", None), ("pdf", "a.py")]


async def test_without_skills_it_says_so_and_it_needs_nobodys_approval() -> None:
    tool = LoadSkill()
    with pytest.raises(ToolFailed, match="no skills"):
        await tool.run({"name": "pdf"}, call_context(None))
    check_schema("inputSchema", tool.spec.input_schema)
    facts = CallFacts(tool=tool.spec.name, runtime="builtin", effect=tool.effect, world=tool.world)
    assert (decide(facts, ()).do, tool.repeat) == ("allow", "safe")
