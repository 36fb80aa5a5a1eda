from typing import get_args

import pytest

from agentvm.model.tool import OPEN_RUNTIMES, Effect, ToolRuntime, default_repeat, default_world


@pytest.mark.parametrize("runtime", get_args(ToolRuntime))
def test_a_tool_is_open_to_the_world_exactly_if_it_reaches_other_servers(runtime: ToolRuntime) -> None:
    assert default_world(runtime) == ("open" if runtime in {"http", "openapi", "mcp", "provider"} else "closed")
    assert runtime in OPEN_RUNTIMES or default_world(runtime) == "closed"


@pytest.mark.parametrize("effect", get_args(Effect))
def test_only_a_tool_that_reads_is_repeated_unless_its_author_says_otherwise(effect: Effect) -> None:
    assert default_repeat(effect) == ("safe" if effect == "read" else "never")
