"""Mailbox — asks another node, and answers those that ask this one. Everything said is a row, so nothing is lost.

A node looks for rows four times a second, and more often while it waits for an answer.
"""

from collections.abc import Awaitable, Callable

import anyio
import anyio.abc

from agentvm.cluster.membership import Membership
from agentvm.errors import AgentVMError
from agentvm.errors.cluster import NodeSilent
from agentvm.log import get_logger
from agentvm.runtime.tasks import open_tasks

logger = get_logger(__name__)

LOOK_SECONDS = 0.25
WAITING_LOOK_SECONDS = 0.05
"""Time between two looks while this node waits for an answer."""
ASK_SECONDS = 30.0
TIDY_SECONDS = 60.0
SERVED_MAX = 64
"""Questions that are answered at a time."""

Answered = tuple[bytes, Callable[[], None]]
"""An answer, and what is to be done once it is stored."""


class Mailbox:
    """The questions and answers of one node."""

    def __init__(self, membership: Membership) -> None:
        self.membership = membership
        self._asks = membership.nodes.asks
        self._replies: dict[int, bytes | None] = {}
        self._taken: set[int] = set()
        self._looked = anyio.Event()
        self._waits = anyio.Event()
        self._tidied_at = 0.0
        self._serving = anyio.Semaphore(SERVED_MAX)
        self.serve: Callable[[bytes], Awaitable[Answered]] | None = None

    async def ask(self, node_id: int, body: bytes) -> bytes:
        """The answer of a node. `NodeSilent` when it has ended, or does not answer: then it may have done what it was asked."""
        number = await self._asks.put(node_id, body)
        self._replies[number] = None
        self._waits.set()
        try:
            with anyio.move_on_after(ASK_SECONDS):
                while (reply := self._replies[number]) is None:
                    if self.membership.rows and node_id not in self.membership.up:
                        break
                    await self._looked.wait()
        finally:
            del self._replies[number]
            with anyio.CancelScope(shield=True):
                await self._asks.drop(number)
        if reply is None:
            raise NodeSilent(f"Node {node_id} does not answer; try again in a few seconds")
        return reply

    async def run(self) -> None:
        """Answers, until cancelled."""
        async with open_tasks() as tasks:
            while True:
                try:
                    await self._look(tasks)
                except AgentVMError as error:
                    logger.warning("mailbox_not_read", code=error.code, error=str(error))
                self._looked.set()
                self._looked, self._waits = anyio.Event(), anyio.Event()
                if self._replies:
                    await anyio.sleep(WAITING_LOOK_SECONDS)
                else:
                    with anyio.move_on_after(LOOK_SECONDS):
                        await self._waits.wait()

    async def _look(self, tasks: anyio.abc.TaskGroup) -> None:
        inbox, replies = await self._asks.look([*self._replies])
        for number, body in replies:
            if number in self._replies:
                self._replies[number] = body
        self._taken &= {number for number, _ in inbox}
        for number, body in inbox:
            if number not in self._taken:
                self._taken.add(number)
                tasks.start_soon(self._answer, number, body)
        if self.membership.is_leading() and (now := anyio.current_time()) > self._tidied_at + TIDY_SECONDS:
            self._tidied_at = now
            await self._asks.drop_old()

    async def _answer(self, number: int, body: bytes) -> None:
        assert self.serve is not None
        async with self._serving:
            reply, after = await self.serve(body)
        try:
            await self._asks.reply(number, reply)
        except AgentVMError as error:
            logger.error("answer_not_stored", code=error.code, error=str(error))
        after()
