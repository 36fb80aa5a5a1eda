"""Mailbox — sends requests to other nodes, and answers theirs.

A request is sent over the bus if the node is connected to it, and answered in the same way. Without an answer soon, or without
a bus, it becomes a row, under the same name: a node that has already executed it gives the same answer again. Rows are looked
for four times a second, and more often while an answer is awaited.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio
import anyio.abc
import msgspec

from agentvm.cluster.bus import Hearing
from agentvm.cluster.membership import Membership
from agentvm.errors import AgentVMError
from agentvm.errors.cluster import NodeSilent
from agentvm.log import get_logger
from agentvm.model.ids import Clock
from agentvm.runtime.tasks import open_tasks

logger = get_logger(__name__)

POLL_SECONDS = 0.25
WAITING_POLL_SECONDS = 0.05
"""Time between two looks while this node waits for an answer."""
BUS_TIMEOUT_SECONDS = 1.5
"""Without an answer over the bus for this long, a question becomes a row."""
ANSWER_TIMEOUT_SECONDS = 30.0
CLEANUP_INTERVAL_SECONDS = 60.0
SERVED_MAX = 64
"""Questions that are answered at a time."""
QUESTION_MS = 60_000
"""Age at which a request over the bus is refused, because it may be a replayed message."""
RETENTION_SECONDS = 2 * QUESTION_MS / 1000 + ANSWER_TIMEOUT_SECONDS
"""Time for which answers are kept, for a repeated request."""

OPERATION = "operation"
"""The kind of questions that are operations; see `agentvm.operations.forwarded`."""

Answered = tuple[bytes, Callable[[], None]]
"""An answer, and a function to call once it is on its way."""


class NodeQuestion(msgspec.Struct, frozen=True, tag=True):
    """A request of a node to another, under a name that is used once."""

    name: str
    from_node: int
    asked_at: int
    body: bytes
    kind: str = OPERATION


class NodeAnswer(msgspec.Struct, frozen=True, tag=True):
    """The answer to the question of that name."""

    name: str
    body: bytes


_encoder = msgspec.msgpack.Encoder()
_letters = msgspec.msgpack.Decoder(NodeQuestion | NodeAnswer)
_questions = msgspec.msgpack.Decoder(NodeQuestion)


@dataclass(slots=True)
class _Awaited:
    arrived: anyio.Event = field(default_factory=anyio.Event)
    body: bytes | None = None
    row: int | None = None


@dataclass(slots=True)
class _Served:
    until: float
    done: anyio.Event = field(default_factory=anyio.Event)
    body: bytes = b""
    after: Callable[[], None] | None = None

    def finish(self) -> None:
        """Calls the function that follows the answer; once."""
        after, self.after = self.after, None
        if after is not None:
            after()


class Mailbox:
    """The questions and answers of one node."""

    def __init__(self, membership: Membership, clock: Clock, hearing: Hearing | None = None) -> None:
        self.membership = membership
        self._clock, self._hearing = clock, hearing
        self._asks = membership.nodes.asks
        self._awaited: dict[str, _Awaited] = {}
        self._served: dict[str, _Served] = {}
        self._taken: set[int] = set()
        self._last = 0
        self._waits = anyio.Event()
        self._tidied_at = 0.0
        self._serving = anyio.Semaphore(SERVED_MAX)
        self._letters: list[NodeQuestion] = []
        self._lettered = anyio.Event()
        self.serving: dict[str, Callable[[bytes], Awaitable[Answered]]] = {}
        """Functions that answer, by the kind of question."""
        if hearing is not None:
            hearing.bus.listen(_topic(membership.node_id), self._receive)

    async def ask(self, node_id: int, body: bytes, kind: str = OPERATION) -> bytes:
        """The answer of a node. `NodeSilent` when it has ended or does not answer: then it may have executed the request."""
        self._last += 1
        own = self.membership.node_id
        question = NodeQuestion(f"{own}.{self._last}", own, self._clock(), body, kind)
        awaited = self._awaited[question.name] = _Awaited()
        try:
            with anyio.move_on_after(ANSWER_TIMEOUT_SECONDS):
                if not await self._ask_on_bus(node_id, question, awaited):
                    await self._ask_by_row(node_id, question, awaited)
        finally:
            del self._awaited[question.name]
            if awaited.row is not None:
                await self._drop(awaited.row)
        if awaited.body is None:
            raise NodeSilent(f"Node {node_id} does not answer; try again in a few seconds")
        return awaited.body

    async def ask_others(self, body: bytes, kind: str, seconds: float) -> None:
        """Asks every node that is connected to the bus; returns when all have answered, or after this time."""
        hearing = self._hearing
        if hearing is None:
            return
        with anyio.move_on_after(seconds):
            async with open_tasks() as tasks:
                for node_id in self.membership.up - {self.membership.node_id}:
                    if hearing.is_heard(node_id):
                        tasks.start_soon(self._ask_other, node_id, body, kind)

    async def _ask_other(self, node_id: int, body: bytes, kind: str) -> None:
        try:
            await self.ask(node_id, body, kind)
        except AgentVMError as error:
            logger.info("node_not_asked", node_id=node_id, code=error.code, error=str(error))

    async def _drop(self, row: int) -> None:
        """A row that cannot be deleted now is deleted later; the answer does not depend on it."""
        with anyio.CancelScope(shield=True):
            try:
                await self._asks.drop(row)
            except AgentVMError as error:
                logger.info("question_not_dropped", code=error.code, error=str(error))

    async def _ask_on_bus(self, node_id: int, question: NodeQuestion, awaited: _Awaited) -> bool:
        hearing = self._hearing
        if hearing is None or not hearing.is_heard(node_id):
            return False
        if not hearing.bus.publish(_topic(node_id), _encoder.encode(question)):
            return False
        with anyio.move_on_after(BUS_TIMEOUT_SECONDS):
            await awaited.arrived.wait()
        return awaited.body is not None

    async def _ask_by_row(self, node_id: int, question: NodeQuestion, awaited: _Awaited) -> None:
        awaited.row = await self._asks.put(node_id, _encoder.encode(question))
        self._waits.set()
        while awaited.body is None and not self.membership.has_ended(node_id):
            # Looked at again when its node has ended: nobody answers then.
            with anyio.move_on_after(POLL_SECONDS):
                await awaited.arrived.wait()

    def _receive(self, body: bytes) -> None:
        try:
            letter = _letters.decode(body)
        except msgspec.DecodeError:
            # Of a newer version: its row is not understood either, and answered so.
            return
        if isinstance(letter, NodeAnswer):
            self._arrive(letter.name, letter.body)
        elif abs(self._clock() - letter.asked_at) > QUESTION_MS:
            logger.warning("question_too_old", from_node=letter.from_node)
        elif len(self._letters) < SERVED_MAX:
            # More than that wait for their rows.
            self._letters.append(letter)
            self._lettered.set()

    def _arrive(self, name: str, body: bytes) -> None:
        awaited = self._awaited.get(name)
        if awaited is not None and awaited.body is None:
            awaited.body = body
            awaited.arrived.set()

    async def run(self) -> None:
        """Answers, until cancelled."""
        async with open_tasks() as tasks:
            tasks.start_soon(self._run_letters, tasks)
            while True:
                try:
                    await self._poll(tasks)
                except AgentVMError as error:
                    logger.warning("mailbox_not_read", code=error.code, error=str(error))
                self._waits = anyio.Event()
                if any(awaited.row is not None for awaited in self._awaited.values()):
                    await anyio.sleep(WAITING_POLL_SECONDS)
                else:
                    with anyio.move_on_after(POLL_SECONDS):
                        await self._waits.wait()

    async def _run_letters(self, tasks: anyio.abc.TaskGroup) -> None:
        while True:
            await self._lettered.wait()
            letters, self._letters, self._lettered = self._letters, [], anyio.Event()
            for letter in letters:
                tasks.start_soon(self._answer_on_bus, letter)

    async def _poll(self, tasks: anyio.abc.TaskGroup) -> None:
        rows = {awaited.row: name for name, awaited in self._awaited.items() if awaited.row is not None}
        inbox, replies = await self._asks.read_pending([*rows])
        for number, body in replies:
            self._arrive(rows[number], body)
        self._taken &= {number for number, _ in inbox}
        for number, body in inbox:
            if number not in self._taken:
                self._taken.add(number)
                tasks.start_soon(self._answer_by_row, number, body)
        now = anyio.current_time()
        for name in [name for name, served in self._served.items() if served.until < now]:
            del self._served[name]
        if self.membership.is_leading() and now > self._tidied_at + CLEANUP_INTERVAL_SECONDS:
            self._tidied_at = now
            await self._asks.drop_old()

    async def _execute(self, question: NodeQuestion) -> _Served:
        """Executes a request once, however often and over whichever path it arrives."""
        served = self._served.get(question.name)
        if served is None:
            served = self._served[question.name] = _Served(anyio.current_time() + RETENTION_SECONDS)
            async with self._serving:
                # A kind that is not known is of another version: not understood as an operation either, and answered so.
                serve = self.serving.get(question.kind) or self.serving[OPERATION]
                try:
                    served.body, served.after = await serve(question.body)
                except msgspec.DecodeError as error:
                    # Of another version: an empty answer is no answer.
                    logger.warning("question_not_understood", kind=question.kind, error=str(error))
            served.done.set()
        await served.done.wait()
        return served

    async def _answer_on_bus(self, question: NodeQuestion) -> None:
        served = await self._execute(question)
        if self._hearing is not None:
            self._hearing.bus.publish(_topic(question.from_node), _encoder.encode(NodeAnswer(question.name, served.body)))
        served.finish()

    async def _answer_by_row(self, number: int, body: bytes) -> None:
        try:
            served = await self._execute(_questions.decode(body))
            await self._asks.reply(number, served.body)
        except msgspec.DecodeError as error:
            logger.warning("question_not_understood", error=str(error))
        except AgentVMError as error:
            logger.error("answer_not_stored", code=error.code, error=str(error))
            served.finish()
        else:
            served.finish()


def _topic(node_id: int) -> str:
    return f"n.{node_id}"
