"""AgentVM — a self-hosted, multi-tenant AI-agent runtime that speaks the AgentX protocol.

The public names are loaded when they are first used: `import agentvm` alone costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from agentvm.version import VERSION as __version__

if TYPE_CHECKING:
    from agentvm.client.agentx import create_agentx
    from agentvm.client.remote import remote_runtime
    from agentvm.client.verbs import AgentX, RuntimeView
    from agentvm.config import ServerConfig
    from agentvm.drivers.scripted import ScriptedDriver
    from agentvm.errors import AgentVMError
    from agentvm.model.definition import Definition
    from agentvm.model.image import ImageConfig
    from agentvm.model.message import Message
    from agentvm.model.secret import Secret
    from agentvm.protocol.link import WireEvent
    from agentvm.runtime.function_tool import tool
    from agentvm.server.local import local_runtime, start_server

_HOMES = {
    "AgentVMError": "agentvm.errors",
    "AgentX": "agentvm.client.verbs",
    "Definition": "agentvm.model.definition",
    "ImageConfig": "agentvm.model.image",
    "Message": "agentvm.model.message",
    "RuntimeView": "agentvm.client.verbs",
    "ScriptedDriver": "agentvm.drivers.scripted",
    "Secret": "agentvm.model.secret",
    "ServerConfig": "agentvm.config",
    "WireEvent": "agentvm.client.verbs",
    "create_agentx": "agentvm.client.agentx",
    "local_runtime": "agentvm.server.local",
    "remote_runtime": "agentvm.client.remote",
    "start_server": "agentvm.server.local",
    "tool": "agentvm.runtime.function_tool",
}

__all__ = [
    "AgentVMError",
    "AgentX",
    "Definition",
    "ImageConfig",
    "Message",
    "RuntimeView",
    "ScriptedDriver",
    "Secret",
    "ServerConfig",
    "WireEvent",
    "__version__",
    "create_agentx",
    "local_runtime",
    "remote_runtime",
    "start_server",
    "tool",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'agentvm' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
