"""Wallets — how credits are added to the prepaid money of a tenant. Amounts are nano-USD."""

import re
from contextlib import nullcontext
from decimal import Decimal
from typing import TYPE_CHECKING

from agentvm.errors import Conflict, InvalidInput, shorten
from agentvm.model.ids import TenantId
from agentvm.model.ledger import Credit
from agentvm.model.money import DOLLAR_NANO, dollars, to_nano

if TYPE_CHECKING:
    from agentvm.storage.sql.accounts.ledger import LedgerStore
    from agentvm.tenants.quota import Quotas

CREDIT_NANO_MAX = 1_000_000 * DOLLAR_NANO
"""More than a million dollars at once is a typo, or an amount in the wrong unit."""
WALLET_NANO_MAX = 1_000_000_000 * DOLLAR_NANO
CREDITS_MAX = 100_000

_USD = re.compile(r"-?[0-9]{1,9}(\.[0-9]{1,9})?")


def parse_dollars(text: str) -> int:
    """Returns the nano-USD of an amount like `12.50`."""
    if not _USD.fullmatch(text):
        raise InvalidInput(f'amountUsd is {shorten(text)!r}; it must be dollars as text, like "12.50"')
    return to_nano(Decimal(text))


def check_amount(amount: int) -> int:
    """Returns an amount that one credit may have."""
    if amount == 0:
        raise InvalidInput("The amount of a credit must not be 0")
    if abs(amount) > CREDIT_NANO_MAX:
        raise InvalidInput(f"At most {dollars(CREDIT_NANO_MAX)} at once, not {dollars(amount)}")
    return amount


async def add_credit(ledger: "LedgerStore", quotas: "Quotas", tenant_id: TenantId, credit: Credit) -> bool:
    """Adds the credit; False if its reference was added before, by then or in the meantime. `Conflict` for another amount."""
    added = await _find(ledger, credit.reference) is None and await _add(ledger, quotas, tenant_id, credit)
    stored = credit if added else await _find(ledger, credit.reference)
    if stored is not None and stored.amount != credit.amount:
        raise Conflict(f"The reference {shorten(credit.reference)} is already that of {dollars(stored.amount)}")
    return added


async def _add(ledger: "LedgerStore", quotas: "Quotas", tenant_id: TenantId, credit: Credit) -> bool:
    if (await ledger.wallet()).credited + credit.amount > WALLET_NANO_MAX:
        raise InvalidInput(f"A wallet holds at most {dollars(WALLET_NANO_MAX)}")
    async with quotas.withdrawing(tenant_id, -credit.amount) if credit.amount < 0 else nullcontext():
        added = await ledger.credit(credit)
        await quotas.reread(tenant_id)
    return added


async def _find(ledger: "LedgerStore", reference: str) -> Credit | None:
    return next((credit for credit in await ledger.credits(limit=CREDITS_MAX) if credit.reference == reference), None)
