"""What another node asks for is carried out with the rights of whoever asked that node."""

import msgspec
from tests.cluster.conftest import gate, nodes, open_node
from tests.cluster.talking import Talker

from agentvm.model.principal import Principal
from agentvm.operations.forwarded import serve
from agentvm.operations.forwarding import Forwarded, ForwardedReply
from agentvm.operations.message import MessageSend
from agentvm.vm import AgentVM

__all__ = ["gate", "nodes", "open_node"]


async def test_a_principal_without_the_permission_is_refused_there_too(nodes: tuple[AgentVM, AgentVM]) -> None:
    a = Talker(nodes[0])
    image_id, _ = await a.create()
    request = msgspec.json.encode(MessageSend(image_id=image_id, content="hello"))  # type: ignore[arg-type]
    asked = Forwarded("message.send", request, Principal(tenant_id=a.peer.tenant_id), a.peer.tenant_id, "r1", None)
    body, _ = await serve(nodes[1], msgspec.json.encode(asked))
    reply = msgspec.json.decode(body, type=ForwardedReply)
    assert (reply.reply, reply.code) == (None, "permission_denied")
