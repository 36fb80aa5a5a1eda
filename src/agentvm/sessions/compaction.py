"""Compaction — sums up what was said long ago, so that a model knows of it when it does not fit its window any more.

Theory of operation. It hears of turns that have ended, as an effector does, and looks at a session when what its model is told
may have become long. What fills more than a share of the room for it is summed up from the beginning on, but for the newest
exchanges: as many at a time as the window of who writes the summary holds, together with the summary before. Each call makes
one summary of whole exchanges that have ended, and is billed under its name; so a crash loses one call at most, and a history
of any length is caught up with by and by. A summary is stored only if what it covers still stands then. No turn waits for
this, and none fails because of it: without a summary the oldest exchanges are left out.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import anyio

from agentvm.drivers.base import Prompt
from agentvm.drivers.conversation import share_window, thinking_tokens
from agentvm.drivers.models import Chosen
from agentvm.errors import AgentVMError, Conflict, ImageNotFound, ProviderProtocolError, ProviderTimeout
from agentvm.events.base import Event, EventScope
from agentvm.events.lifecycle import SessionCompacted
from agentvm.events.turn import TurnResponse
from agentvm.log import get_logger
from agentvm.model.attachment import references
from agentvm.model.ids import Clock, ContainerId, ImageId, NewId, SessionId, SummaryId, TenantId, TurnId, UserId
from agentvm.model.image import Image
from agentvm.model.message import UserMessage
from agentvm.model.session import Summary
from agentvm.model.usage import estimate_tokens
from agentvm.runtime.ports import SettingsOf
from agentvm.sessions.background_call import BackgroundCalls, CallOwner, Tell
from agentvm.sessions.summing import LEAST_ROOM, Piece, budget_of, piece_for, wanted
from agentvm.sessions.transcript import shorten
from agentvm.sharing.cache import Cache
from agentvm.storage.base import ReadingLimits, Recalled
from agentvm.storage.sql.attachments import AttachmentStore
from agentvm.storage.sql.log import LogStore
from agentvm.storage.sql.store import Store

logger = get_logger(__name__)

WAITING = 1_000
"""Sessions that may wait to be looked at; beyond them the latest wait for their next turn."""
REMEMBERED_MAX = 10_000
"""Sessions, and images, that something is remembered of."""
WORKERS = 4
"""Sessions that are summed up at a time: one whose provider is slow keeps nobody else from it."""
MOST_CALLS = 8
"""Of one session at a time; the rest after its next turn."""
SECONDS = 120.0
"""How long one call may take."""
SOON = 15.0
"""Seconds after which who asked for it is answered with what was made by then."""
PAUSE_MS = 300_000
"""A session is left alone this long after a summary of it has failed."""
OFTEN = 8
"""A session is looked at after so many turns in any case: not everybody reports how many tokens they have read."""
OLDEST = ReadingLimits(max_bytes=8 * 1024 * 1024, newest=False)
"""What is looked at of a session at a time: the oldest that no summary covers, as much as is read for a prompt."""
CAUTION = 3
"""How much heavier than it was reported a history may be by our own weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A session, and who is billed for its summary; for who sent that turn if `user_id` is not known."""

    tenant_id: TenantId
    container_id: ContainerId
    image_id: ImageId
    session_id: SessionId
    turn_id: TurnId | None = None
    model: str | None = None
    """Who answered it."""
    user_id: UserId | None = None
    asked_for: bool = False
    """Somebody wants it now, however short the history is."""

    @property
    def key(self) -> tuple[TenantId, SessionId]:
        return self.tenant_id, self.session_id


@dataclass(slots=True)
class _Visit:
    """Somebody is at a session; `calling` once they have asked a model."""

    calling: bool = False
    over: anyio.Event = field(default_factory=anyio.Event)


class Compactor:
    """An effector; `run` are its tasks. Never two of them, nor somebody who asks for it, are at one session."""

    kinds = (TurnResponse,)

    def __init__(self, store: Store, clock: Clock, new_id: NewId, calls: BackgroundCalls, *, settings: SettingsOf) -> None:
        self._store = store
        self._clock = clock
        self._new_id = new_id
        self._calls = calls
        self._settings = settings
        self._waiting: OrderedDict[tuple[TenantId, SessionId], Work] = OrderedDict()
        self._busy: dict[tuple[TenantId, SessionId], _Visit] = {}
        self._heard = anyio.Event()
        self._rooms: Cache[tuple[TenantId, ImageId, str | None], int] = Cache(REMEMBERED_MAX)
        self._turns: Cache[tuple[TenantId, SessionId], int] = Cache(REMEMBERED_MAX)
        self._paused: Cache[tuple[TenantId, SessionId], bool] = Cache(REMEMBERED_MAX, age_ms=PAUSE_MS)

    def react(self, event: Event) -> None:
        scope, data = event.scope, event.data
        if not isinstance(data, TurnResponse) or self._settings(event.tenant_id).compaction.by == "off":
            return
        if scope.container_id is None or scope.image_id is None or scope.session_id is None or scope.turn_id is None:
            return
        work = Work(
            tenant_id=event.tenant_id,
            container_id=scope.container_id,
            image_id=scope.image_id,
            session_id=scope.session_id,
            turn_id=scope.turn_id,
            model=data.model,
        )
        if self._is_far(work, data):
            return
        if work.key not in self._waiting and len(self._waiting) >= WAITING:
            logger.info("compaction_skipped", session_id=work.session_id)
            return
        self._waiting[work.key] = work
        self._heard.set()

    async def run(self, tell: Tell) -> None:
        """Until cancelled."""
        async with anyio.create_task_group() as tasks:
            for _ in range(WORKERS):
                tasks.start_soon(self._work, tell)

    async def compact(self, work: Work, tell: Tell) -> Summary:
        """Sums up what can be, now, and says what came of it. `Conflict` when there is nothing to sum up."""
        if self._settings(work.tenant_id).compaction.by == "off":
            raise Conflict("Summaries are off here; set compaction.by to model first")
        with anyio.move_on_after(SOON):
            # Who only looks is gone in a moment.
            while (other := self._busy.get(work.key)) is not None and not other.calling:
                await other.over.wait()
        if work.key in self._busy:
            raise Conflict(f"{work.session_id} is being summed up right now; ask for its summaries in a moment")
        with self._alone(work):
            made = await self._sum_up(work, tell)
        if made is None:
            keep = self._settings(work.tenant_id).compaction.keep
            raise Conflict(f"There is nothing to sum up: the newest exchanges stay as they are, up to {keep} (compaction.keep)")
        return made

    def _is_far(self, work: Work, data: TurnResponse) -> bool:
        """Whether the history is short for certain, by what the provider has read of it: then nobody need look."""
        turns = (self._turns.get(work.key) or 0) + 1
        self._turns.put(work.key, turns)
        room = self._rooms.get((work.tenant_id, work.image_id, work.model))
        if room is None or turns % OFTEN == 0:
            return False
        return data.usage.total * CAUTION < room * self._settings(work.tenant_id).compaction.share

    async def _work(self, tell: Tell) -> None:
        while True:
            if not self._waiting:
                if self._heard.is_set():
                    self._heard = anyio.Event()
                await self._heard.wait()
                continue
            _, work = self._waiting.popitem(last=False)
            if work.key in self._busy or self._paused.get(work.key, self._clock()):
                continue
            with self._alone(work):
                try:
                    # In a group of its own: what a driver gets wrong over a summary ends that summary, not the server.
                    async with anyio.create_task_group() as alone:
                        alone.start_soon(self._try, work, tell)
                except ExceptionGroup:
                    self._paused.put(work.key, True, self._clock())
                    logger.exception("compaction_crashed", session_id=work.session_id)

    async def _try(self, work: Work, tell: Tell) -> None:
        try:
            await self._sum_up(work, tell)
        except AgentVMError as error:
            # Over the quota, an empty wallet, a provider that is out: the oldest exchanges are left out, as ever.
            self._paused.put(work.key, True, self._clock())
            logger.info("not_compacted", session_id=work.session_id, code=error.code, error=str(error))

    @contextmanager
    def _alone(self, work: Work) -> Iterator[None]:
        visit = self._busy[work.key] = _Visit()
        try:
            yield
        finally:
            del self._busy[work.key]
            visit.over.set()

    async def _sum_up(self, work: Work, tell: Tell) -> Summary | None:
        """The last of the summaries that were made; None when there was none to make."""
        container = self._store.tenant(work.tenant_id).container(work.container_id)
        image = await container.get_image(work.image_id)
        if image is None:
            raise ImageNotFound(work.image_id)
        room = await self._room(work, image)
        if room < LEAST_ROOM:
            if work.asked_for:
                raise Conflict("The window of its model is too small for a summary beside what is said")
            return None
        log = container.log(work.session_id)
        made: Summary | None = None
        until = anyio.current_time() + SOON
        for _ in range(MOST_CALLS):
            rules = self._settings(work.tenant_id).compaction
            recalled = await log.recall(OLDEST)
            sizes = await _sizes(container.attachments, recalled)
            count = wanted(recalled, room, rules, asked_for=work.asked_for, sizes=sizes)
            if not count:
                break
            try:
                fresh = await self._make(work, image, log, recalled, count, budget_of(room, rules))
            except AgentVMError:
                if made is None:
                    raise
                break
            if fresh is None:
                break
            made = fresh
            told = SessionCompacted(
                session_id=work.session_id, summary_id=made.summary_id, message_id=made.message_id, tokens=made.tokens
            )
            tell(work.tenant_id, EventScope(container_id=work.container_id, image_id=work.image_id), told)
            if work.asked_for and anyio.current_time() >= until:
                break
        return made

    async def _room(self, work: Work, image: Image) -> int:
        """Tokens that who answers has for a history."""
        definition, settings = image.definition, self._settings(work.tenant_id)
        async with self._calls.choose(work.tenant_id, definition.model) as (first, *_):
            window = first.driver.context_window(first.model)
        _, room = share_window(
            window, definition.max_tokens or settings.defaults.max_tokens, thinking_tokens(definition.thinking)
        )
        room -= estimate_tokens(definition.system_prompt or "")
        self._rooms.put((work.tenant_id, work.image_id, work.model), room)
        return room

    async def _make(
        self, work: Work, image: Image, log: LogStore, recalled: Recalled, count: int, budget: int
    ) -> Summary | None:
        """One more summary, stored; None when none could be made, or nobody needs it any more."""
        rules = self._settings(work.tenant_id).compaction
        summary_id = SummaryId(self._new_id("sum"))
        owner = await self._owner(work, summary_id)
        pieces: dict[str, Piece] = {}

        def write(one: Chosen) -> Prompt | None:
            piece = piece_for(one, recalled, count, budget)
            if piece is None:
                return None
            pieces[one.name] = piece
            return piece.prompt

        self._busy[work.key].calling = True
        with anyio.move_on_after(SECONDS) as patience:
            async with self._calls.choose(work.tenant_id, rules.model or image.definition.model) as candidates:
                heard = await self._calls.ask(owner, candidates, write)
        if patience.cancelled_caught:
            raise ProviderTimeout(f"The summary was not written within {SECONDS:.0f} s; try again")
        if heard is None:
            return None
        # What is too long was not kept to: it must not fill the room that it is to make.
        text = shorten(heard[1].strip(), 6 * budget)
        if not text:
            raise ProviderProtocolError(f"{heard[0].name} has written nothing; choose another with compaction.model")
        covered = pieces[heard[0].name].covered
        summary = Summary(
            summary_id=summary_id,
            message_id=covered.message_id,
            text=text,
            tokens=estimate_tokens(text),
            model=heard[0].name,
            made_at=self._clock(),
            user_id=owner.user_id,
        )
        if await log.add_summary(summary, covered, recalled):
            return summary
        logger.info("summary_outdated", session_id=work.session_id, summary_id=summary_id)
        if work.asked_for:
            raise Conflict(f"{work.session_id} was changed while it was summed up; try again")
        return None

    async def _owner(self, work: Work, summary_id: SummaryId) -> CallOwner:
        user_id = work.user_id
        if user_id is None and work.turn_id is not None:
            user_id = await self._calls.sender(work.tenant_id, work.turn_id)
        return CallOwner(
            key=f"summary_{summary_id}",
            tenant_id=work.tenant_id,
            container_id=work.container_id,
            image_id=work.image_id,
            session_id=work.session_id,
            user_id=user_id,
        )


async def _sizes(files: AttachmentStore, recalled: Recalled) -> dict[str, int]:
    """Of the attachments that it refers to."""
    said = (message.content for message in recalled.messages if isinstance(message, UserMessage))
    digests = dict.fromkeys(digest for content in said for digest in references(content))
    return await files.sizes(digests) if digests else {}
