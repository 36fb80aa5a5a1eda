"""Provider tool — which tools a model's provider runs by itself, and how often in one call of the model."""

import re
from collections.abc import Mapping

USES_MAX = 10
"""Calls of one tool in one model call; its options can say fewer."""

_RUN = {"anthropic": re.compile(r"(web_search|web_fetch)_\d{8}")}


def why_not_run(entry: str) -> str | None:
    """Returns why no provider runs the tool of this entry, `<driver>/<type>`, for AgentVM; None if one does."""
    driver, _, type_ = entry.partition("/")
    if driver not in _RUN:
        return (
            f"{entry}: models of {driver} are asked through an API that runs no tools; use the built-in web_search and "
            "web_fetch, which work with any model"
        )
    if _RUN[driver].fullmatch(type_) is None:
        return (
            f"{entry} is not a tool that the provider runs and counts; those are web_search_<date> and web_fetch_<date>. "
            "Code runs in a sandbox of this server: run_python"
        )
    return None


def uses_of(options: Mapping[str, object]) -> int:
    """Returns how often the provider may run a tool in one model call."""
    uses = options.get("max_uses")
    return uses if isinstance(uses, int) and 0 < uses <= USES_MAX else USES_MAX
