"""One turn of a server in this process."""

import anyio
import anyio.lowlevel

from agentvm.model.ids import ContainerId
from agentvm.operations.dispatch import answer
from agentvm.operations.image_build import ImageCreate
from agentvm.operations.message import MessageSend
from agentvm.vm import AgentVM


async def one_turn(vm: AgentVM, text: str = "hello") -> None:
    peer = vm.attach()
    container = peer.store.container(ContainerId("c1"))
    if await container.create(1):
        await answer(peer, ImageCreate(container_id="c1"), "r")
    image = (await container.list_images())[0]
    before = sum(vm.monitor.metrics.turns.values())
    await answer(peer, MessageSend(image_id=image.image_id, content=text), "r")
    with anyio.fail_after(60):
        while sum(vm.monitor.metrics.turns.values()) == before:
            await anyio.lowlevel.checkpoint()
    vm.detach(peer)
