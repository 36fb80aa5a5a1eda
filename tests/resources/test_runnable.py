import pytest

from agentvm.model.resource import ResourceType
from agentvm.resources.runnable import why_idle


@pytest.mark.parametrize(
    ("kind", "content", "word"),
    [
        ("tools", {"runtime": "http", "entry": "https://x.test"}, "runtime http"),
        ("tools", {"runtime": "builtin", "entry": "hammer"}, "'hammer'"),
        ("sandboxes", {}, "sandboxes"),
        ("knowledge", {}, "search knowledge"),
    ],
)
def test_what_does_nothing_here_has_a_reason(kind: ResourceType, content: dict[str, object], word: str) -> None:
    assert word in (why_idle(kind, content, ("clock",)) or "")


@pytest.mark.parametrize("kind", ["prompts", "agents"])
def test_prompts_agents_and_built_in_tools_act(kind: ResourceType) -> None:
    assert why_idle(kind, {}, ()) is None
    assert why_idle("tools", {"runtime": "builtin", "entry": "clock"}, ("clock",)) is None
