"""Ledger — usage and price of each model call. Rows are only ever added, each once."""

import msgspec

from agentvm.model.base import Record
from agentvm.model.ids import ContainerId, ImageId, KeyId, SessionId, TenantId, TurnId, UserId
from agentvm.model.usage import Usage


class LedgerEntry(Record):
    """A model call, or a job in a sandbox. `key` names it: adding it again changes nothing, so that no replay bills twice.

    `cost` is the provider's, `price` the tenant's, both in nano-USD and None where the price is unknown.
    """

    key: str
    at: int
    tenant_id: TenantId
    user_id: UserId | None = None
    key_id: KeyId | None = None
    container_id: ContainerId
    image_id: ImageId
    session_id: SessionId
    turn_id: TurnId
    driver: str
    model: str
    usage: Usage
    cost: int | None = None
    price: int | None = None
    wall_ms: int = 0
    """Time of a job in a sandbox; its driver is `tier`, its model the name of the tier."""
    cpu_ms: int = 0


class TreeUse(Record):
    """The use of the other turns on one budget: those of the agents above a turn, below it and beside it."""

    steps: int = 0
    """Model calls."""
    tokens: int = 0
    cost: int = 0
    """Nano-USD."""
    tool_calls: int = 0
    price: int = 0
    """The amount that their tenant is charged, in nano-USD."""


NO_USE = TreeUse()

TIER_DRIVER = "tier"
"""The driver in the entry of a job in a sandbox; its model is the name of the tier."""


class TurnCharge(Record):
    """The price of a turn so far, and the model that answered last. `price` is None where no price is known."""

    price: int | None = None
    model: str | None = None


class Planned(Record):
    """A model call that is about to be made, and the most tokens it can use."""

    tenant_id: TenantId
    user_id: UserId | None
    driver: str
    model: str
    most_input: int
    most_output: int
    most_searches: int = 0
    """Searches that the provider may make by itself."""
    least_output: int | None = None
    """Smallest useful answer; between the two, the answer is capped to the remaining tokens. None: no cap."""
    own_key: bool = False
    """The tenant pays the provider with its own key: the call costs only the operator's surcharge."""
    hosted: bool = False
    """Whether the tenant's own key goes to an address of the operator."""
    provider: str = ""
    """The operator's name for the provider: one driver may have several, at several prices."""


class SentCall(Record):
    """A model call whose request is about to leave; it is stored until the ledger has its usage.

    `call_id` is the message that its answer becomes, and names its entry; a call without an answer is entered as `key`.
    """

    key: str
    call_id: str
    at: int
    tenant_id: TenantId
    user_id: UserId | None = None
    key_id: KeyId | None = None
    container_id: ContainerId
    image_id: ImageId
    session_id: SessionId
    turn_id: TurnId
    driver: str
    model: str
    provider: str = ""
    own_key: bool = False
    hosted: bool = False
    input_tokens: int
    """Estimate of the input."""

    @property
    def planned(self) -> Planned:
        """Returns the plan of a call that was made: it is charged regardless of its reservation."""
        return Planned(
            tenant_id=self.tenant_id,
            user_id=self.user_id,
            driver=self.driver,
            model=self.model,
            most_input=0,
            most_output=0,
            own_key=self.own_key,
            hosted=self.hosted,
            provider=self.provider,
        )

    @property
    def unanswered(self) -> Usage:
        """Usage of a call without a known answer: its input."""
        return Usage(input_tokens=self.input_tokens, output_tokens=0, estimated=True)

    def entry(self, usage: Usage, charge: "Charge", at: int, *, key: str | None = None) -> LedgerEntry:
        """Returns its entry in the ledger, under its own key unless it has another."""
        return LedgerEntry(
            key=key or self.key,
            at=at,
            tenant_id=self.tenant_id,
            user_id=self.user_id,
            key_id=self.key_id,
            container_id=self.container_id,
            image_id=self.image_id,
            session_id=self.session_id,
            turn_id=self.turn_id,
            driver=self.driver,
            model=self.model,
            usage=usage,
            cost=charge.cost,
            price=charge.price,
        )


class Charge(msgspec.Struct, frozen=True):
    """The charge of a call in nano-USD; None when the price is unknown."""

    cost: int | None
    price: int | None


class UsageRow(Record):
    """A sum over ledger entries; the members that were not grouped by are absent."""

    tenant_id: TenantId | None = None
    user_id: UserId | None = None
    key_id: KeyId | None = None
    container_id: ContainerId | None = None
    image_id: ImageId | None = None
    session_id: SessionId | None = None
    driver: str | None = None
    model: str | None = None
    hour: str | None = None
    """`2026-11-15T10:00Z`."""
    day: str | None = None
    """`2026-11-15`, in UTC."""
    month: str | None = None
    """`2026-11`, in UTC."""
    calls: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    thinking_tokens: int
    web_searches: int = 0
    estimated_calls: int
    """Calls with estimated usage, because the provider did not report it."""
    unpriced_calls: int
    cost: int
    price: int
    wall_ms: int = 0
    """Time of jobs in sandboxes."""


class Credit(Record):
    """A credit to a tenant's wallet, or its reversal. A `reference` is booked once."""

    reference: str
    at: int
    amount: int
    note: str | None = None
    actor: str


class Wallet(Record):
    """A tenant's prepaid money, in nano-USD. Without any credit ever, the tenant is not prepaid and nothing is refused."""

    credited: int = 0
    spent: int = 0
    prepaid: bool = False

    @property
    def balance(self) -> int:
        return self.credited - self.spent
