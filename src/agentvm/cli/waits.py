"""avm waits, avm answer — tool calls that wait for an answer."""

import json
from typing import Any

import click

from agentvm.cli.api import Api, tenant_command
from agentvm.cli.options import container_option
from agentvm.cli.table import Columns, Item, Show, moment, plain, when

EXAMPLES = """\b
Examples:
  avm waits
  avm answer wait_… approve
  avm answer wait_… deny --reason "not on a Friday"
  avm answer wait_… edit --input '{"order": 8}'
"""

COLUMNS: Columns = {
    "WAIT": "waitId",
    "TOOL": "tool",
    "KIND": "kind",
    "INPUT": lambda item: plain(json.dumps(item["input"], ensure_ascii=False)),
    "EXPIRES (UTC)": moment("expiresAt"),
    "WHY": "why",
}


@click.command(epilog=EXAMPLES)
@container_option
@click.option("--session", "session_id", metavar="SESSION", help="Only this session.")
@click.option("--all", "is_all", is_flag=True, help="Include calls that were answered.")
@tenant_command
def waits(api: Api, show: Show, container_id: str | None, session_id: str | None, is_all: bool) -> None:
    """List tool calls that wait for an approval or an answer.

    The oldest come first.
    """
    items = api.items("tool.waits", container_id=container_id, session_id=session_id, state=None if is_all else "open")
    show.items(items, COLUMNS, none="Nothing waits.")


@click.command(epilog=EXAMPLES)
@click.argument("wait_id", metavar="WAIT")
@click.argument("decision", type=click.Choice(("approve", "edit", "deny", "answer", "show")))
@click.option("--input", "input_json", metavar="JSON", help="The whole new input, for `edit`.")
@click.option("--result", "result_json", metavar="JSON", help="The result of the call, for `answer`.")
@click.option("--reason", help="Reason shown to the model, for `deny`.")
@click.option("--remember", type=click.Choice(("session", "image")), help="Approve further calls of the tool there.")
@tenant_command
def answer(
    api: Api,
    show: Show,
    wait_id: str,
    decision: str,
    input_json: str | None,
    result_json: str | None,
    reason: str | None,
    remember: str | None,
) -> None:
    """Approve, edit or deny a tool call that waits.

    `answer` gives the result of a call that runs elsewhere; `show` only prints the call.
    """
    wait = api.call("tool.wait", wait_id)
    if decision == "show":
        _print(show, wait)
        return
    options = {"input": _json(input_json, "--input"), "result": _json(result_json, "--result")}
    fields = {name: value for name, value in options.items() if value is not None}
    answered = api.call(
        "tool.answer",
        wait_id,
        fingerprint=wait["fingerprint"],
        decision=decision,
        reason=reason,
        remember=remember,
        **fields,
    )
    show.done(f"{wait['tool']}: {decision}. The turn continues.", answered)


def _print(show: Show, wait: Item) -> None:
    if show.as_json:
        show.json(wait)
        return
    click.secho(f"{plain(wait['tool'])} ({plain(wait['kind'])})", bold=True)
    click.echo(plain(f"why      {wait['why']}"))
    click.echo(plain(f"asked    {when(wait['askedAt'])}"))
    click.echo(plain(f"expires  {when(wait['expiresAt'])}"))
    click.echo("\n".join(map(plain, json.dumps(wait["input"], ensure_ascii=False, indent=2).split("\n"))))


def _json(text: str | None, option: str) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"not valid JSON: {error}", param_hint=option) from None
