"""Price — the price of a model call, in nano-USD.

The table is that of `genai-prices`, which many keep up to date and which knows tiers, caches and thinking; a row of the
operator takes precedence. It is loaded with the first request, because it costs a third of a second and 24 MB.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from agentvm.log import get_logger
from agentvm.model.money import ModelRate, to_nano
from agentvm.model.usage import Usage

if TYPE_CHECKING:
    from genai_prices.types import MatchLogic

logger = get_logger(__name__)

FREE = frozenset({"local", "scripted"})
"""Drivers of models that run on this machine."""

WEB_SEARCH_NANO = {"anthropic": 10_000_000}
"""The price of one search that a provider makes, by driver: the table knows tokens only."""

_DATE = r"(?:latest|preview|exp|beta|stable|default|\d{8}|\d{4}-\d{2}-\d{2}|\d{2}-\d{2,4}|\d{3,4}|v\d+(?::\d+)?)"
_RELEASE = re.compile(rf"(?:[-@:.]?{_DATE}(?:[-@:.]{_DATE}){{0,2}})?")

_SOME = Usage(input_tokens=10**9, output_tokens=10**9, cache_read_tokens=10**9, cache_write_tokens=10**9)


class Prices:
    """Prices of models. `own` is keyed by `<provider>/<model>`, or `<provider>` for all of its models; drivers are named
    likewise."""

    def __init__(self, own: Mapping[str, ModelRate] | None = None) -> None:
        self._own = dict(own or {})

    def replace(self, own: Mapping[str, ModelRate]) -> None:
        """Replaces the operator's prices for later calls; amounts already charged stay."""
        self._own = dict(own)

    def as_now(self) -> "Prices":
        """Returns a copy that a later `replace` does not change."""
        priced = Prices()
        priced._own = self._own
        return priced

    def cost(self, driver: str, model: str, usage: Usage, at: int, provider: str = "") -> int | None:
        """Returns the price of usage at that time (ms since 1970); None when the model's price is unknown.

        `provider` is the operator's name for the account; its price takes precedence over the driver's.
        """
        searches = usage.web_searches * WEB_SEARCH_NANO.get(driver, 0)
        rate = self._rate((provider, driver), model)
        if rate is not None:
            return rate.cost(usage) + (searches if rate.web_search is None else 0)
        if driver in FREE:
            return 0
        cost = _look_up(driver, model, usage, at)
        return None if cost is None else cost + searches

    def own_cost(self, names: Sequence[str], model: str, usage: Usage) -> int | None:
        """Returns the operator's price, for the first of these names that has one; None when none has."""
        rate = self._rate(names, model)
        return None if rate is None else rate.cost(usage)

    def _rate(self, names: Sequence[str], model: str) -> ModelRate | None:
        if not self._own:
            return None
        rates = (self._own.get(f"{name}/{model}") or self._own.get(name) for name in names)
        return next((rate for rate in rates if rate is not None), None)

    def is_free(self, driver: str, model: str, provider: str = "") -> bool:
        """Whether its calls cost nothing: the operator may charge for a model of this machine, too."""
        return driver in FREE and self.cost(driver, model, _SOME, 0, provider) == 0


def _look_up(driver: str, model: str, usage: Usage, at: int) -> int | None:
    from genai_prices import Usage as Counted  # noqa: PLC0415  # see above
    from genai_prices import calc_price  # noqa: PLC0415

    counted = Counted(
        # The table counts tokens read from or written to a cache as input, too; our numbers do not overlap.
        input_tokens=usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        output_tokens=usage.output_tokens,
    )
    try:
        price = calc_price(counted, model, provider_id=driver, genai_request_timestamp=datetime.fromtimestamp(at / 1000, UTC))
    except (LookupError, ValueError) as problem:
        logger.debug("model_without_price", driver=driver, model=model, problem=str(problem))
        return None
    if not _is_named(price.model.match, model.lower()) and price.model.id.lower() != model.lower():
        # The table matches a model by its prefix, and a variant may cost many times as much.
        logger.debug("model_without_price", driver=driver, model=model, problem=f"is not a known variant of {price.model.id}")
        return None
    return to_nano(price.total_price)


def _is_named(match: "MatchLogic", name: str) -> bool:
    """Whether the table names this very model, or names it but for its date or release."""
    from genai_prices import types  # noqa: PLC0415  # see above

    match match:
        case types.ClauseOr(or_=clauses):
            return any(_is_named(clause, name) for clause in clauses)
        case types.ClauseAnd(and_=clauses):
            return all(_is_named(clause, name) for clause in clauses)
        case types.ClauseStartsWith(starts_with=prefix):
            return name.startswith(prefix) and _RELEASE.fullmatch(name[len(prefix) :]) is not None
        case types.ClauseEquals() | types.ClauseRegex():
            return bool(match.is_match(name))
        case _:
            return False
