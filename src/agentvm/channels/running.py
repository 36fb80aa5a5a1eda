"""Running channel — keeps one channel connected, stores its messages, and delivers the answers.

A channel has two tasks of its own: one is in the adapter's connection, one starts deliveries. When its platform fails, floods
or hangs, no other channel notices.
"""

from collections.abc import Callable
from hashlib import sha256

import anyio
import msgspec

from agentvm.channels.base import ChannelAdapter, InboundMessage
from agentvm.channels.delivery import MessageDelivery
from agentvm.channels.rate import SenderRate
from agentvm.errors import AgentVMError, InvalidInput
from agentvm.errors.channel import PlatformFailed, PlatformRefused
from agentvm.gateways.talk import Talk
from agentvm.gateways.words import words_for
from agentvm.log import get_logger
from agentvm.model.channel import ChannelMessage, ChannelState, ChannelStatus, ChatChannel, HookAnswer, PlatformHook
from agentvm.model.ids import ContainerId, check_container_id
from agentvm.model.principal import Principal
from agentvm.runtime.tasks import open_tasks
from agentvm.sharing.keyed_lock import KeyedLock
from agentvm.vm import AgentVM

logger = get_logger(__name__)

FIRST_RETRY_SECONDS = 1.0
RETRY_MAX_SECONDS = 60.0
REFUSED_SECONDS = 300.0
"""Time after which a channel that was refused is tried again; a change of the channel or a secret ends it."""
STABLE_MS = 30_000
"""A connection that held this long is tried again at once."""
PENDING_MAX = 300
"""Messages of one channel whose answers are not delivered; more are not taken."""
FLIGHTS_MAX = 100
"""Deliveries of one channel at a time, besides those that wait for an answer."""
RETRY_MAX_MS = 24 * 3_600_000
STORE_RETRY_MS = 1_000
"""Time after which a database that failed is asked again."""
TEXT_MAX = 100_000
KEY_MAX = 150
_PATTERN = frozenset("*?[")


