"""Item references — items of earlier responses that a request names by their ids, in place of their content."""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from agentvm.errors import InvalidInput, NotFound, not_found
from agentvm.gateways.openai.response_body import InputItem
from agentvm.gateways.openai.response_turns import RESPONSE_PREFIX, find_response
from agentvm.gateways.talk import Talk
from agentvm.sessions.seeding import SEEDS_MAX

REFERENCE: Final = "item_reference"
_ITEM_ID: Final = re.compile(r"(?:msg|rs|mcp|fc)_(turn_\w+(?:-[0-9]+)?)_([0-9]{1,5})")


async def resolved(talk: Talk, items: Sequence[InputItem]) -> tuple[InputItem, ...]:
    """Returns the items with the content of each reference; `NotFound` for an item of no response within reach."""
    names = [item.id or "" for item in items if item.type == REFERENCE]
    if len(names) > SEEDS_MAX:
        raise InvalidInput(f"input has at most {SEEDS_MAX:,} references to items")
    outputs: dict[str, Sequence[Any]] = {}
    contents = {name: await _content(talk, name, outputs) for name in names}
    return tuple(contents[item.id or ""] if item.type == REFERENCE else item for item in items)


async def _content(talk: Talk, name: str, outputs: dict[str, Sequence[Any]]) -> InputItem:
    """Returns the item of that id. `outputs` are those of the responses that were read before."""
    parts = _ITEM_ID.fullmatch(name)
    if parts is None:
        raise not_found("Item", name)
    response, place = parts[1], int(parts[2])
    if response not in outputs:
        try:
            stored = await find_response(talk, f"{RESPONSE_PREFIX}{response}")
            outputs[response] = (await stored.read(talk))[0].response["output"]
        except NotFound:
            raise not_found("Item", name) from None
    item = outputs[response][place] if place < len(outputs[response]) else None
    if item is None or item["id"] != name:
        raise not_found("Item", name)
    return msgspec.convert(item, InputItem)
