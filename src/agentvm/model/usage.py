"""Usage — tokens as the provider reports them."""

import msgspec

from agentvm.model.base import Record


class Usage(Record):
    """Tokens of one model call, or one turn. `estimated` when the provider did not report them."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    thinking_tokens: int = 0
    web_searches: int = 0
    """Searches that the provider made by itself, and bills one by one."""
    estimated: bool = False

    @property
    def total(self) -> int:
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            thinking_tokens=self.thinking_tokens + other.thinking_tokens,
            web_searches=self.web_searches + other.web_searches,
            estimated=self.estimated or other.estimated,
        )

    def __sub__(self, other: "Usage") -> "Usage":
        """Returns the usage without a part of it; never negative."""
        return Usage(
            input_tokens=max(0, self.input_tokens - other.input_tokens),
            output_tokens=max(0, self.output_tokens - other.output_tokens),
            cache_read_tokens=max(0, self.cache_read_tokens - other.cache_read_tokens),
            cache_write_tokens=max(0, self.cache_write_tokens - other.cache_write_tokens),
            thinking_tokens=max(0, self.thinking_tokens - other.thinking_tokens),
            web_searches=max(0, self.web_searches - other.web_searches),
            estimated=self.estimated,
        )


REPORTED_TOKENS_MAX = 10**12
"""More than any call can have: a larger report is a provider's mistake, and would not fit into the ledger."""


def bounded(usage: Usage) -> Usage:
    names = tuple(name for name in Usage.__struct_fields__ if name != "estimated")
    counts = [getattr(usage, name) for name in names]
    if all(0 <= count <= REPORTED_TOKENS_MAX for count in counts):
        return usage
    within = {name: min(max(0, count), REPORTED_TOKENS_MAX) for name, count in zip(names, counts, strict=True)}
    return Usage(**within, estimated=True)


NO_USAGE = Usage(input_tokens=0, output_tokens=0)


def at_least(reported: Usage, produced: str) -> Usage:
    """Returns the usage of a call that was cut off: as the provider reported, else an estimate marked as one.

    Some providers report a first token at once and the rest at the end, so the produced text counts at least.
    """
    tokens = estimate_tokens(produced) if produced else 0
    if reported.output_tokens >= tokens:
        return reported
    return msgspec.structs.replace(reported, output_tokens=tokens, estimated=True)


def estimate_tokens(text: str) -> int:
    """On the safe side for English (about 4 bytes each) and Chinese (about 3)."""
    return (len(text) if text.isascii() else len(text.encode())) // 3 + 1
