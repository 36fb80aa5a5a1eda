"""Relays — model calls with requests written by clients: passed to the provider unchanged, and metered like any other call.

Theory of operation. Each relay is a task of the server, not of the request: the provider's work is billed even if the client
has disconnected. A client that leaves a stream ends it, and pays for the text so far; an answer in one piece is awaited to its
end, because only then its usage is known. Nothing of the text is stored.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import anyio.abc
import msgspec

from agentvm.drivers.base import Prompt
from agentvm.drivers.models import Chosen
from agentvm.drivers.relay import RelayAnswer, RelayedDriver, RelayingDriver, RelayRequest, fetch
from agentvm.errors import AgentVMError, DriverNotFound, Refused
from agentvm.log import get_logger
from agentvm.model.ids import ContainerId, ImageId, KeyId, NewId, SessionId, TenantId, UserId
from agentvm.runtime import model_call
from agentvm.runtime.attached import AttachmentMemory, Filled
from agentvm.runtime.provider_chain import ProviderChain
from agentvm.sessions.background_call import BackgroundCalls, CallOwner, LedgerCall, SessionWork
from agentvm.sessions.relay_keys import RelayKeys

logger = get_logger(__name__)

PIECES_MAX = 64
"""Pieces of an answer that wait for their client; the provider waits in the meantime."""
READ_TIMEOUT_SECONDS = 60.0
"""A client that reads nothing for this long has left."""
BILLING_TIMEOUT_SECONDS = 10.0
"""Time that a relay whose client has left takes at most to be billed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayPlan:
    """One call, and the most that it can use. `model` is `<provider>/<model>`, `driver` the protocol of its request."""

    model: str
    driver: str
    size: int
    """Bytes of the request."""
    most_input: int
    input_tokens: int
    """Estimate of the input."""
    most_output: int
    most_searches: int = 0


Build = Callable[[Chosen, RelayingDriver], RelayRequest]
"""Words the request for the provider that was chosen."""


class ModelRelay:
    """One call on its way. Its pieces are taken by one reader, which may be cancelled between them."""

    def __init__(self, plan: RelayPlan, build: Build) -> None:
        self.plan, self._build = plan, build
        self._driver: RelayedDriver | None = None
        self._scope = anyio.CancelScope()
        self._pieces: list[bytes] = []
        self._changed, self._taken = anyio.Event(), anyio.Event()
        self._is_left = False
        self.head = anyio.Event()
        """Set when the provider has accepted or refused the request, or could not be asked."""
        self.ended = anyio.Event()
        """Set when the call is billed."""
        self.failure: AgentVMError | None = None

    @property
    def refusal(self) -> RelayAnswer | None:
        return None if self._driver is None else self._driver.refusal

    @property
    def is_free(self) -> bool:
        """Whether the call was free: it was not sent, or the provider has refused it."""
        return self._driver is None or not self._driver.is_asked or self._driver.refusal is not None

    @property
    def headers(self) -> Mapping[str, str]:
        return {} if self._driver is None else self._driver.headers

    @property
    def untold(self) -> AgentVMError | None:
        """The failure of a stream that the provider has not told the client itself."""
        return None if self._driver is not None and self._driver.has_told_failure else self.failure

    async def take(self) -> bytes:
        """Returns the next pieces of the answer, empty at its end."""
        while not self._pieces and not self.ended.is_set():
            await self._changed.wait()
        pieces, self._pieces = self._pieces, []
        self._taken.set()
        self._taken = anyio.Event()
        return b"".join(pieces)

    async def leave(self) -> None:
        """The client is gone. Returns when a stream is billed; an answer in one piece is awaited without it."""
        self._is_left = True
        self._taken.set()
        if self._driver is None or self._driver.is_streamed or not self._driver.is_asked:
            self._scope.cancel()
            with anyio.move_on_after(BILLING_TIMEOUT_SECONDS, shield=True):
                await self.ended.wait()

    def attach(self, chosen: Chosen) -> Chosen:
        """Returns the choice with a driver that sends the request of this relay."""
        driver = chosen.driver
        if not isinstance(driver, RelayingDriver) or driver.name != self.plan.driver:
            raise DriverNotFound(f"{chosen.name} does not take requests of this protocol; choose a model of another provider")
        self._driver = RelayedDriver(driver, self._build(chosen, driver), self._send, self.head.set)
        return chosen._replace(driver=self._driver)

    async def run(self, work: Callable[["ModelRelay"], Awaitable[None]]) -> None:
        try:
            with self._scope:
                await work(self)
        except AgentVMError as error:
            self.failure = error
        finally:
            self.ended.set()
            self.head.set()
            self._changed.set()

    async def _send(self, piece: bytes) -> None:
        if not piece or self._is_left:
            return
        self._pieces.append(piece)
        self._changed.set()
        self._changed = anyio.Event()
        while len(self._pieces) >= PIECES_MAX and not self._is_left:
            with anyio.move_on_after(READ_TIMEOUT_SECONDS) as unread:
                await self._taken.wait()
            if unread.cancelled_caught:
                self._is_left = True
                self._scope.cancel()


