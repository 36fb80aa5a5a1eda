"""avm wallet — the prepaid balance of a tenant."""

import re

import click

from agentvm.cli.api import Api, tenant_command
from agentvm.cli.options import since_option, until_option
from agentvm.cli.table import Columns, Show, moment, money, plain
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
    "Prepaid": lambda item: "yes" if item.get("prepaid") else "no: the balance is not enforced",
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
    """Show and credit a tenant's prepaid balance."""


@wallet.command("show")
@tenant_command
def show_wallet(api: Api, show: Show) -> None:
    """Show the balance."""
    show.record(api.call("wallet.get"), WALLET)


@wallet.command("statement")
@since_option
@until_option
@tenant_command
def show_statement(api: Api, show: Show, since: int | None, until: int | None) -> None:
    """List credits and charges, newest first."""
    show.items(api.items("wallet.statement", since=since, until=until), STATEMENT, none="No credits or charges found.")


# A negative amount is not an option.
@wallet.command("credit", epilog=EXAMPLES, context_settings={"ignore_unknown_options": True})
@click.argument("amount")
@click.option("--reference", required=True, help="Unique reference of the payment; repeating it has no effect.")
@click.option("--note", help="Note in one line.")
@tenant_command
def credit_wallet(api: Api, show: Show, amount: str, reference: str, note: str | None) -> None:
    """Credit AMOUNT dollars; negative to debit. Operators only."""
    digits = amount.replace("$", "", 1).replace(",", "")
    if not _DOLLARS.fullmatch(digits):
        raise click.BadParameter(f"{amount!r} is not a valid amount; use dollars, like 25.00.", param_hint="'AMOUNT'")
    credit = api.call("wallet.credit", amount_usd=digits, reference=reference, note=note)
    if show.as_json:
        show.json(credit)
        return
    paid, name = dollars(int(credit.get("amount", 0))), plain(credit.get("reference"))
    click.echo(f"{paid} credited ({name})." if credit.get("added") else f"{name} was credited before; nothing was changed.")
    show.record(credit.get("wallet", {}), WALLET)
