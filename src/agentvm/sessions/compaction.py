"""Compaction — summarizes older messages, so that a model knows of them when they do not fit its context window any more.

Theory of operation. An effector learns of ended turns, and a worker checks a session whose prompt may have become long. If the
history fills more than a share of the room for it, the oldest exchanges are summarized, but not the newest ones: as many at a
time as the window of the summarizing model holds, together with the previous summary. Each call makes one summary of complete
exchanges and is billed under its own key, so a crash loses one call at most, and a history of any length is caught up with
over time. A summary is stored only if the messages that it covers are unchanged by then. No turn waits for this, and none
fails because of it: without a summary the oldest exchanges are left out.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import anyio

from agentvm.drivers.base import Prompt
from agentvm.drivers.conversation import share_window, thinking_tokens
from agentvm.drivers.models import Chosen
from agentvm.errors import AgentVMError, Conflict, ImageNotFound, ProviderProtocolError, ProviderTimeout
from agentvm.events.base import Event
from agentvm.events.lifecycle import SessionCompacted
from agentvm.events.turn import TurnResponse
from agentvm.log import get_logger
from agentvm.model.attachment import references_of
from agentvm.model.definition import system_text
from agentvm.model.ids import Clock, ImageId, NewId, SessionId, SummaryId, TenantId
from agentvm.model.image import Image
from agentvm.model.session import Summary
from agentvm.model.usage import estimate_tokens
from agentvm.runtime.ports import SettingsOf
from agentvm.sessions.background_call import BackgroundCalls, PublishEvent, SessionWork
from agentvm.sessions.summary_prompt import ROOM_MIN_TOKENS, SummaryCall, budget_of, exchanges_due, summary_call
from agentvm.sessions.transcript import shorten
from agentvm.sharing.cache import Cache
from agentvm.storage.base import ReadingLimits, Recalled, is_tainted
from agentvm.storage.sql.attachments import AttachmentStore
from agentvm.storage.sql.log import LogStore
from agentvm.storage.sql.store import Store

logger = get_logger(__name__)

QUEUED_SESSIONS_MAX = 1_000
"""Sessions that wait for a check; beyond them the latest wait for their next turn."""
REMEMBERED_MAX = 10_000
"""Sessions, and images, whose state is cached."""
WORKERS_MAX = 4
"""Sessions that are summarized at a time: a slow provider does not block other sessions."""
SESSION_CALLS_MAX = 8
"""Calls for one session at a time; the rest after its next turn."""
CALL_TIMEOUT_SECONDS = 120.0
REPLY_TIMEOUT_SECONDS = 15.0
"""A compact request is answered after this long, with the summaries finished so far."""
RETRY_MS = 300_000
"""A session is left alone this long after a summary of it has failed."""
CHECKED_TURNS_MAX = 8
"""A session is checked after this many turns in any case: not every provider reports input tokens."""
OLDEST = ReadingLimits(max_bytes=8 * 1024 * 1024, newest=False)
"""The part of a session that is read at a time: the oldest messages without a summary, as much as is read for a prompt."""
ESTIMATE_FACTOR = 3
"""A history may have this many times the reported tokens by our own estimate."""


@dataclass(slots=True)
class _Visit:
    """A check of a session; `calling` once it has called a model."""

    calling: bool = False
    over: anyio.Event = field(default_factory=anyio.Event)


class Compactor:
    """An effector; `run` are its workers. One session is summarized by one worker or request at a time."""

    kinds = (TurnResponse,)

    def __init__(self, store: Store, clock: Clock, new_id: NewId, calls: BackgroundCalls, *, settings: SettingsOf) -> None:
        self._store = store
        self._clock = clock
        self._new_id = new_id
        self._calls = calls
        self._settings = settings
        self.weigh: Callable[[TenantId, SessionId], int | None] = lambda *_: None
        """Returns the tokens of a history that is in memory; None for one that must be read."""
        self._waiting: OrderedDict[tuple[TenantId, SessionId], SessionWork] = OrderedDict()
        self._busy: dict[tuple[TenantId, SessionId], _Visit] = {}
        self._wake = anyio.Event()
        self._rooms: Cache[tuple[TenantId, ImageId, str | None], int] = Cache(REMEMBERED_MAX)
        self._turns: Cache[tuple[TenantId, SessionId], int] = Cache(REMEMBERED_MAX)
        self._paused: Cache[tuple[TenantId, SessionId], bool] = Cache(REMEMBERED_MAX, age_ms=RETRY_MS)

    def react(self, event: Event) -> None:
        data, work = event.data, SessionWork.after(event)
        if work is None or not isinstance(data, TurnResponse) or self._settings(event.tenant_id).compaction.by == "off":
            return
        if self._is_short(work, data):
            return
        if work.key not in self._waiting and len(self._waiting) >= QUEUED_SESSIONS_MAX:
            logger.info("compaction_skipped", session_id=work.session_id)
            return
        self._waiting[work.key] = work
        self._wake.set()

    async def run(self, publish: PublishEvent) -> None:
        """Runs the workers until cancelled."""
        async with anyio.create_task_group() as tasks:
            for _ in range(WORKERS_MAX):
                tasks.start_soon(self._work, publish)

    async def compact(self, work: SessionWork, publish: PublishEvent) -> Summary:
        """Summarizes now, and returns the last summary. `Conflict` when there is nothing to summarize."""
        if self._settings(work.tenant_id).compaction.by == "off":
            raise Conflict("Summaries are turned off; set compaction.by to model first")
        with anyio.move_on_after(REPLY_TIMEOUT_SECONDS):
            # A check without a call takes a moment only.
            while (other := self._busy.get(work.key)) is not None and not other.calling:
                await other.over.wait()
        if work.key in self._busy:
            raise Conflict(f"{work.session_id} is being summarized; list its summaries in a moment")
        with self._alone(work):
            summary = await self._summarize(work, publish)
        if summary is None:
            keep = self._settings(work.tenant_id).compaction.keep
            raise Conflict(f"There is nothing to summarize: the newest exchanges are kept, up to {keep} (compaction.keep)")
        return summary

    def _is_short(self, work: SessionWork, data: TurnResponse) -> bool:
        """Whether the history is short for certain, by the tokens that the provider has reported, or as it is in memory."""
        turns = (self._turns.get(work.key) or 0) + 1
        self._turns.put(work.key, turns)
        room = self._rooms.get((work.tenant_id, work.image_id, work.model))
        if room is None:
            return False
        most = room * self._settings(work.tenant_id).compaction.share
        if turns % CHECKED_TURNS_MAX == 0:
            weight = self.weigh(*work.key)
            return weight is not None and weight <= most
        return data.usage.total * ESTIMATE_FACTOR < most

    async def _work(self, publish: PublishEvent) -> None:
        while True:
            if not self._waiting:
                if self._wake.is_set():
                    self._wake = anyio.Event()
                await self._wake.wait()
                continue
            _, work = self._waiting.popitem(last=False)
            if work.key in self._busy or self._paused.get(work.key, self._clock()):
                continue
            with self._alone(work):
                if not await work.run(self._try, publish, "compaction_crashed"):
                    self._paused.put(work.key, True, self._clock())

    async def _try(self, work: SessionWork, publish: PublishEvent) -> None:
        try:
            await self._summarize(work, publish)
        except AgentVMError as error:
            # A quota, an empty wallet, an unavailable provider: the oldest exchanges are left out of prompts.
            self._paused.put(work.key, True, self._clock())
            logger.info("not_compacted", session_id=work.session_id, code=error.code, error=str(error))

    @contextmanager
    def _alone(self, work: SessionWork) -> Iterator[None]:
        visit = self._busy[work.key] = _Visit()
        try:
            yield
        finally:
            del self._busy[work.key]
            visit.over.set()

    async def _summarize(self, work: SessionWork, publish: PublishEvent) -> Summary | None:
        """Returns the last of the new summaries; None when none was due."""
        container = self._store.tenant(work.tenant_id).container(work.container_id)
        image = await container.get_image(work.image_id)
        if image is None:
            raise ImageNotFound(work.image_id)
        room = await self._room(work, image)
        if room < ROOM_MIN_TOKENS:
            if work.requested:
                raise Conflict("The context window of the model is too small for a summary")
            return None
        log = container.log(work.session_id)
        last: Summary | None = None
        until = anyio.current_time() + REPLY_TIMEOUT_SECONDS
        for _ in range(SESSION_CALLS_MAX):
            rules = self._settings(work.tenant_id).compaction
            recalled = await log.recall(OLDEST)
            sizes = await _sizes(container.attachments, recalled)
            count = exchanges_due(recalled, room, rules, requested=work.requested, sizes=sizes)
            if not count:
                break
            try:
                summary = await self._make(work, image, log, recalled, count, budget_of(room, rules))
            except AgentVMError:
                if last is None:
                    raise
                break
            if summary is None:
                break
            last = summary
            publish(work.tenant_id, work.scope, SessionCompacted.of(summary, session_id=work.session_id))
            if work.requested and anyio.current_time() >= until:
                break
        return last

    async def _room(self, work: SessionWork, image: Image) -> int:
        """Returns the tokens that the answering model has for a history."""
        definition, settings = image.definition, self._settings(work.tenant_id)
        async with self._calls.choose(work.tenant_id, definition.model, image.key_owner) as (first, *_):
            window = first.driver.context_window(first.model)
        _, room = share_window(
            window, definition.max_tokens or settings.defaults.max_tokens, thinking_tokens(definition.thinking)
        )
        room -= estimate_tokens(system_text(definition) or "")
        self._rooms.put((work.tenant_id, work.image_id, work.model), room)
        return room

    async def _make(
        self, work: SessionWork, image: Image, log: LogStore, recalled: Recalled, count: int, budget: int
    ) -> Summary | None:
        """Makes and stores one summary; None when none could be made, or it is out of date."""
        rules = self._settings(work.tenant_id).compaction
        summary_id = SummaryId(self._new_id("sum"))
        owner = await self._calls.owner(work, f"summary_{summary_id}")
        calls: dict[str, SummaryCall] = {}

        def write(chosen: Chosen) -> Prompt | None:
            call = summary_call(chosen, recalled, count, budget)
            if call is None:
                return None
            calls[chosen.name] = call
            return call.prompt

        self._busy[work.key].calling = True
        with anyio.move_on_after(CALL_TIMEOUT_SECONDS) as timeout:
            # The key of an image is for its own model.
            model, key_owner = (image.definition.model, image.key_owner) if rules.model is None else (rules.model, None)
            async with self._calls.choose(work.tenant_id, model, key_owner) as candidates:
                answer = await self._calls.ask(owner, candidates, write)
        if timeout.cancelled_caught:
            raise ProviderTimeout(f"The summary was not written within {CALL_TIMEOUT_SECONDS:.0f} s; try again")
        if answer is None:
            return None
        chosen, answered = answer
        # A model may ignore the limit; a longer summary would fill the room that it is to make.
        text = shorten(answered.strip(), 6 * budget)
        if not text:
            raise ProviderProtocolError(f"{chosen.name} wrote an empty summary; choose another model with compaction.model")
        covered = calls[chosen.name].covered
        summary = Summary(
            summary_id=summary_id,
            message_id=covered.message_id,
            text=text,
            tokens=estimate_tokens(text),
            model=chosen.name,
            made_at=self._clock(),
            user_id=owner.user_id,
            tainted=is_tainted(recalled, covered.message_id),
        )
        if await log.add_summary(summary, covered, recalled):
            return summary
        logger.info("summary_outdated", session_id=work.session_id, summary_id=summary_id)
        if work.requested:
            raise Conflict(f"{work.session_id} was changed while it was summarized; try again")
        return None


async def _sizes(files: AttachmentStore, recalled: Recalled) -> dict[str, int]:
    """Returns the sizes of the attachments that the messages refer to."""
    digests = dict.fromkeys(digest for message in recalled.messages for digest in references_of(message))
    return await files.sizes(digests) if digests else {}
