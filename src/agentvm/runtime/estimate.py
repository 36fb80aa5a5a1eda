"""Estimate — the usage of a model call that its provider has not reported. Pure."""

from agentvm.model.usage import Usage, at_least

SECOND_HIDDEN_TOKENS = 60
"""About as fast do models think that do not show it."""

CONNECTING_MS = 1_000
"""Share of the time to the first token that is spent before the model thinks."""


def hidden_tokens(most: int, asked_at: int | None, heard_at: int) -> int:
    """About how many tokens a model has thought with and not shown: it was silent until `heard_at`."""
    if not most or asked_at is None:
        return 0
    silent = heard_at - asked_at - CONNECTING_MS
    return min(most, max(0, silent) * SECOND_HIDDEN_TOKENS // 1000)


def used_by_cut_call(reported: Usage, text: str, prompt_tokens: int, hidden: int) -> Usage:
    """Returns the usage of a call that was cut off: as the provider reported, else an estimate marked as one."""
    used = at_least(reported, text)
    if used.total > used.output_tokens:
        return used
    # The provider had not said what it read, and it read all of it.
    return Usage(
        input_tokens=prompt_tokens,
        output_tokens=used.output_tokens + hidden,
        cache_read_tokens=used.cache_read_tokens,
        cache_write_tokens=used.cache_write_tokens,
        thinking_tokens=used.thinking_tokens,
        web_searches=used.web_searches,
        estimated=True,
    )
