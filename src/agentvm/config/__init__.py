"""Config — every setting, where its value comes from, and what a server makes of it."""

from agentvm.config.load import from_environment, load
from agentvm.config.server import DEFAULT_DATA_DIR, DEFAULT_PORT, OtelConfig, ProviderConfig, ServerConfig

__all__ = ["DEFAULT_DATA_DIR", "DEFAULT_PORT", "OtelConfig", "ProviderConfig", "ServerConfig", "from_environment", "load"]
