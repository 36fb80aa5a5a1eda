"""Tickets — tokens for one WebSocket each, because a browser can only put its credentials into the URL, where logs see them.

A ticket is good for a minute and for one use. The table is bounded, for each tenant and in all: who fills their part is
refused, so that nobody can push out the tickets of others.
"""

import hmac
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from agentvm.errors import Refused
from agentvm.model.ids import Clock, TenantId
from agentvm.model.principal import Principal
from agentvm.tenants.keys import RandomBits, random_text

PREFIX = "avmws_"
AGE_MS = 60_000
MOST = 20_000
MOST_OF_TENANT = 1_000

_LETTERS = 32


@dataclass(frozen=True, slots=True)
class _Ticket:
    principal: Principal
    until: int


class Tickets:
    """Those that were given out and neither used nor too old. Kept by digest: a dump of the memory opens nothing."""

    def __init__(
        self, pepper: bytes, clock: Clock, random_bits: RandomBits, *, most: int = MOST, of_tenant: int = MOST_OF_TENANT
    ) -> None:
        self._pepper, self._clock, self._random_bits = pepper, clock, random_bits
        self._most, self._of_tenant = most, of_tenant
        # In the order they were given out, which is the order in which they end.
        self._tickets: dict[bytes, _Ticket] = {}
        self._count: Counter[TenantId] = Counter()

    def __len__(self) -> int:
        return len(self._tickets)

    def give(self, principal: Principal) -> str:
        """A new one; `Refused` when too many are outstanding."""
        now = self._clock()
        self._drop_old(now)
        if self._count[principal.tenant_id] >= self._of_tenant or len(self._tickets) >= self._most:
            raise Refused("Too many WebSocket tokens are outstanding; use them, or wait a minute and ask again")
        token = PREFIX + random_text(self._random_bits, _LETTERS)
        self._tickets[self._name(token)] = _Ticket(principal, now + AGE_MS)
        self._count[principal.tenant_id] += 1
        return token

    def take(self, token: str) -> Principal | None:
        """Whose it is, the first time; None ever after. Never waits, so of two that bring the same one only one has it."""
        ticket = self._remove(self._name(token))
        if ticket is None or not ticket.until - AGE_MS <= self._clock() < ticket.until:
            return None
        return ticket.principal

    def drop(self, gone: Callable[[Principal], bool]) -> None:
        """Forgets those of all whom the predicate names."""
        for name in [name for name, ticket in self._tickets.items() if gone(ticket.principal)]:
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
