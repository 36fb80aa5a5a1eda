"""Tickets — tokens for one WebSocket each, because a browser can only put its credentials into the URL, where logs see them.

A ticket is valid for a minute and for one use. The table is bounded, for each tenant and in all: a tenant at its limit is
refused, so that it cannot push out the tickets of others.
"""

import hmac
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from agentvm.errors import Refused
from agentvm.model.ids import Clock, TenantId
from agentvm.model.principal import Principal
from agentvm.tenants.keys import RandomBits, random_text

if TYPE_CHECKING:
    # Operations name this module, and load without a database.
    from agentvm.storage.sql.tickets import TicketStore

PREFIX = "avmws_"
TICKET_AGE_MS = 60_000
TICKETS_MAX = 20_000
TICKETS_PER_TENANT_MAX = 1_000

SKEW_MS = 30_000
"""How far the clock of the node that has issued a ticket may be ahead."""

_SECRET_CHARACTERS = 32
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Principal)


@dataclass(frozen=True, slots=True)
class _Ticket:
    principal: Principal
    until: int


class Tickets:
    """Issued tickets that are neither used nor expired. Stored by digest: a memory dump opens nothing."""

    def __init__(
        self,
        pepper: bytes,
        clock: Clock,
        random_bits: RandomBits,
        *,
        most: int = TICKETS_MAX,
        of_tenant: int = TICKETS_PER_TENANT_MAX,
    ) -> None:
        self._pepper, self._clock, self._random_bits = pepper, clock, random_bits
        self._most, self._of_tenant = most, of_tenant
        # In the order of issue, which is the order of expiry.
        self._tickets: dict[bytes, _Ticket] = {}
        self._count: Counter[TenantId] = Counter()

    def __len__(self) -> int:
        return len(self._tickets)

    async def issue_shared(self, principal: Principal, shared: "TicketStore") -> str:
        """A new one that any node takes. Counted here until it has expired, wherever it is used."""
        token = self.issue(principal)
        now = self._clock()
        await shared.add(self._name(token), _encoder.encode(principal), now + TICKET_AGE_MS, now)
        return token

    async def redeem_shared(self, token: str, shared: "TicketStore") -> Principal | None:
        """Returns the principal to the first caller; its permissions may have been revoked in the meantime."""
        self._remove(self._name(token))
        stored = await shared.take(self._name(token))
        if stored is None or not stored[1] - TICKET_AGE_MS - SKEW_MS <= self._clock() < stored[1]:
            return None
        return _decoder.decode(stored[0])

    def issue(self, principal: Principal) -> str:
        """A new one; `Refused` when too many are outstanding."""
        now = self._clock()
        self._drop_old(now)
        if self._count[principal.tenant_id] >= self._of_tenant or len(self._tickets) >= self._most:
            raise Refused("Too many WebSocket tokens are unused; use them, or wait a minute and try again")
        token = PREFIX + random_text(self._random_bits, _SECRET_CHARACTERS)
        self._tickets[self._name(token)] = _Ticket(principal, now + TICKET_AGE_MS)
        self._count[principal.tenant_id] += 1
        return token

    def redeem(self, token: str) -> Principal | None:
        """Returns the principal the first time; None ever after. Never waits, so of two uses of the same ticket only one
        succeeds."""
        ticket = self._remove(self._name(token))
        if ticket is None or not ticket.until - TICKET_AGE_MS <= self._clock() < ticket.until:
            return None
        return ticket.principal

    def drop(self, selects: Callable[[Principal], bool]) -> None:
        """Drops the tickets of all principals that the predicate selects."""
        for name in [name for name, ticket in self._tickets.items() if selects(ticket.principal)]:
            self._remove(name)

    def _drop_old(self, now: int) -> None:
        while self._tickets and self._tickets[oldest := next(iter(self._tickets))].until <= now:
            self._remove(oldest)

    def _remove(self, name: bytes) -> _Ticket | None:
        ticket = self._tickets.pop(name, None)
        if ticket is not None:
            self._count[ticket.principal.tenant_id] -= 1
            if not self._count[ticket.principal.tenant_id]:
                del self._count[ticket.principal.tenant_id]
        return ticket

    def _name(self, token: str) -> bytes:
        return hmac.digest(self._pepper, token.encode("utf-8", "surrogatepass"), "sha256")
