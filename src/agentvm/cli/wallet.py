"""avm wallet — a tenant's prepaid money."""

import re

import click

from agentvm.cli.api import Api, asks_server, tenant_option
from agentvm.cli.table import Columns, Item, Show, moment, money, plain
from agentvm.cli.when import past
from agentvm.model.money import dollars

EXAMPLES = """\b
Examples:
  avm wallet credit 25.00 --reference invoice-17 --tenant acme
  avm wallet show --tenant acme
  avm wallet statement --since 30d
"""

WALLET: Columns = {
    "Balance": money("balance"),
    "Credited": money("credited"),
    "Spent": money("spent"),
    "Prepaid": lambda item: "yes" if item.get("prepaid") else "no: nothing is refused for want of money",
}
STATEMENT: Columns = {
    "DATE (UTC)": moment("at"),
    "KIND": "kind",
    "REFERENCE": "reference",
    "AMOUNT": money("amount"),
    "CALLS": "calls",
    "NOTE": "note",
}

_DOLLARS = re.compile(r"-?[0-9]{1,9}(\.[0-9]{1,9})?")


@click.group(epilog=EXAMPLES)
def wallet() -> None:
    """See and fill a tenant's prepaid money."""


@wallet.command("show")
@tenant_option
@asks_server
def show_wallet(api: Api, show: Show) -> None:
    """Show how much money there is."""
    show.record(api.get("wallet"), WALLET)


@wallet.command("statement")
@click.option("--since", type=past, metavar="TIME", help="From then on: 30d, 2026-11-01.")
@click.option("--until", type=past, metavar="TIME", help="Before then.")
@tenant_option
@asks_server
def show_statement(api: Api, show: Show, since: int | None, until: int | None) -> None:
    """List how the money came and went, newest first."""
    lines = api.pages("wallet", "statement", since=since, until=until)
    show.items(lines, STATEMENT, none="Nothing came and nothing went.")


# A negative amount is no option.
@wallet.command("credit", epilog=EXAMPLES, context_settings={"ignore_unknown_options": True})
@click.argument("amount")
@click.option("--reference", required=True, help="What the payment is known by; the same one again changes nothing.")
@click.option("--note", help="A line about it.")
@tenant_option
@asks_server
def credit_wallet(api: Api, show: Show, amount: str, reference: str, note: str | None) -> None:
    """Pay AMOUNT dollars in; a negative amount takes money back. For the operator."""
    plainer = amount.replace("$", "", 1).replace(",", "")
    if not _DOLLARS.fullmatch(plainer):
        raise click.BadParameter(f"{amount!r} is no amount; write dollars, like 25.00.", param_hint="'AMOUNT'")
    body: Item = {"amountUsd": plainer, "reference": reference, **({} if note is None else {"note": note})}
    answer = api.post("wallet", "credits", body=body)
    if show.as_json:
        show.json(answer)
        return
    paid, name = dollars(int(answer.get("amount", 0))), plain(answer.get("reference"))
    click.echo(f"{paid} credited ({name})." if answer.get("added") else f"{name} was credited before; nothing is changed.")
    show.record(answer.get("wallet", {}), WALLET)
