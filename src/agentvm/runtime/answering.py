"""Answering — one turn at work: model call, tools, model call … until the model is done or the budget is."""

from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import msgspec

from agentvm.drivers.base import ModelOutput, Prompt, ProviderTool, UserEntry
from agentvm.drivers.conversation import count_tokens, estimate_input, share_window, thinking_tokens
from agentvm.drivers.models import Chosen
from agentvm.drivers.output_schema import output_tokens, refuses_output
from agentvm.drivers.weighing import hidden_tokens
from agentvm.errors import AgentVMError, ProviderBadRequest, ProviderProtocolError
from agentvm.errors.bounds import TurnLimitReached
from agentvm.events import turn as turn_events
from agentvm.events.lifecycle import ProviderFallback
from agentvm.log import get_logger
from agentvm.model.definition import system_text
from agentvm.model.ids import TenantId, TurnId
from agentvm.model.image import Image
from agentvm.model.ledger import NO_USE, TreeUse
from agentvm.model.message import ToolCallMessage, is_foreign
from agentvm.model.usage import NO_USAGE, Usage
from agentvm.runtime import attached, budget, context, model_call, quoted_context, refusal, turn
from agentvm.runtime.accepted import Accepted
from agentvm.runtime.acting_agent import agents_of
from agentvm.runtime.call_skills import CallSkills
from agentvm.runtime.citations import sources_of
from agentvm.runtime.handoff import transfer_tools
from agentvm.runtime.output_check import OutputCheck, answers_of
from agentvm.runtime.policy import decide
from agentvm.runtime.ports import Ports
from agentvm.runtime.provider_chain import ProviderAttempt, ProviderChain
from agentvm.runtime.quoting import Quoted, quote
from agentvm.runtime.recovery import progress
from agentvm.runtime.session_log import SessionLog
from agentvm.runtime.setting_aside import Refusals
from agentvm.runtime.skill_rules import skill_rules
from agentvm.runtime.sub_agents import parent_of
from agentvm.runtime.tool_search import found_tools
from agentvm.runtime.tool_step import CallRunner
from agentvm.runtime.tools import ToolSet
from agentvm.runtime.turn_options import add_tools, apply_options, choose_tool
from agentvm.runtime.turn_state import Unchecked
from agentvm.storage.base import Recalled

logger = get_logger(__name__)

LEAST_ANSWER_TOKENS = 256
"""A call is refused if too little is left of a limit for an answer with this many tokens."""


