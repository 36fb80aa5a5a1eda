import pytest

from agentvm.model.provider_tool import USES_MAX, uses_of, why_not_run


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("anthropic/web_search_20260209", None),
        ("anthropic/web_fetch_20260209", None),
        ("anthropic/code_execution_20250825", "run_python"),
        ("anthropic/bash_20250124", "not a tool that the provider runs"),
        ("openai/web_search", "an API that runs no tools"),
    ],
)
def test_only_tools_that_the_provider_runs_and_counts_are_offered(entry: str, why: str | None) -> None:
    told = why_not_run(entry)
    assert told is None if why is None else why in (told or "")


@pytest.mark.parametrize(("options", "uses"), [({}, USES_MAX), ({"max_uses": 2}, 2), ({"max_uses": 999}, USES_MAX)])
def test_the_uses_of_one_call_have_a_bound(options: dict[str, object], uses: int) -> None:
    assert uses_of(options) == uses
