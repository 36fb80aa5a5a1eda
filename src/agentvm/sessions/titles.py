"""Titles — sets the title of a session without one after its first exchange.

Theory of operation. An effector puts ended turns into a bounded queue, and one task takes them from there, so no turn waits
for a title and none fails because of one. Only the first turn of a session leads to a title. With `first-words` that costs
nothing; with `model` it is one small model call, admitted and billed like any other, under a key of its own. Where that call
is not allowed, or fails, the first words are used.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import anyio

from agentvm.drivers.base import Prompt, UserEntry
from agentvm.drivers.models import Chosen
from agentvm.errors import AgentVMError
from agentvm.events.base import Event
from agentvm.events.lifecycle import SessionTitleUpdated
from agentvm.events.turn import TurnResponse
from agentvm.log import get_logger
from agentvm.model.ids import Clock, SessionId, TenantId
from agentvm.model.message import AssistantMessage, Message, TextPart, UserMessage
from agentvm.model.session import UNSTORED
from agentvm.sessions.background_call import BackgroundCalls, PublishEvent, SessionWork
from agentvm.sessions.title_text import first_words, tidy
from agentvm.sharing.cache import Cache
from agentvm.storage.base import ReadingLimits
from agentvm.storage.sql.store import Store

logger = get_logger(__name__)

TitlesBy = Literal["model", "first-words", "off"]

QUEUED_TURNS_MAX = 1_000
"""Turns whose sessions wait for a title; beyond them the latest go without."""
KNOWN_SESSIONS_MAX = 10_000
"""Sessions that are known to need no title."""
TITLE_MAX_TOKENS = 40
READ_CHARACTERS = 2_000
"""Characters of each message that the model is shown."""
CALL_TIMEOUT_SECONDS = 30.0
_FIRST = ReadingLimits(max_bytes=256 * 1024, newest=False, summary=False)
"""The part of a session that is read for a title. A session whose first message is larger gets none."""
SYSTEM = (
    "You name conversations. Answer with a title of at most eight words, in the language of the conversation, "
    "and nothing else: no quotation marks, no full stop."
)


class Titles:
    """An effector; `run` is its task."""

    kinds = (TurnResponse,)

    def __init__(self, store: Store, clock: Clock, calls: BackgroundCalls, *, by: Callable[[TenantId], TitlesBy]) -> None:
        self._store = store
        self._clock = clock
        self._by = by
        self._calls = calls
        self._queue: dict[tuple[TenantId, SessionId], SessionWork] = {}
        """The first turn that ended of each session since it was looked at."""
        self._wake = anyio.Event()
        self._known: Cache[tuple[TenantId, SessionId], bool] = Cache(KNOWN_SESSIONS_MAX)

    def react(self, event: Event) -> None:
        work = SessionWork.after(event)
        if work is None or self._by(event.tenant_id) == "off" or work.key in self._queue or self._known.get(work.key):
            return
        if len(self._queue) >= QUEUED_TURNS_MAX:
            logger.info("title_skipped", session_id=work.session_id)
            return
        self._queue[work.key] = work
        self._wake.set()

    async def run(self, publish: PublishEvent) -> None:
        """Sets titles until cancelled, and sends their events."""
        while True:
            await self._wake.wait()
            self._wake = anyio.Event()
            while self._queue:
                key, work = next(iter(self._queue.items()))
                try:
                    await work.run(self._try, publish, "title_crashed")
                finally:
                    del self._queue[key]

    async def _try(self, turn: SessionWork, publish: PublishEvent) -> None:
        try:
            await self._give(turn, publish)
        except AgentVMError as error:
            logger.warning("title_not_given", session_id=turn.session_id, code=error.code, error=str(error))

    async def _give(self, turn: SessionWork, publish: PublishEvent) -> None:
        sessions = self._store.tenant(turn.tenant_id).sessions((turn.container_id,))
        listed = await sessions.get(turn.session_id)
        messages: Sequence[Message] = ()
        if listed is not None and listed.session.title is None:
            log = self._store.tenant(turn.tenant_id).container(turn.container_id).log(turn.session_id)
            messages = (await log.recall(_FIRST)).messages
        self._known.put(turn.key, True)
        if not messages or messages[0].turn_id != turn.turn_id:
            # Titled, deleted, or not the first exchange: a title that was removed is not replaced.
            return
        title = await self._title(turn, messages)
        named = None if title is None else await sessions.name(turn.session_id, title, self._clock())
        if named is not None:
            publish(turn.tenant_id, turn.scope, SessionTitleUpdated.of(named))

    async def _title(self, turn: SessionWork, messages: Sequence[Message]) -> str | None:
        question, answered = _exchange(messages)
        plain = first_words(question)
        if self._by(turn.tenant_id) != "model" or not answered or await self._is_unstored(turn):
            return plain
        try:
            with anyio.move_on_after(CALL_TIMEOUT_SECONDS):
                return await self._ask(turn, question, answered) or plain
        except AgentVMError as error:
            # A quota, an empty wallet, an unavailable provider: nothing is charged, and the first words are the title.
            logger.info("title_by_first_words", session_id=turn.session_id, code=error.code)
        return plain

    async def _is_unstored(self, turn: SessionWork) -> bool:
        """Whether the session will be deleted soon, so that a title is not worth a model call."""
        aliases = self._store.tenant(turn.tenant_id).container(turn.container_id).aliases
        return bool(await aliases.of_session(UNSTORED, turn.session_id))

    async def _ask(self, turn: SessionWork, question: str, answered: str) -> str | None:
        image = await self._store.tenant(turn.tenant_id).container(turn.container_id).get_image(turn.image_id)
        if image is None:
            return None
        owner = await self._calls.owner(turn, f"title_{turn.session_id}")
        text = f"User: {question[:READ_CHARACTERS]}\n\nAssistant: {answered[:READ_CHARACTERS]}"

        def write(chosen: Chosen) -> Prompt:
            return Prompt(
                model=chosen.model,
                conversation=(UserEntry(content=text),),
                max_tokens=TITLE_MAX_TOKENS,
                system=SYSTEM,
                silence=CALL_TIMEOUT_SECONDS,
            )

        async with self._calls.choose(turn.tenant_id, image.definition.model, image.key_owner) as candidates:
            answer = await self._calls.ask(owner, candidates, write)
        return None if answer is None else tidy(answer[1])


def _exchange(messages: Sequence[Message]) -> tuple[str, str]:
    """Returns the text of the first question, and of its answer."""
    users = (message for message in messages if isinstance(message, UserMessage))
    answers = (message.text for message in messages if isinstance(message, AssistantMessage) and message.text.strip())
    question, answered = next((_text(message) for message in users), ""), next(answers, "")
    return question, answered


def _text(message: UserMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    return "\n".join(part.text for part in message.content if isinstance(part, TextPart))
