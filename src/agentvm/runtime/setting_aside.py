"""Setting aside — handles refused parts of a session during a model call, and stores them."""

from collections.abc import Sequence
from dataclasses import replace

from agentvm.errors import ProviderBadRequest
from agentvm.log import get_logger
from agentvm.model.ids import MessageId
from agentvm.model.session import RefusedPart
from agentvm.runtime.context import Traced
from agentvm.runtime.ports import Ports
from agentvm.runtime.refusal import decide, describe
from agentvm.runtime.session_log import SessionLog
from agentvm.storage.base import Recalled

logger = get_logger(__name__)


class Refusals:
    """Refusals that one turn may set aside."""

    def __init__(self, ports: Ports, log: SessionLog, current: MessageId) -> None:
        self._ports = ports
        self._log = log
        self._provider = ""
        self._current = current
        self._times = 0
        self._guessed: tuple[RefusedPart, ...] = ()

    async def set_aside(
        self, error: ProviderBadRequest, provider: str, messages: Sequence[Traced], history: Recalled
    ) -> Recalled:
        """The history to ask with once more. Raises when that is of no use, or when the part is in the message that the user
        has just sent."""
        self._provider = provider
        aside = decide(error, messages, self._current, history.refused, self._times)
        if aside is None:
            raise error
        self._times += 1
        logger.info("content_refused", parts=len(aside.parts), again=aside.again, certain=aside.certain)
        if aside.certain:
            await self._store(aside.parts)
        if not aside.again:
            raise ProviderBadRequest(
                f"{self._provider} refused {describe(aside.parts, messages)}: {error.provider_message or error}; it is set "
                "aside, and your next message is answered without it"
            ) from None
        self._guessed = self._guessed if aside.certain else (*self._guessed, *aside.parts)
        return replace(history, refused=history.refused | frozenset(aside.parts))

    async def confirm(self) -> None:
        """Stores the parts that were set aside: the model has answered without them."""
        guessed, self._guessed = self._guessed, ()
        if guessed:
            await self._store(guessed)

    async def _store(self, parts: Sequence[RefusedPart]) -> None:
        log = self._log
        stored = self._ports.store.tenant(log.tenant_id).container(log.container_id).log(log.session_id)
        await stored.add_refused(parts, self._provider, self._ports.clock())
        self._ports.histories.forget(log.tenant_id, log.session_id)
