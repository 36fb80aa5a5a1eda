"""Registry — the drivers by name, and the requirements for opening each.

Names lead to strings, not to modules: a provider's SDK costs seconds and tens of megabytes, so only the drivers in use are
imported.
"""

import importlib
from contextlib import AbstractAsyncContextManager

from agentvm.drivers.base import Driver, DriverSettings, OpenDriver
from agentvm.errors import DriverNotFound, MissingKey

DRIVERS: dict[str, str] = {
    "anthropic": "agentvm.drivers.anthropic:open_driver",
    "local": "agentvm.drivers.local:open_driver",
    "openai": "agentvm.drivers.openai:open_driver",
    "scripted": "agentvm.drivers.scripted:open_driver",
}

KEY_VARIABLES: dict[str, str] = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
"""The drivers that need a key, and the variable each provider's own tools read it from."""


def needs_key(name: str, settings: DriverSettings) -> bool:
    """Whether this driver cannot be opened without a key. A chat-completions endpoint of your own may need none."""
    return name in KEY_VARIABLES and not (name == "openai" and settings.base_url is not None)


def default_model(driver: str) -> str | None:
    """Returns the default model of a driver."""
    module = importlib.import_module(DRIVERS[driver].partition(":")[0])
    model: str | None = getattr(module, "DEFAULT_MODEL", None)
    return model


def open_driver(name: str, settings: DriverSettings) -> AbstractAsyncContextManager[Driver]:
    """The driver of this name, to be entered at start-up and left at shutdown. Raises DriverNotFound or MissingKey."""
    try:
        module, _, attribute = DRIVERS[name].partition(":")
    except KeyError:
        raise DriverNotFound(f"no driver named {name!r}; known: {', '.join(sorted(DRIVERS))}") from None
    if needs_key(name, settings) and settings.api_key is None:
        raise MissingKey(
            f"the driver {name!r} needs a key: set LLM_API_KEY or {KEY_VARIABLES[name]}, "
            "or use the embedded model, which needs none: --model local"
        )
    opener: OpenDriver = getattr(importlib.import_module(module), attribute)
    return opener(settings)
