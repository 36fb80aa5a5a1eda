"""AgentX — the entry point of applications, for a local or a remote runtime."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from agentvm.client.verbs import AgentX


class RuntimeSource(Protocol):
    """The result of `local_runtime(...)` or `remote_runtime(...)`."""

    def open(self) -> AbstractAsyncContextManager[AgentX]: ...


def create_agentx(source: RuntimeSource) -> AbstractAsyncContextManager[AgentX]:
    """Opens a runtime: `async with create_agentx(local_runtime()) as agentx: …`."""
    return source.open()
