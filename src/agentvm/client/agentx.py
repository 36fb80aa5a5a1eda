"""AgentX — the application's way in: the same object whether agents run here or elsewhere."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from agentvm.protocol.verbs import AgentX


class RuntimeSource(Protocol):
    """`local_runtime(...)` or `remote_runtime(...)`."""

    def open(self) -> AbstractAsyncContextManager[AgentX]: ...


def create_agentx(source: RuntimeSource) -> AbstractAsyncContextManager[AgentX]:
    """`async with create_agentx(local_runtime()) as agentx: …`"""
    return source.open()