class RunningChannel:
    """A channel of a host."""

    def __init__(self, vm: AgentVM, channel: ChatChannel, make: Callable[[], ChannelAdapter]) -> None:
        self.channel = channel
        self._vm, self._make = vm, make
        self._store = vm.store.accounts(channel.tenant_id).channels
        self._rate = SenderRate(channel.messages_per_minute)
        self._chats: KeyedLock[str] = KeyedLock()
        self._adapter: ChannelAdapter | None = None
        self._flights: set[int] = set()
        self._parked: set[int] = set()
        self._wake = anyio.Event()
        self._connected_at: int | None = None
        self.status = ChannelStatus(state="connecting", since=vm.clock())

    async def run(self) -> None:
        async with open_tasks() as tasks:
            tasks.start_soon(self._deliver_all)
            await self._stay_connected()

    # The connection

    async def _stay_connected(self) -> None:
        retry_seconds = FIRST_RETRY_SECONDS
        while True:
            self._set("connecting")
            error = await self._connect()
            now, connected_at, self._connected_at = self._vm.clock(), self._connected_at, None
            if connected_at is not None and now - connected_at >= STABLE_MS:
                retry_seconds = FIRST_RETRY_SECONDS
            self._fail(error)
            is_refused = isinstance(error, PlatformRefused)
            await anyio.sleep(REFUSED_SECONDS if is_refused else max(retry_seconds, error.retry_seconds or 0))
            retry_seconds = min(2 * retry_seconds, RETRY_MAX_SECONDS)

    async def _connect(self) -> PlatformFailed:
        """Runs the adapter until it ends; returns why."""
        try:
            await self._principal()
            self._adapter = self._make()
            await self._adapter.run(self)
        except PlatformFailed as error:
            return error
        except AgentVMError as error:
            return PlatformFailed(str(error))
        except Exception:
            # Protects the other channels from a broken adapter.
            logger.exception("channel_adapter_failed", channel=self.channel.name, kind=self.channel.kind)
            return PlatformFailed("The adapter of this channel has failed; the log of the server says how")
        return PlatformFailed("The platform has closed the connection")

    async def is_allowed(self) -> bool:
        """Returns whether the channel's key still has rights; a channel without them is disconnected."""
        try:
            await self._principal()
        except PlatformRefused:
            return False
        return True

    async def _principal(self) -> Principal:
        """Returns the principal of the channel's key, with the rights that it has now."""
        channel = self.channel
        principal = await self._vm.tenancy.access.recall(channel.tenant_id, None, channel.key_id)
        if principal is None:
            remedy = "Delete the channel and create it again; a suspended tenant has to be resumed by the operator"
            raise PlatformRefused("The key of this channel was revoked, or its tenant is suspended", remedy)
        return principal

    def connected(self) -> None:
        self._connected_at = self._vm.clock()
        self._set("connected")
        hook = None if self._adapter is None else self._adapter.hook
        self.status = msgspec.structs.replace(self.status, hook=hook)
        logger.info("channel_connected", channel=self.channel.name, kind=self.channel.kind)
        self._wake.set()

    def _set(self, state: ChannelState) -> None:
        self.status = msgspec.structs.replace(self.status, state=state, since=self._vm.clock())

    def _fail(self, error: PlatformFailed) -> None:
        now, is_refused = self._vm.clock(), isinstance(error, PlatformRefused)
        self.status = ChannelStatus(
            state="refused" if is_refused else "waiting",
            since=now,
            last_error=str(error),
            last_error_at=now,
            remedy=error.remedy if isinstance(error, PlatformRefused) else None,
        )
        logger.info("channel_disconnected", channel=self.channel.name, kind=self.channel.kind, error=str(error))

    # Messages

    async def take_hook(self, hook: PlatformHook) -> HookAnswer | None:
        """Returns the answer to a request of the platform; None for a request that is not the platform's, or while the channel
        takes none."""
        if self._adapter is None or self.status.state != "connected":
            return None
        try:
            return await self._adapter.take_hook(hook, self)
        except AgentVMError:
            raise
        except Exception:
            # Protects the server from a broken adapter.
            logger.exception("channel_adapter_failed", channel=self.channel.name, kind=self.channel.kind)
            return None

    async def receive(self, message: InboundMessage) -> None:
        """Stores a message for delivery, unless it was heard before, is empty, or is one too many."""
        if not message.text.strip() and not message.files:
            return
        now = self._vm.clock()
        allowed = self._rate.take(message.sender.id, now)
        if allowed == "refused":
            return
        message = msgspec.structs.replace(message, text=message.text[:TEXT_MAX])
        row = ChannelMessage(
            channel_id=self.channel.channel_id,
            message_key=_short(message.key),
            container_id=self._container(message),
            body=msgspec.json.encode(message),
            answer=words_for(message.text).too_many if allowed == "first_refused" else None,
            heard_at=now,
        )
        if await self._store.receive(row, PENDING_MAX) is None:
            logger.warning("channel_flooded", channel=self.channel.name, pending_max=PENDING_MAX)
        self._wake.set()

    def _container(self, message: InboundMessage) -> ContainerId:
        """Returns the container of a sender, or of a group. By the channel's id: another bot's people are others."""
        name = f"group-{message.chat}" if message.is_group else message.sender.id
        hashed = ContainerId(f"{self.channel.channel_id}-{sha256(name.encode()).hexdigest()}")
        if _PATTERN & set(name):
            # The container is what the sender reaches: it must not be a pattern of names.
            return hashed
        try:
            return check_container_id(f"{self.channel.channel_id}-{name}")
        except InvalidInput:
            return hashed

    async def _deliver_all(self) -> None:
        """Starts a delivery for each message that waits, the oldest first, while the channel is connected."""
        async with open_tasks() as tasks:
            while True:
                self._wake = anyio.Event()
                try:
                    due_at = await self._start_due(tasks) if self.status.state == "connected" else None
                except AgentVMError as error:
                    logger.error("channel_not_read", channel=self.channel.name, code=error.code, error=str(error))
                    due_at = self._vm.clock() + STORE_RETRY_MS
                seconds = None if due_at is None else max(0.0, (due_at - self._vm.clock()) / 1000)
                with anyio.move_on_after(seconds):
                    await self._wake.wait()

    async def _start_due(self, tasks: anyio.abc.TaskGroup) -> int | None:
        """Returns when the next of the others is due."""
        now, due_at = self._vm.clock(), None
        for message in await self._store.pending(self.channel.channel_id, PENDING_MAX):
            if message.position in self._flights:
                continue
            if message.next_at > now:
                due_at = message.next_at if due_at is None else min(due_at, message.next_at)
            elif len(self._flights) - len(self._parked) < FLIGHTS_MAX:
                self._flights.add(message.position)
                tasks.start_soon(self._deliver, message)
        return due_at

    async def _deliver(self, message: ChannelMessage) -> None:
        try:
            await self._attempt(message)
        except AgentVMError as error:
            # The row is as it was: it is tried again.
            logger.error("channel_message_not_stored", channel=self.channel.name, code=error.code, error=str(error))
            await anyio.sleep(STORE_RETRY_MS / 1000)
        finally:
            self._flights.discard(message.position)
            self._parked.discard(message.position)
            self._wake.set()

    async def _attempt(self, message: ChannelMessage) -> None:
        principal, adapter = await self._narrowed(message), self._adapter
        if principal is None or adapter is None:
            return await self._again(message, PlatformFailed("The key of this channel has no rights now"))

        def park(waits: bool) -> None:
            (self._parked.add if waits else self._parked.discard)(message.position)
            self._wake.set()

        delivery = MessageDelivery(
            channel=self.channel,
            message=message,
            adapter=adapter,
            store=self._store,
            talk=Talk(vm=self._vm, principal=principal),
            chats=self._chats,
            parked=park,
        )
        try:
            await delivery.run()
        except PlatformFailed as error:
            await self._again(delivery.message, error)
        except AgentVMError as error:
            await self._again(delivery.message, PlatformFailed(str(error)))
        except Exception:
            # Protects the other deliveries from a broken adapter.
            logger.exception("channel_delivery_failed", channel=self.channel.name, kind=self.channel.kind)
            await self._again(delivery.message, PlatformFailed("The adapter of this channel has failed"))
        else:
            await self._finish(delivery.message)

    async def _narrowed(self, message: ChannelMessage) -> Principal | None:
        """Returns the channel's principal, limited to the container of one sender."""
        try:
            principal = await self._principal()
        except PlatformRefused:
            return None
        if not principal.reaches(message.container_id):
            return None
        return msgspec.structs.replace(principal, containers=(message.container_id,))

    async def _again(self, message: ChannelMessage, error: PlatformFailed) -> None:
        """Leaves a message for a later attempt, or gives it up."""
        now, attempts = self._vm.clock(), message.attempts + 1
        self.status = msgspec.structs.replace(self.status, last_error=str(error), last_error_at=now)
        if error.permanent or now - message.heard_at > RETRY_MAX_MS:
            logger.warning("channel_answer_given_up", channel=self.channel.name, error=str(error))
            return await self._finish(message)
        seconds = max(min(FIRST_RETRY_SECONDS * 2 ** min(attempts - 1, 10), RETRY_MAX_SECONDS), error.retry_seconds or 0)
        await self._store.save(msgspec.structs.replace(message, attempts=attempts, next_at=now + int(seconds * 1000)))

    async def _finish(self, message: ChannelMessage) -> None:
        """Keeps only the fact that a message was received."""
        done = msgspec.structs.replace(message, body=None, answer=None, kept={}, done_at=self._vm.clock())
        await self._store.save(done)


def _short(key: str) -> str:
    return key if len(key) <= KEY_MAX else sha256(key.encode()).hexdigest()