class Answering:
    """Carries out one turn, and records its model calls with events. How the turn ends is its agent's business."""

    def __init__(self, ports: Ports, image: Image, log: SessionLog, accepted: Accepted) -> None:
        self._ports = ports
        self._image = image
        self._log = log
        self._accepted = accepted
        self._definition = apply_options(image.definition, accepted.options)
        settings = ports.settings_of(log.tenant_id)  # As they are when the turn begins, under whose rules it ends.
        own = None if accepted.origin is None else accepted.origin.budget
        self._limits, self._defaults = budget.lowered(settings.limits, own), settings.defaults
        self._history = Recalled()
        self._entered = 0
        """Entries of the bill before the call in progress."""
        self._composed = context.Composed([], 0, 0)
        """The conversation of the last prompt, and the messages that each part of it comes from."""
        self._refusals = Refusals(ports, log, accepted.state.user_message_id)
        self._skills = CallSkills(ports.store, image, log.tenant_id)
        self._tools = ToolSet(())
        self._found_tools: tuple[str, ...] = ()
        """Tools that the model has found in this session."""
        self._tainted = False
        """Whether the prompt holds untrusted text."""
        self._output = None if self._definition.output is None else OutputCheck(self._definition.output)
        self._unenforced = (image.image_id, self._definition.model)
        self._constrains = ports.unenforced.get(self._unenforced) is None
        """Whether the provider is asked to enforce schemas, of the answer and of tools; until it refuses to."""
        self._quoted: Quoted | None = None
        """Memories and passages that are told beside the conversation; None before they were looked up."""

    async def run(self) -> None:
        """Returns when the turn has ended by itself; raises the error that ended it otherwise."""
        log = self._log
        if self._accepted.is_to_blame:
            times = self._accepted.attempt
            raise TurnLimitReached(f"The server did not survive this turn {times} times; it is not begun again")
        self._ports.quarantine.check(log.tenant_id, log.session_id)
        if self._accepted.stopped:
            # It only ends: what was begun before is not gone on with.
            return
        async with self._ports.tools.open(log.tenant_id, self._image) as tools:
            self._tools = add_tools(tools, self._accepted.options).joined(transfer_tools(self._image))
            self._accepted.state = msgspec.structs.replace(self._accepted.state, checks_output=self._output is not None)
            if self._accepted.resumed and not self._accepted.taken_up:
                self._accepted.taken_up = True
                await self._begin_again()
            async with self._ports.choose(log.tenant_id, self._definition.model, self._image.key_owner) as candidates:
                if self._accepted.resumed and not self._accepted.cost:
                    # What the ledger says, else what the calls before the restart would have cost with who is asked first.
                    self._accepted.cost = self._accepted.bill.price or self._price(candidates[0], self._accepted.spent)
                while not (self._accepted.state.ended or self._accepted.parked or self._accepted.switched):
                    await self._step(candidates)

    async def _step(self, candidates: Sequence[Chosen]) -> None:
        """The tools the model has asked for, then the model: the first candidate that answers."""
        if self._accepted.state.pending:
            await self._tool_step().run()
            if self._accepted.parked or self._accepted.switched:
                return
        elif self._accepted.state.paused or self._accepted.state.unchecked:
            # What the provider has said so far must be in the history that it is asked with.
            await self._flush()
        self._history = history = await self._recall(candidates)
        now = self._accepted.state
        if self._quoted is None:
            window = min(candidate.driver.context_window(candidate.model) for candidate in candidates)
            asker = self._accepted.bill.user_id
            self._quoted = await quote(self._ports, self._image, self._log, history, now.user_message_id, window, asker)
            messages = history.messages if now.produced else ()
            self._accepted.sources = sources_of(self._quoted.passages, messages, now.turn_id)
        self._tainted = self._tainted or self._quoted.tainted or (not history.plain and _is_tainted(history))
        self._found_tools = found_tools(history.messages) if self._tools.is_large else ()
        self._accepted.skill_rules = await skill_rules(self._skills, history.messages, now.turn_id)
        done = progress.review(history.messages, now.turn_id) if now.produced else progress.NOTHING
        accepted, cost = self._accepted, self._accepted.cost + self._accepted.bill.tool_cost
        accepted.others = await self._others()
        accepted.bill.agents_price = accepted.others.price if parent_of(accepted) is None else 0
        budget.check(self._limits, done, cost, accepted.tool_seconds, accepted.others)
        while True:
            chain = ProviderChain(candidates, silence_seconds=self._ports.settings_of(None).defaults.timeout_seconds)
            try:
                await model_call.ask(chain, self)
                break
            except ProviderBadRequest as error:
                if self._accepted.state.message_id is not None:
                    raise
                if self._constrains and refuses_output(error):
                    self._constrains = False
                    if self._output is None:
                        self._ports.unenforced.put(self._unenforced, True)
                    continue
                first, entries = candidates[0], self._composed.told
                self._history = await self._refusals.set_aside(error, first.provider, entries, self._history)
        self._history = Recalled()  # Not kept in memory while tools run.
        await self._refusals.confirm()
        await self._check_output()

    async def _others(self) -> TreeUse:
        """Returns the use of the agents that draw on the budget of this turn."""
        parent, turn_id = parent_of(self._accepted), self._accepted.state.turn_id
        if parent is None and not (agents_of(self._image) and self._accepted.state.produced):
            return NO_USE
        ledger = self._ports.store.accounts(self._log.tenant_id).ledger
        return await ledger.tree_use(turn_id if parent is None else parent.root_turn, turn_id)

    async def _check_output(self) -> None:
        """Ends the turn if its answer has the wanted form; else the next call asks for another."""
        answer = self._accepted.state.unchecked
        if self._output is None or answer is None:
            return
        if (fits := self._output.read(answer)) is not None:
            await self._advance(turn.fitting(self._accepted.state, fits[0], self._ports.clock()))

    @property
    def tenant_id(self) -> TenantId:
        return self._log.tenant_id

    @property
    def has_begun(self) -> bool:
        """Whether the call in progress is answered, or has ended."""
        return self._accepted.state.asked_key is None or self._accepted.state.message_id is not None

    @asynccontextmanager
    async def prompt(self, chosen: Chosen) -> AsyncGenerator[attached.Filled]:
        """The prompt, with the bytes of the attachments in the part of the history that fits."""
        if self._history.plain:
            yield attached.Filled(self._compose(chosen, self._history, {}))
            return
        store = self._ports.store.tenant(self._log.tenant_id).container(self._log.container_id).attachments
        sizes = await attached.weigh(store, self._history.messages)
        prompt = self._compose(chosen, self._history, sizes)
        async with self._ports.attachment_memory.hold(self._log.tenant_id, attached.volume(prompt, sizes)) as sent:
            yield attached.Filled(await attached.fill(store, prompt, sizes), sent)

    async def admit(self, chosen: Chosen, prompt: Prompt) -> Prompt:
        """The prompt, with as long an answer as there is room for. Nothing is called that could not be paid for."""
        bill, thinking = self._accepted.bill, prompt.thinking or 0
        least = min(prompt.max_tokens, LEAST_ANSWER_TOKENS) + thinking
        weight = self._composed.most
        planned = model_call.plan(chosen, prompt, self.tenant_id, bill.user_id, conversation=weight, least_output=least)
        if warnings := await bill.admit(planned):
            await self._accepted.wait_released()
            self._ports.journal.post(self._log, warnings, self._accepted.scope)
        if bill.most_output is None or bill.most_output >= planned.most_output:
            return prompt
        return msgspec.structs.replace(prompt, max_tokens=bill.most_output - thinking)

    async def begin(self, provider: ProviderAttempt, prompt: Prompt, attempt: int) -> None:
        """Commits that the call is made, with an event."""
        await self._publish_fallback(provider)
        accepted, at, sent = self._accepted, self._ports.clock(), estimate_input(prompt, self._composed.weight)
        call_id = turn.next_id(accepted.state)
        key = f"{call_id}.{attempt}"
        journal = self._ports.journal
        batch = journal.post(self._log, (accepted.bill.ask(key, call_id, sent),), accepted.scope)
        if batch is not accepted.acceptance:
            await journal.confirm(batch, self._log, accepted.scope)
        self._entered = len(accepted.bill.entries)
        accepted.state = msgspec.structs.replace(
            accepted.state,
            asked=provider.chosen.name,
            asked_at=at,
            attempt=attempt,
            asked_key=key,
            prompt_tokens=sent,
            sources=dict(accepted.sources),
            hidden_tokens=hidden_tokens(prompt, driver=provider.chosen.driver.name),
            spoken_at=None,
        )
        try:
            await accepted.wait_released()
        except anyio.get_cancelled_exc_class():
            if await accepted.is_stored():
                await self.withdraw()
            raise

    async def receive(self, output: ModelOutput) -> None:
        self._post(turn.step(self._accepted.state, output, self._ports.clock()))
        if self._ports.journal.crowded:
            await self._flush()

    async def withdraw(self) -> None:
        """The call that was announced never left, or was refused: it used nothing."""
        accepted, key = self._accepted, self._accepted.state.asked_key or ""
        accepted.state = msgspec.structs.replace(accepted.state, asked_key=None)
        try:
            self._ports.journal.post(self._log, (accepted.bill.unask(key),), accepted.scope)
        except AgentVMError as error:
            # The turn's end says it once more.
            logger.info("call_not_taken_back", call=key, code=error.code)

    async def settle(self, chosen: Chosen, *, cut: bool) -> None:
        """Adds up the cost of the call. The end of the turn settles a call that it cuts off, or that failed half-way."""
        if cut:
            return
        if not self.has_begun:
            # Nothing was heard of it, and it has been read all the same.
            await self._advance(turn.unanswered(self._accepted.state, self._ports.clock()))
        self._accepted.cost += sum(self._price(chosen, entry.usage) for entry in self._accepted.bill.entries[self._entered :])

    def check(self, chosen: Chosen) -> None:
        now = self._accepted.state
        if not now.ended and (now.message_id is not None or not (now.pending or now.paused or now.unchecked)):
            raise ProviderProtocolError(f"{chosen.driver.name} ended its answer without saying why; try again")

    async def _publish_fallback(self, provider: ProviderAttempt) -> None:
        """Tells clients which model answers the turn, and why it is not the chosen one."""
        if provider.instead_of is None or provider.again:
            return
        await self._accepted.wait_released()
        before, health = provider.instead_of.name, provider.instead_of.health
        event = ProviderFallback(from_=before, to=provider.chosen.name, reason=health.reason, retry_at=health.retry_at)
        self._ports.journal.post(self._log, (event,), self._accepted.scope)
        logger.info("provider_fallback", instead_of=event.from_, asked=event.to, reason=event.reason)

    def _price(self, chosen: Chosen, usage: Usage) -> int:
        return self._ports.cost(chosen.driver.name, chosen.model, usage, self._ports.clock(), chosen.provider) or 0

    async def _begin_again(self) -> None:
        accepted = self._accepted
        now = accepted.state
        at, attempt, user_id = self._ports.clock(), accepted.attempt, accepted.bill.user_id
        event = turn_events.TurnResumed(
            turn_id=now.turn_id, message_id=now.user_message_id, attempt=attempt, timestamp=at, user_id=user_id
        )
        # Their results stand right behind them, before anything that the model says from here on.
        accepted.state, lost = turn.lose_at_provider(now, self._ports.clock(), accepted.lost_at_provider)
        now, accepted.lost_at_provider = accepted.state, ()
        await self._ports.journal.emit(self._log, (*accepted.bill.repeat(), event, *lost), accepted.scope)
        if accepted.asked_for or now.pending:
            log = self._log
            history = await self._ports.recall(log.tenant_id, log.container_id, log.session_id, now.user_message_id)
            # As it was when the model asked: results beside those that are missing were not in its prompt.
            pending = {call.id for call in now.pending}
            self._tainted = _is_tainted(history, now.turn_id, pending)
            accepted.skill_rules = await skill_rules(self._skills, history.messages, now.turn_id, pending)
        if accepted.asked_for:
            used = NO_USAGE if accepted.cut is None else accepted.cut.usage
            await self._advance(turn.close_cut(now, now.told, accepted.asked_for, used, self._ports.clock()))
            return
        if now.pending:
            await self._tool_step().lose()
        elif self._output is not None:
            await self._review_output(self._output)

    async def _review_output(self, output: OutputCheck) -> None:
        """Looks at the answers of the turn before a restart, the last of which may be the end of the turn."""
        log, now = self._log, self._accepted.state
        history = await self._ports.recall(log.tenant_id, log.container_id, log.session_id, now.user_message_id)
        answers = answers_of(history.messages, now.turn_id)
        if answers:
            output.go_on(len(answers) - 1)
            self._accepted.state = msgspec.structs.replace(now, unchecked=Unchecked(answers[-1], "end_turn"))
            await self._check_output()

    def _tool_step(self) -> CallRunner:
        tainted = self._tainted or self._accepted.state.heard_strangers
        return CallRunner(self._ports, self._image, self._log, self._accepted, self._tools, tainted)

    def _provided(self, driver: str) -> tuple[ProviderTool, ...]:
        """Returns the tools that the provider may run. Its calls cannot wait for an approval."""
        layers = (*self._ports.policy(self._log.tenant_id, self._image), *self._accepted.skill_rules)
        offered, alone = self._tools.provided(driver, tainted=self._tainted), self._accepted.unattended
        return tuple(tool for tool, facts in offered if decide(replace(facts, unattended=alone), layers).do == "allow")

    async def _recall(self, candidates: Sequence[Chosen]) -> Recalled:
        """Reads all messages of the turn, which no summary covers before it has ended, and as many earlier ones as its model
        needs."""
        log = self._log
        window = max(candidate.driver.context_window(candidate.model) for candidate in candidates)
        current = self._accepted.state.user_message_id
        sums_up = self._ports.settings_of(log.tenant_id).compaction.by != "off"
        history = self._ports.histories.find(log.tenant_id, log.session_id, current, summary=sums_up, window=window)
        if history is not None:
            return history
        await self._accepted.wait_stored()
        return await self._ports.recall(log.tenant_id, log.container_id, log.session_id, current, window)

    def _compose(self, chosen: Chosen, history: Recalled, sizes: attached.Sizes) -> Prompt:
        definition, model, thinking = self._definition, chosen.model, thinking_tokens(self._definition.thinking)
        tools = self._tools.specs_for(chosen.driver.context_window(model), self._found_tools)
        answer_tokens, system = definition.max_tokens or self._defaults.max_tokens, system_text(definition)
        max_tokens, room = share_window(chosen.driver.context_window(model), answer_tokens, thinking)
        room -= output_tokens(definition.output)
        summary = None if history.summary is None else history.summary.text
        quoted = () if self._quoted is None else self._quoted.exchange
        # With something refused, an exchange is told otherwise than before.
        key = (self._log.tenant_id, self._log.session_id)
        composed = context.compose_weighed(
            refusal.without(history.messages, history.refused),
            self._accepted.state.turn_id,
            context.Exchanges() if history.refused else self._ports.histories.exchanges(*key),
            system=system,
            tools=tools,
            budget=room - count_tokens(quoted),
            summary=summary,
            sizes=sizes,
        )
        self._composed = quoted_context.insert(composed, quoted, self._accepted.state.user_message_id)
        if self._output is not None and (wish := self._output.instruction) is not None:
            self._composed = context.followed_by(self._composed, UserEntry(content=wish))
        return Prompt(
            model=model,
            conversation=tuple([entry for entry, _ in self._composed.told]),
            max_tokens=max_tokens,
            system=system,
            tools=tools,
            provider_tools=self._provided(chosen.driver.name),
            thinking=thinking,
            temperature=definition.temperature,
            stop=() if self._accepted.options is None else self._accepted.options.stop,
            silence=self._defaults.timeout_seconds,
            output=definition.output,
            constrains=self._constrains,
            tool_choice=choose_tool(self._accepted.options, tools, self._accepted.state.call_ids),
            begun=self._accepted.state.told,
        )

    async def _advance(self, step: turn.Step) -> None:
        self._post(step)
        if self._ports.journal.crowded:
            await self._flush()

    def _post(self, step: turn.Step) -> None:
        state, events = step
        if len(events) != 1 or events[0].category != "stream":
            events = self._accepted.timed(events) if state.ended else events
            events = self._accepted.bill.enter(events)
        self._accepted.note_commit(self._ports.journal.post(self._log, events, self._accepted.scope), by_model=True)
        self._accepted.state = state

    async def _flush(self) -> None:
        await self._accepted.settle(self._ports, self._log)


def _is_tainted(history: Recalled, turn_id: TurnId | None = None, until: Collection[str] = ()) -> bool:
    """Returns whether untrusted text is in the history, or in its part before one of these calls of the turn."""
    if history.summary is not None and history.summary.tainted:
        return True
    for message in history.messages:
        if isinstance(message, ToolCallMessage) and message.turn_id == turn_id and message.tool_call.id in until:
            return False
        if is_foreign(message):
            return True
    return False
