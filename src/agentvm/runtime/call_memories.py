"""Call memories — the memories of a container as one call of an agent uses them."""

import hashlib
from collections.abc import Sequence

from agentvm.errors import ToolFailed
from agentvm.model.ids import MessageId
from agentvm.model.memory import Memory, MemoryId
from agentvm.model.message import ToolCall, ToolCallMessage
from agentvm.runtime.accepted import Accepted
from agentvm.runtime.ports import Ports
from agentvm.runtime.session_log import SessionLog


class CallMemories:
    """Implements `agentvm.tools.base.CallMemory`."""

    def __init__(self, ports: Ports, log: SessionLog, accepted: Accepted, call: ToolCall, *, tainted: bool) -> None:
        self._ports = ports
        self._log = log
        self._accepted = accepted
        self._call = call
        self._tainted = tainted
        """Whether untrusted text was read before the call."""
        self._key = (log.tenant_id, log.container_id)

    async def list(self) -> Sequence[Memory]:
        return [memory for memory in await self._ports.memories.recall(self._key) if not memory.proposed]

    async def remember(self, text: str) -> Memory:
        # A call that is made again writes its memory once.
        name = hashlib.sha256(f"{self._accepted.state.turn_id}/{self._call.id}".encode()).hexdigest()[:24]
        now = self._ports.clock()
        memory = Memory(
            memory_id=MemoryId(f"mem_{name}"),
            text=text,
            by="agent",
            proposed=self._tainted,
            session_id=self._log.session_id,
            message_id=await self._find_message(),
            created_at=now,
            updated_at=now,
        )
        await self._ports.memories.put(self._key, memory)
        return memory

    async def forget(self, memory_id: MemoryId) -> bool:
        if self._tainted:
            raise ToolFailed("Nothing is forgotten after text of strangers was read. The user can delete memories.")
        return await self._ports.memories.delete(self._key, memory_id)

    async def _find_message(self) -> MessageId:
        """Returns the message of the call; for a call of a program that of the program's call."""
        log, state, call_id = self._log, self._accepted.state, self._call.id
        history = await self._ports.recall(log.tenant_id, log.container_id, log.session_id, state.user_message_id)
        for message in reversed(history.messages):
            if isinstance(message, ToolCallMessage) and message.turn_id == state.turn_id:
                if f"{call_id}.".startswith(f"{message.tool_call.id}."):
                    return message.id
        return state.user_message_id
