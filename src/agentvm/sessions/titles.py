"""Titles — gives a session a title after its first exchange, unless somebody gave it one.

Theory of operation. It hears of turns that have ended, as an effector does. What it hears goes into a bounded queue, and one
task takes it from there, so no turn waits for a title and none fails because of one. Only the turn that is the first of its
session leads to one. With `first-words` that costs nothing; with `model` it is one small model call, admitted and billed like
any other, under a key of its own. Whoever may not make that call has the first words.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import anyio

from agentvm.drivers.base import Prompt, UserEntry
from agentvm.drivers.models import Chosen
from agentvm.errors import AgentVMError
from agentvm.events.base import Event, EventScope
from agentvm.events.lifecycle import SessionTitleUpdated
from agentvm.events.turn import TurnResponse
from agentvm.log import get_logger
from agentvm.model.ids import Clock, ContainerId, ImageId, SessionId, TenantId, TurnId
from agentvm.model.message import AssistantMessage, Message, TextPart, UserMessage
from agentvm.sessions.background_call import BackgroundCalls, CallOwner, Tell
from agentvm.sessions.wording import first_words, tidy
from agentvm.sharing.cache import Cache
from agentvm.storage.base import ReadingLimits
from agentvm.storage.sql.store import Store

logger = get_logger(__name__)

TitlesBy = Literal["model", "first-words", "off"]

WAITING = 1_000
"""Turns whose sessions may wait for a title; beyond them the latest go without."""
KNOWN_SESSIONS_MAX = 10_000
"""Sessions that are known to need no title."""
MOST_TOKENS = 40
MOST_READ = 2_000
"""Characters of each message that the model is shown."""
SECONDS = 30.0
"""How long the model may take."""
_FIRST = ReadingLimits(max_bytes=256 * 1024, newest=False, summary=False)
"""What a title is made of: the beginning. A session whose first message is larger gets none."""
SYSTEM = (
    "You name conversations. Answer with a title of at most eight words, in the language of the conversation, "
    "and nothing else: no quotation marks, no full stop."
)


@dataclass(frozen=True, slots=True)
class _Turn:
    tenant_id: TenantId
    container_id: ContainerId
    image_id: ImageId
    session_id: SessionId
    turn_id: TurnId


class Titles:
    """An effector; `run` is its task."""

    kinds = (TurnResponse,)

    def __init__(self, store: Store, clock: Clock, calls: BackgroundCalls, *, by: Callable[[TenantId], TitlesBy]) -> None:
        self._store = store
        self._clock = clock
        self._by = by
        self._calls = calls
        self._waiting: deque[_Turn] = deque()
        self._heard = anyio.Event()
        self._known: Cache[tuple[TenantId, SessionId], bool] = Cache(KNOWN_SESSIONS_MAX)

    def react(self, event: Event) -> None:
        scope = event.scope
        if not isinstance(event.data, TurnResponse) or self._by(event.tenant_id) == "off":
            return
        if scope.container_id is None or scope.image_id is None or scope.session_id is None or scope.turn_id is None:
            return
        if self._known.get((event.tenant_id, scope.session_id)):
            return
        if len(self._waiting) >= WAITING:
            logger.info("title_skipped", session_id=scope.session_id)
            return
        self._waiting.append(_Turn(event.tenant_id, scope.container_id, scope.image_id, scope.session_id, scope.turn_id))
        self._heard.set()

    async def run(self, tell: Tell) -> None:
        """Gives titles until cancelled, and tells of them."""
        while True:
            await self._heard.wait()
            self._heard = anyio.Event()
            while self._waiting:
                turn = self._waiting.popleft()
                try:
                    # In a group of its own: what a driver gets wrong over a title ends that title, not the server.
                    async with anyio.create_task_group() as alone:
                        alone.start_soon(self._try, turn, tell)
                except ExceptionGroup:
                    logger.exception("title_crashed", session_id=turn.session_id)

    async def _try(self, turn: _Turn, tell: Tell) -> None:
        try:
            await self._give(turn, tell)
        except AgentVMError as error:
            logger.warning("title_not_given", session_id=turn.session_id, code=error.code, error=str(error))

    async def _give(self, turn: _Turn, tell: Tell) -> None:
        sessions = self._store.tenant(turn.tenant_id).sessions((turn.container_id,))
        found = await sessions.get(turn.session_id)
        said: Sequence[Message] = ()
        if found is not None and found.session.title is None:
            log = self._store.tenant(turn.tenant_id).container(turn.container_id).log(turn.session_id)
            said = (await log.recall(_FIRST)).messages
        self._known.put((turn.tenant_id, turn.session_id), True)
        if not said or said[0].turn_id != turn.turn_id:
            # Titled, gone, or not the first exchange: who has taken a title away is not given another.
            return
        title = await self._title(turn, said)
        named = None if title is None else await sessions.name(turn.session_id, title, self._clock())
        if named is not None:
            told = SessionTitleUpdated(session_id=named.session_id, title=named.title, updated_at=named.updated_at)
            tell(turn.tenant_id, EventScope(container_id=named.container_id, image_id=named.image_id), told)

    async def _title(self, turn: _Turn, messages: Sequence[Message]) -> str | None:
        asked, answered = _exchange(messages)
        plain = first_words(asked)
        if self._by(turn.tenant_id) != "model" or not answered:
            return plain
        try:
            with anyio.move_on_after(SECONDS):
                return await self._ask(turn, asked, answered) or plain
        except AgentVMError as error:
            # Over the quota, an empty wallet, a provider that is out: nobody is charged, and there is a title all the same.
            logger.info("title_by_first_words", session_id=turn.session_id, code=error.code)
        return plain

    async def _ask(self, turn: _Turn, asked: str, answered: str) -> str | None:
        image = await self._store.tenant(turn.tenant_id).container(turn.container_id).get_image(turn.image_id)
        if image is None:
            return None
        owner = CallOwner(
            key=f"title_{turn.session_id}",
            tenant_id=turn.tenant_id,
            container_id=turn.container_id,
            image_id=turn.image_id,
            session_id=turn.session_id,
            user_id=await self._calls.sender(turn.tenant_id, turn.turn_id),
        )
        said = f"User: {asked[:MOST_READ]}\n\nAssistant: {answered[:MOST_READ]}"

        def write(one: Chosen) -> Prompt:
            return Prompt(
                model=one.model,
                conversation=(UserEntry(content=said),),
                max_tokens=MOST_TOKENS,
                system=SYSTEM,
                silence=SECONDS,
            )

        async with self._calls.choose(turn.tenant_id, image.definition.model) as candidates:
            heard = await self._calls.ask(owner, candidates, write)
        return None if heard is None else tidy(heard[1])


def _exchange(messages: Sequence[Message]) -> tuple[str, str]:
    """What the user asked, and what was answered first."""
    asked = next((_text(one) for one in messages if isinstance(one, UserMessage)), "")
    answered = next((one.text for one in messages if isinstance(one, AssistantMessage) and one.text.strip()), "")
    return asked, answered


def _text(message: UserMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    return "\n".join(part.text for part in message.content if isinstance(part, TextPart))
