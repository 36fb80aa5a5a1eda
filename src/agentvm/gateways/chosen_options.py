"""Chosen options — the options of a turn in a request of a gateway, with errors in the terms of its dialect. Pure."""

from collections.abc import Mapping

import msgspec

from agentvm.errors import InvalidInput
from agentvm.errors.validation import explain
from agentvm.model.turn import TurnOptions


def read_chosen(chosen: Mapping[str, object], limit: str = "max_tokens", where: str = "The body is invalid") -> TurnOptions:
    """Returns the options. `limit` is the dialect's name for `maxTokens`, `where` the place of an error."""
    try:
        return msgspec.convert(chosen, TurnOptions)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{where}: {explain(error, TurnOptions).replace('maxTokens', limit)}") from None
