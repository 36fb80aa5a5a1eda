"""Titles — gives a session a title after its first exchange, unless somebody gave it one.

Theory of operation. It hears of turns that have ended, as an effector does. What it hears goes into a bounded queue, and one
task takes it from there, so no turn waits for a title and none fails because of one. Only the turn that is the first of its
session leads to one. With `first-words` that costs nothing; with `model` it is one small model call, admitted and billed like
any other, under a key of its own. Whoever may not make that call has the first words.
"""

from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from typing import Literal, Protocol

import anyio

from agentvm.drivers.base import Driver, Prompt, TextDelta, UsageReported, UserSaid
from agentvm.errors import AgentVMError
from agentvm.events.base import Event, EventData, Scope
from agentvm.events.lifecycle import SessionTitleUpdated
from agentvm.events.turn import TurnResponse
from agentvm.log import get_logger
from agentvm.model.ids import Clock, ContainerId, ImageId, SessionId, TenantId, TurnId, UserId
from agentvm.model.ledger import Charge, LedgerEntry, Planned
from agentvm.model.message import AssistantMessage, Message, TextPart, UserMessage
from agentvm.model.usage import Usage, estimate_tokens
from agentvm.sessions.wording import first_words, tidy
from agentvm.storage.base import Store
from agentvm.storage.sessions import MessageQuery

logger = get_logger(__name__)

TitlesBy = Literal["model", "first-words", "off"]

WAITING = 1_000
"""Turns whose sessions may wait for a title; beyond them the latest go without."""
KNOWN = 10_000
"""Sessions of which it is remembered that they need none."""
MOST_TOKENS = 40
MOST_READ = 2_000
"""Characters of each message that the model is shown."""
SECONDS = 30.0
"""How long the model may take."""
SYSTEM = (
    "You name conversations. Answer with a title of at most eight words, in the language of the conversation, "
    "and nothing else: no quotation marks, no full stop."
)


class Asked(Protocol):
    """Who answers: see `agentvm.drivers.models.Chosen`."""

    @property
    def driver(self) -> Driver: ...
    @property
    def model(self) -> str: ...
    @property
    def own_key(self) -> bool: ...
    @property
    def provider(self) -> str: ...


class Hold(Protocol):
    def settle(self, usage: Usage) -> Charge: ...
    def release(self) -> None: ...


class Meter(Protocol):
    """Who decides whether a call may be made, and what it costs."""

    async def admit(self, planned: Planned, *, force: bool = False) -> Hold: ...


class Tell(Protocol):
    def __call__(self, tenant_id: TenantId, scope: Scope, data: EventData) -> None: ...


Billed = Callable[[str, LedgerEntry], None]
"""Is told of a model call that was entered in the ledger, and of the name of its provider."""

Choose = Callable[[TenantId, str | None], AbstractAsyncContextManager[Sequence[Asked]]]


@dataclass(frozen=True, slots=True)
class _Turn:
    tenant_id: TenantId
    container_id: ContainerId
    image_id: ImageId
    session_id: SessionId
    turn_id: TurnId


