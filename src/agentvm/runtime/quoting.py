"""Quoting — looks up what the prompts of a turn tell beside the conversation: the same for all its steps."""

from agentvm.drivers.conversation import Exchange
from agentvm.model.ids import MessageId
from agentvm.runtime import memories, quoted_context
from agentvm.runtime.ports import Ports
from agentvm.runtime.session_log import SessionLog
from agentvm.storage.base import Recalled


async def quote(ports: Ports, log: SessionLog, history: Recalled, asked: MessageId) -> Exchange:
    """Returns the exchange before the message that is answered; none without anything to tell."""
    if ports.settings_of(log.tenant_id).memory.by == "off":
        return ()
    known = await ports.memories.recall((log.tenant_id, log.container_id))
    if not known:
        return ()
    question = quoted_context.find_question(history.messages, asked)
    return quoted_context.quote(memories.choose(known, question))
