"""Wallet — `/v1/wallet`: a tenant's prepaid money, and how it came and went. Amounts are nano-USD."""

import re
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Literal

from msgspec import Meta

from agentvm.errors import Conflict, InvalidInput, shorten
from agentvm.model.base import Record
from agentvm.model.ledger import Credit, Wallet
from agentvm.model.money import NANO, dollars, to_nano
from agentvm.server.http.route import (
    BIG,
    Answer,
    Ask,
    Given,
    Nothing,
    Page,
    PageGiven,
    Routes,
    check_text,
    moment,
    page_of,
)
from agentvm.storage.sql.accounts.ledger import LedgerStore

routes = Routes()

LOOKING = ("tenants:admin",)
OPERATOR = ("system:admin",)

MOST_AT_ONCE = 1_000_000 * NANO
"""Nobody pays in more than a million at once: it is a typo, or an amount in the wrong unit."""
MOST_IN_ALL = 1_000_000_000 * NANO
MOST_CREDITS = 100_000

_USD = re.compile(r"-?[0-9]{1,9}(\.[0-9]{1,9})?")


class CreditGiven(Given):
    """One of the two amounts. The same `reference` again changes nothing, so a payment that is told twice counts once."""

    reference: str
    amount_nano_usd: Annotated[int, Meta(ge=-BIG, le=BIG)] | None = None
    amount_usd: str | None = None
    note: str | None = None


class StatementGiven(PageGiven):
    since: str | None = None
    until: str | None = None


class WalletView(Record):
    """Without any credit ever a tenant is not `prepaid`, and nothing is refused for want of money."""

    balance: int
    credited: int
    spent: int
    prepaid: bool


class CreditView(Record):
    """`added` is false when the reference was there already."""

    added: bool
    amount: int
    reference: str
    wallet: WalletView


class Line(Record):
    """One line of a statement: a credit, or what was used on a day. The amounts of all lines add up to the balance."""

    kind: Literal["credit", "usage"]
    at: int
    amount: int
    reference: str
    """Of a credit its own; of usage the day."""
    note: str | None = None
    actor: str | None = None
    calls: int | None = None


@routes.add("GET", "/v1/wallet", needs=LOOKING, takes=Nothing)
async def get(ask: Ask[Nothing]) -> WalletView:
    """Show the wallet."""
    return _shown(await ask.accounts.ledger.wallet())


@routes.add("GET", "/v1/wallet/statement", needs=LOOKING, takes=StatementGiven)
async def statement(ask: Ask[StatementGiven]) -> Page[Line]:
    """List credits and the usage of each day.

    Newest first.
    """
    given = ask.given
    since, until = moment(given.since, "since") or 0, moment(given.until, "until")
    lines = [_credit_line(credit) for credit in await ask.accounts.ledger.credits(limit=MOST_CREDITS)]
    lines = [line for line in lines if since <= line.at and (until is None or line.at < until)]
    for row in await ask.accounts.ledger.usage(by=("day",), since=since, until=until):
        day = row.day or ""
        at = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() * 1000)
        lines.append(Line(kind="usage", at=at, amount=-row.price, reference=day, calls=row.calls))
    lines.sort(key=lambda line: -line.at)
    return page_of(lines, given, _names(lines))


@routes.add(
    "POST",
    "/v1/wallet/credits",
    needs=OPERATOR,
    takes=CreditGiven,
    action="wallet.credit",
    statuses=(200, 201),
    raises=(Conflict,),
)
async def add(ask: Ask[CreditGiven]) -> Answer[CreditView]:
    """Add a credit, or take one back."""
    given = ask.given
    ask.target = given.reference
    credit = Credit(
        reference=check_text(given.reference, "reference", 200),
        at=ask.vm.clock(),
        amount=_amount(given),
        note=None if given.note is None else check_text(given.note, "note"),
        actor=ask.principal.actor,
    )
    ledger = ask.accounts.ledger
    added = await _find(ledger, credit.reference) is None and await _add(ask, credit)
    known = credit if added else await _find(ledger, credit.reference)
    if known is not None and known.amount != credit.amount:
        raise Conflict(f"The reference {shorten(credit.reference)} is already that of {dollars(known.amount)}")
    shown = CreditView(added=added, amount=credit.amount, reference=credit.reference, wallet=_shown(await ledger.wallet()))
    return Answer(content=shown, status=201 if added else 200)


async def _add(ask: Ask[CreditGiven], credit: Credit) -> bool:
    """Whether it was new, also if the same is asked for twice at once."""
    ledger, quotas = ask.accounts.ledger, ask.tenancy.quotas
    if (await ledger.wallet()).credited + credit.amount > MOST_IN_ALL:
        raise InvalidInput(f"A wallet holds at most {dollars(MOST_IN_ALL)}")
    async with quotas.withdrawing(ask.tenant_id, -credit.amount) if credit.amount < 0 else nullcontext():
        added = await ledger.credit(credit)
        await quotas.reread(ask.tenant_id)
    return added


async def _find(ledger: LedgerStore, reference: str) -> Credit | None:
    return next((one for one in await ledger.credits(limit=MOST_CREDITS) if one.reference == reference), None)


def _amount(given: CreditGiven) -> int:
    if (given.amount_nano_usd is None) == (given.amount_usd is None):
        raise InvalidInput("Give either amountNanoUsd or amountUsd")
    if given.amount_usd is None:
        amount = given.amount_nano_usd or 0
    elif _USD.fullmatch(given.amount_usd):
        amount = to_nano(Decimal(given.amount_usd))
    else:
        raise InvalidInput(f'amountUsd is {shorten(given.amount_usd)!r}; it must be dollars as text, like "12.50"')
    if amount == 0:
        raise InvalidInput("A credit of nothing is none")
    if abs(amount) > MOST_AT_ONCE:
        raise InvalidInput(f"At most {dollars(MOST_AT_ONCE)} at once, not {dollars(amount)}")
    return amount


def _shown(wallet: Wallet) -> WalletView:
    return WalletView(balance=wallet.balance, credited=wallet.credited, spent=wallet.spent, prepaid=wallet.prepaid)


def _credit_line(credit: Credit) -> Line:
    return Line(
        kind="credit", at=credit.at, amount=credit.amount, reference=credit.reference, note=credit.note, actor=credit.actor
    )


def _names(lines: Sequence[Line]) -> list[str]:
    return [f"{line.kind}:{line.reference}" for line in lines]
