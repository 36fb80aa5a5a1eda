"""Config — the settings of a server: their sources, their precedence, and changes at run time."""

from agentvm.config.load import from_environment, load
from agentvm.config.server import DEFAULT_PORT, ServerConfig
from agentvm.model.settings import (
    MEMORY,
    BillingSettings,
    LlmSettings,
    OtelSettings,
    PlanSettings,
    ProviderSettings,
    SessionSettings,
    SystemSettings,
)

__all__ = [
    "DEFAULT_PORT",
    "MEMORY",
    "BillingSettings",
    "LlmSettings",
    "OtelSettings",
    "PlanSettings",
    "ProviderSettings",
    "ServerConfig",
    "SessionSettings",
    "SystemSettings",
    "from_environment",
    "load",
]
