"""Abilities — the kinds of content that a model takes."""

from collections.abc import Callable
from typing import NamedTuple

from agentvm.drivers.base import Driver


class ModelAbilities(NamedTuple):
    """Whether a model takes pictures and tools; None where only its file tells. `demo` for one that is unreliable."""

    pictures: bool | None = True
    tools: bool | None = True
    demo: bool = False


def abilities_of(driver: Driver, model: str) -> ModelAbilities:
    """Returns the abilities that the driver declares (`abilities`); by default all."""
    abilities: Callable[[str], ModelAbilities] | None = getattr(driver, "abilities", None)
    return ModelAbilities() if abilities is None else abilities(model)
