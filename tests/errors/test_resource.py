from agentvm.errors.resource import PromptUnresolved, ResourceCycle, ResourceNotFound, ResourceUriInvalid


def test_a_cycle_is_told_with_the_way_round() -> None:
    error = ResourceCycle(["resource://prompts/a", "resource://prompts/b", "resource://prompts/a"])
    assert "resource://prompts/a -> resource://prompts/b -> resource://prompts/a" in str(error)
    assert error.details == {"path": ["resource://prompts/a", "resource://prompts/b", "resource://prompts/a"]}


def test_what_a_prompt_lacks_is_named_for_people_and_programs() -> None:
    error = PromptUnresolved("resource://prompts/hello", ["name", "place"])
    assert "name, place" in str(error)
    assert error.details == {"unresolved": ["name", "place"]}


def test_a_peers_own_text_is_shortened() -> None:
    assert len(str(ResourceNotFound("x" * 10_000))) < 300
    assert len(str(ResourceUriInvalid("x" * 10_000, "why"))) < 300
