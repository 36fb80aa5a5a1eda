"""Billing — the cost of model calls: admitted before each call, settled after it, once.

That a call is asked is committed before its request leaves. Every call that was sent has one ledger entry, named after the
message that it produced, or after its request if there was no output. It is committed together with the output of the call. If
that commit is lost the entry is posted again with the turn's end; the ledger takes each name once. Calls of a crashed process
are entered by the next one: see `agentvm.runtime.recovery.settlement`.
"""

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Protocol

import msgspec

from agentvm.events import turn as turn_events
from agentvm.events.base import EventData, EventScope
from agentvm.events.lifecycle import QuotaWarning
from agentvm.events.tool import ToolCharged
from agentvm.model.ids import Clock, KeyId, TenantId, UserId
from agentvm.model.ledger import Charge, LedgerEntry, Planned, SentCall
from agentvm.model.usage import Usage

Events = tuple[EventData, ...]


class Hold(Protocol):
    """The amounts reserved for one call. Exactly one of the two methods is called, once."""

    @property
    def warnings(self) -> tuple[QuotaWarning, ...]: ...

    @property
    def most_output(self) -> int | None:
        """How many tokens the answer may have; None for as many as were planned."""

    def settle(self, usage: Usage) -> Charge:
        """The call has used this much."""

    def release(self) -> None:
        """The call was never begun."""


class Meter(Protocol):
    """Decides whether a call may be made, and computes its price."""

    async def admit(self, planned: Planned, *, force: bool = False) -> Hold:
        """Raises `QuotaExceeded`, `WalletEmpty` or `ModelUnpriced` when the call must not be made.

        With `force` the call was already made: it is charged even beyond them.
        """


class Unmetered:
    """Admits everything and asks no price: for a runtime without accounts."""

    warnings: tuple[QuotaWarning, ...] = ()
    most_output: int | None = None

    async def admit(self, planned: Planned, *, force: bool = False) -> "Unmetered":
        return self

    def settle(self, usage: Usage) -> Charge:
        return Charge(None, None)

    def release(self) -> None:
        """A hold without reserved amounts."""


class ToolMeter(Protocol):
    """Bounds the resources that the tools of a tenant use."""

    def running(self, tenant_id: TenantId) -> AbstractAsyncContextManager[None]:
        """Holds one of the tenant's calls at a time; waits while as many run as its quota allows."""


class UnmeteredTools:
    """Lets every tool run: for a runtime without accounts."""

    def running(self, tenant_id: TenantId) -> AbstractAsyncContextManager[None]:
        return nullcontext()


class Bill:
    """The account of one turn, or of one call in the background."""

    def __init__(
        self,
        meter: Meter,
        clock: Clock,
        tenant_id: TenantId,
        user_id: UserId | None,
        scope: EventScope,
        *,
        key_id: KeyId | None = None,
    ) -> None:
        self._meter = meter
        self._clock = clock
        self._tenant_id = tenant_id
        self._scope = scope
        self._planned: Planned | None = None
        self._hold: Hold | None = None
        self.user_id = user_id
        self.key_id = key_id
        self.price = 0
        """Amounts of all calls of the turn so far, also of those before a restart."""
        self.agents_price = 0
        """Amounts of the sub-agents below a turn of a person, when they were last looked at."""
        self.settled = True
        """Whether the price includes usage before a restart; otherwise the end of the turn has no price."""
        self.tool_cost = 0
        """Price of the jobs of tools since this process has the turn."""
        self.entries: list[LedgerEntry] = []
        self._closed: list[turn_events.ModelCalled | turn_events.ModelUnasked | ToolCharged] = []
        """The calls and jobs that ended, in case the commit they were in was lost."""

    async def admit(self, planned: Planned, *, force: bool = False) -> Events:
        """Reserves the maximum of the next call; returns the warnings for its user."""
        self._planned = planned
        self._hold = await self._meter.admit(planned, force=force)
        return self._hold.warnings

    def ask(self, key: str, call_id: str, input_tokens: int) -> turn_events.ModelAsked:
        """The call that was admitted, to be committed before its request leaves."""
        if self._planned is None:
            raise ValueError(f"{key} was not admitted")
        return turn_events.ModelAsked(call=self._call(self._planned, key, call_id, input_tokens))

    def unask(self, key: str) -> turn_events.ModelUnasked:
        """The call used nothing."""
        self.close()
        event = turn_events.ModelUnasked(asked=key)
        self._closed.append(event)
        return event

    @property
    def most_output(self) -> int | None:
        """How many tokens the answer may have of the call that was admitted; None for as many as were planned."""
        return None if self._hold is None else self._hold.most_output

    def enter(self, contents: Events) -> Events:
        """The events, with the ledger's entry in each call that ended, and the turn's price in its end."""
        return tuple([self._enter(data) if data.category == "turn" else data for data in contents])

    def charge(self, entry: LedgerEntry) -> ToolCharged:
        """The entry of a tool's job, to be committed with the result of its call."""
        self.price += entry.price or 0
        self.tool_cost += entry.price or 0
        self.entries.append(entry)
        charged = ToolCharged(entry=entry)
        self._closed.append(charged)
        return charged

    def close(self) -> None:
        """A call that was admitted and never begun used nothing."""
        if self._hold is not None:
            self._hold.release()
            self._hold = None

    def repeat(self) -> Events:
        """The entries of the turn once more, in case the commit they were in was lost."""
        return tuple(self._closed)

    def _enter(self, data: EventData) -> EventData:
        match data:
            case turn_events.ModelCalled(entry=None) if self._planned is not None:
                charge = Charge(None, None) if self._hold is None else self._hold.settle(data.usage)
                self._hold = None
                call = self._call(self._planned, data.call_id, data.call_id, 0)
                entry = call.entry(data.usage, charge, call.at)
                self.entries.append(entry)
                self.price += charge.price or 0
                called = msgspec.structs.replace(data, entry=entry)
                self._closed.append(called)
                return called
            case turn_events.TurnResponse():
                return msgspec.structs.replace(data, price=self.price + self.agents_price if self.settled else None)
            case _:
                return data

    def _call(self, planned: Planned, key: str, call_id: str, input_tokens: int) -> SentCall:
        scope = self._scope
        if scope.container_id is None or scope.image_id is None or scope.session_id is None or scope.turn_id is None:
            raise ValueError(f"{key} belongs to no turn")
        return SentCall(
            key=key,
            call_id=call_id,
            at=self._clock(),
            tenant_id=self._tenant_id,
            user_id=self.user_id,
            key_id=self.key_id,
            container_id=scope.container_id,
            image_id=scope.image_id,
            session_id=scope.session_id,
            turn_id=scope.turn_id,
            driver=planned.driver,
            model=planned.model,
            provider=planned.provider,
            own_key=planned.own_key,
            hosted=planned.hosted,
            input_tokens=input_tokens,
        )