class Titles:
    """An effector; `run` is its task."""

    def __init__(self, store: Store, clock: Clock, *, by: Callable[[TenantId], TitlesBy], choose: Choose, meter: Meter) -> None:
        self._store = store
        self._clock = clock
        self._by = by
        self._choose = choose
        self._meter = meter
        self._waiting: deque[_Turn] = deque()
        self._heard = anyio.Event()
        self._known: OrderedDict[tuple[TenantId, SessionId], None] = OrderedDict()
        self.billed: Billed = lambda provider, entry: None
        """Who counts what is billed; no event tells of it."""

    def react(self, event: Event) -> None:
        scope = event.scope
        if not isinstance(event.data, TurnResponse) or self._by(event.tenant_id) == "off":
            return
        if scope.container_id is None or scope.image_id is None or scope.session_id is None or scope.turn_id is None:
            return
        if (event.tenant_id, scope.session_id) in self._known:
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
                    await self._give(turn, tell)
                except AgentVMError as error:
                    logger.warning("title_not_given", session_id=turn.session_id, code=error.code, error=str(error))

    async def _give(self, turn: _Turn, tell: Tell) -> None:
        sessions = self._store.tenant(turn.tenant_id).sessions((turn.container_id,))
        found = await sessions.get(turn.session_id)
        page = None
        if found is not None and found.session.title is None:
            page = await sessions.messages(turn.session_id, MessageQuery(limit=20))
        self._remember(turn)
        if page is None or not page.messages or page.messages[0].turn_id != turn.turn_id:
            # Titled, gone, or not the first exchange: who has taken a title away is not given another.
            return
        title = await self._title(turn, page.messages)
        named = None if title is None else await sessions.name(turn.session_id, title, self._clock())
        if named is not None:
            told = SessionTitleUpdated(session_id=named.session_id, title=named.title, updated_at=named.updated_at)
            tell(turn.tenant_id, Scope(container_id=named.container_id, image_id=named.image_id), told)

    def _remember(self, turn: _Turn) -> None:
        self._known[turn.tenant_id, turn.session_id] = None
        if len(self._known) > KNOWN:
            self._known.popitem(last=False)

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
        user_id = await self._user(turn)
        async with self._choose(turn.tenant_id, image.definition.model) as (chosen, *_):
            said = f"User: {asked[:MOST_READ]}\n\nAssistant: {answered[:MOST_READ]}"
            prompt = Prompt(
                model=chosen.model,
                conversation=(UserSaid(content=said),),
                max_tokens=MOST_TOKENS,
                system=SYSTEM,
                silence=SECONDS,
            )
            planned = Planned(
                tenant_id=turn.tenant_id,
                user_id=user_id,
                driver=chosen.driver.name,
                model=chosen.model,
                # A token has at least one byte.
                most_input=len((said + SYSTEM).encode()),
                most_output=MOST_TOKENS,
                own_key=chosen.own_key,
                provider=chosen.provider,
            )
            hold = await self._meter.admit(planned)
            return tidy(await self._call(turn, chosen.driver, prompt, planned, hold))

    async def _call(self, turn: _Turn, driver: Driver, prompt: Prompt, planned: Planned, hold: Hold) -> str:
        """What was said is paid for, also when it was cut off."""
        pieces: list[str] = []
        usage: Usage | None = None
        try:
            outputs: AsyncGenerator[object, None] = driver.run(prompt)
            async with aclosing(outputs):
                async for output in outputs:
                    match output:
                        case TextDelta(text=text):
                            pieces.append(text)
                        case UsageReported(usage=reported):
                            usage = reported
                        case _:
                            pass
        finally:
            with anyio.CancelScope(shield=True):
                if usage is None and not pieces:
                    hold.release()
                else:
                    said = "".join(pieces)
                    estimated = Usage(
                        input_tokens=estimate_tokens(str(prompt.conversation)),
                        output_tokens=estimate_tokens(said),
                        estimated=True,
                    )
                    await self._enter(turn, planned, usage or estimated, hold)
        return "".join(pieces)

    async def _enter(self, turn: _Turn, planned: Planned, usage: Usage, hold: Hold) -> None:
        charge = hold.settle(usage)
        key = f"title_{turn.session_id}"
        entry = LedgerEntry(
            key=key,
            at=self._clock(),
            tenant_id=turn.tenant_id,
            user_id=planned.user_id,
            container_id=turn.container_id,
            image_id=turn.image_id,
            session_id=turn.session_id,
            # Not the turn's own: that is over, and what it cost was told.
            turn_id=TurnId(key),
            driver=planned.driver,
            model=planned.model,
            usage=usage,
            cost=charge.cost,
            price=charge.price,
        )
        await self._store.accounts(turn.tenant_id).ledger.add((entry,))
        self.billed(planned.provider, entry)

    async def _user(self, turn: _Turn) -> UserId | None:
        """Who sent the message, and is billed for its title."""
        turns = await self._store.tenant(turn.tenant_id).container(turn.container_id).list_turns(turn.session_id)
        return next((one.user_id for one in turns if one.turn_id == turn.turn_id), None)


def _exchange(messages: Sequence[Message]) -> tuple[str, str]:
    """What the user asked, and what was answered first."""
    asked = next((_text(one) for one in messages if isinstance(one, UserMessage)), "")
    answered = next((one.text for one in messages if isinstance(one, AssistantMessage) and one.text.strip()), "")
    return asked, answered


def _text(message: UserMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    return "\n".join(part.text for part in message.content if isinstance(part, TextPart))