class RelayedCall(LedgerCall):
    """Records a relayed call in the ledger."""

    def __init__(self, calls: BackgroundCalls, owner: CallOwner, plan: RelayPlan, memory: AttachmentMemory) -> None:
        super().__init__(calls, owner, lambda chosen: None)
        self._plan, self._memory = plan, memory
        self._user_id = owner.user_id

    @asynccontextmanager
    async def prompt(self, chosen: Chosen) -> AsyncGenerator[Filled | None]:
        async with self._memory.hold(self.tenant_id, self._plan.size) as sent:
            yield Filled(Prompt(model=chosen.model, conversation=(), max_tokens=self._plan.most_output), sent)

    async def admit(self, chosen: Chosen, prompt: Prompt) -> Prompt:
        planned = model_call.plan(chosen, prompt, self.tenant_id, self._user_id, conversation=self._plan.most_input)
        await self._bill.admit(msgspec.structs.replace(planned, most_searches=self._plan.most_searches))
        return prompt

    def estimate(self, prompt: Prompt) -> int:
        return self._plan.input_tokens

    def check(self, chosen: Chosen) -> None:
        """The client reads the answer itself."""


class Relays:
    """The relays of a server. `run` keeps their tasks."""

    def __init__(self, calls: BackgroundCalls, new_id: NewId) -> None:
        self._calls, self._new_id = calls, new_id
        self._memory = AttachmentMemory()
        self.keys = RelayKeys()
        self._tasks: anyio.abc.TaskGroup | None = None

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Runs until cancelled; interrupted calls are billed for their output so far."""
        try:
            async with anyio.create_task_group() as self._tasks:
                task_status.started()
                await anyio.sleep_forever()
        finally:
            self._tasks = None

    def start(
        self,
        tenant_id: TenantId,
        user_id: UserId | None,
        container_id: ContainerId,
        plan: RelayPlan,
        build: Build,
        *,
        key_id: KeyId | None = None,
    ) -> ModelRelay:
        """Starts a call for a user, identified by an API key. `Refused` while the server starts or stops."""
        if self._tasks is None:
            raise Refused("The server is starting or shutting down; try again later")
        work = SessionWork(
            tenant_id=tenant_id, container_id=container_id, image_id=ImageId(""), session_id=SessionId(""), user_id=user_id
        )
        owner = CallOwner(key=self._new_id("relay"), work=work, user_id=user_id, key_id=key_id)
        relay = ModelRelay(plan, build)
        self._tasks.start_soon(self._run, relay, owner)
        return relay

    async def fetch(self, tenant_id: TenantId, model: str, driver: str, request: RelayRequest) -> RelayAnswer:
        """Sends a request that costs nothing to the provider of a model."""
        async with self._calls.choose(tenant_id, model) as (chosen, *_):
            if not isinstance(chosen.driver, RelayingDriver) or chosen.driver.name != driver:
                raise DriverNotFound(f"{chosen.provider} does not take requests of this protocol")
            return await fetch(chosen.driver, request)

    async def _run(self, relay: ModelRelay, owner: CallOwner) -> None:
        try:
            async with anyio.create_task_group() as alone:
                alone.start_soon(relay.run, lambda relay: self._ask(relay, owner))
        except ExceptionGroup:
            # A bug of a driver ends this call, not those of others.
            logger.exception("relay_crashed", call=owner.key)
            relay.failure = relay.failure or AgentVMError("The request failed because of an internal error")

    async def _ask(self, relay: ModelRelay, owner: CallOwner) -> None:
        async with self._calls.choose(owner.work.tenant_id, relay.plan.model) as (chosen, *_):
            chain = ProviderChain((relay.attach(chosen),), patient=False)
            await model_call.ask(chain, RelayedCall(self._calls, owner, relay.plan, self._memory))
