"""Wallet — the prepaid money of a tenant: balance, statement and credits. Amounts are nano-USD."""

from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from agentvm.errors import Conflict, InvalidInput
from agentvm.model.base import Record
from agentvm.model.ledger import Credit, UsageRow, Wallet
from agentvm.operations.http_reply import HttpReply
from agentvm.operations.numbers import JSON_INTEGER_MAX, check_text
from agentvm.operations.operation import Context, Empty, Http, OperationGroup
from agentvm.operations.pages import Page, PageRequest, page_of
from agentvm.operations.times import to_ms
from agentvm.protocol.requests import Request
from agentvm.tenants.wallet import CREDITS_MAX, add_credit, check_amount, parse_dollars

operation = OperationGroup("wallet")

READ, OPERATOR = "tenants:admin", "system:admin"
REFERENCE_MAX = 200


class WalletView(Record):
    """A tenant without any credit ever is not `prepaid`, and no request is refused for lack of money."""

    balance: int
    credited: int
    spent: int
    prepaid: bool


@operation("wallet.get", needs=READ, http=Http("GET", "/v1/wallet"))
async def get(context: Context, request: Empty) -> WalletView:
    """Show the wallet."""
    return _view(await context.accounts.ledger.wallet())


class Line(Record):
    """One line of a statement: a credit, or the usage of a day. The amounts of all lines add up to the balance."""

    kind: Literal["credit", "usage"]
    at: int
    amount: int
    reference: str
    """The reference of a credit, or the day of usage."""
    note: str | None = None
    actor: str | None = None
    calls: int | None = None


class WalletStatement(PageRequest):
    """Lines from `since` on and before `until`."""

    since: str | None = None
    until: str | None = None


@operation("wallet.statement", needs=READ, http=Http("GET", "/v1/wallet/statement"))
async def statement(context: Context, request: WalletStatement) -> Page[Line]:
    """List credits and the usage of each day, newest first."""
    since, until = to_ms(request.since, "since") or 0, to_ms(request.until, "until")
    ledger = context.accounts.ledger
    lines = [_credit_line(credit) for credit in await ledger.credits(limit=CREDITS_MAX)]
    lines = [line for line in lines if since <= line.at and (until is None or line.at < until)]
    lines += [_usage_line(row) for row in await ledger.usage(by=("day",), since=since, until=until)]
    lines.sort(key=lambda line: -line.at)
    return page_of(lines, request, (f"{line.kind}:{line.reference}" for line in lines))


class CreditView(Record):
    """`added` is false when the reference was added before."""

    added: bool
    amount: int
    reference: str
    wallet: WalletView


class WalletCredit(Request[CreditView]):
    """One of the two amounts. A repeated `reference` changes nothing, so that a payment reported twice counts once."""

    reference: str
    amount_nano_usd: Annotated[int, Meta(ge=-JSON_INTEGER_MAX, le=JSON_INTEGER_MAX)] | None = None
    amount_usd: str | None = None
    note: str | None = None


@operation(
    "wallet.credit",
    needs=OPERATOR,
    audit="wallet.credit",
    http=Http("POST", "/v1/wallet/credits", id="wallet_add", statuses=(200, 201), names=("CreditRequest", None)),
    raises=(Conflict,),
)
async def add(context: Context, request: WalletCredit) -> HttpReply[CreditView]:
    """Add a credit; a negative amount withdraws money."""
    context.target = request.reference
    credit = Credit(
        reference=check_text(request.reference, "reference", REFERENCE_MAX),
        at=context.vm.clock(),
        amount=_amount(request),
        note=None if request.note is None else check_text(request.note, "note"),
        actor=context.principal.actor,
    )
    ledger = context.accounts.ledger
    added = await add_credit(ledger, context.tenancy.quotas, context.tenant_id, credit)
    view = CreditView(added=added, amount=credit.amount, reference=credit.reference, wallet=_view(await ledger.wallet()))
    return HttpReply(content=view, status=201 if added else 200)


def _amount(request: WalletCredit) -> int:
    if (request.amount_nano_usd is None) == (request.amount_usd is None):
        raise InvalidInput("Give either amountNanoUsd or amountUsd")
    return check_amount(parse_dollars(request.amount_usd) if request.amount_usd is not None else request.amount_nano_usd or 0)


def _view(wallet: Wallet) -> WalletView:
    return msgspec.convert(wallet, WalletView, from_attributes=True)


def _credit_line(credit: Credit) -> Line:
    return Line(kind="credit", **{name: getattr(credit, name) for name in Credit.__struct_fields__})


def _usage_line(row: UsageRow) -> Line:
    day = row.day or ""
    at = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() * 1000)
    return Line(kind="usage", at=at, amount=-row.price, reference=day, calls=row.calls)
