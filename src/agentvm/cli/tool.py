"""avm tool — list the tools of the resource centre, and call one to try it."""

import json

import click

from agentvm.cli.api import Api, tenant_command
from agentvm.cli.table import Columns, Show, lines, plain, shortened
from agentvm.model.resource import SCHEME, ResourceUri, is_reference, parse_uri

EXAMPLES = """\b
Examples:
  avm tool list
  avm tool try calculator --input '{"expression": "6 * 7"}'
  avm tool try acme/orders@1.2.0 --input '{"id": 7}' --why
  avm tool try pets#getPet --input '{"petId": 7}'        one tool of a set
"""

DESCRIPTION_CHARACTERS_MAX = 60
COLUMNS: Columns = {
    "URI": "uri",
    "LATEST": "latest",
    "DESCRIPTION": lambda item: shortened(item.get("description") or "", DESCRIPTION_CHARACTERS_MAX),
}


@click.group(epilog=EXAMPLES)
def tool() -> None:
    """List tools and call one of them."""


@tool.command("list")
@click.argument("query", metavar="[TEXT]", required=False)
@tenant_command
def list_tools(api: Api, show: Show, query: str | None) -> None:
    """List the tools that agents can use; with TEXT those that match it."""
    show.items(api.items("resource.list", type="tools", q=query), COLUMNS, none="No tools found.")


def tool_uri(text: str) -> ResourceUri:
    """A tool by its URI, or by its name: `[OWNER/]NAME[@VERSION][#TOOL]`."""
    return parse_uri(text if is_reference(text) else f"{SCHEME}tools/{text}")


@tool.command("try", epilog=EXAMPLES)
@click.argument("uri", type=tool_uri, metavar="NAME")
@click.option("--input", "input_json", metavar="JSON", default="{}", help="Input of the call, an object.")
@click.option("--approve", is_flag=True, help="Approve the call, if it needs an approval that you may give.")
@click.option("--why", "is_why", is_flag=True, help="Show the rule that decided, and the verdict on each tier.")
@tenant_command
def try_tool(api: Api, show: Show, uri: ResourceUri, input_json: str, approve: bool, is_why: bool) -> int:
    """Call a tool once, outside a conversation, and print its result.

    The exit code is 1 if the tool failed.
    """
    try:
        input = json.loads(input_json)
    except ValueError as error:
        raise click.BadParameter(f"not valid JSON: {error}", param_hint="--input") from None
    if not isinstance(input, dict):
        raise click.BadParameter('not an object, such as {"id": 7}', param_hint="--input")
    name = str(ResourceUri(type=uri.type, owner=uri.owner, name=uri.name))
    invocation = api.call_model("resource.invoke", name, version=uri.selector, tool=uri.fragment, input=input, approve=approve)
    output = invocation["output"]
    failed = str(output["type"]).startswith(("error", "execution"))
    if show.as_json:
        show.json(invocation)
        return int(failed)
    value = output.get("value", output.get("reason"))
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    click.echo(lines(text), err=failed)
    if is_why:
        reasons = [("policy", invocation["policy"]), *invocation.get("why", ())]
        reasons += [(invocation["tier"], "chosen")] if "tier" in invocation and not invocation.get("why") else []
        for label, reason in reasons:
            click.echo(plain(f"{label:<10} {reason}"), err=True)
    return int(failed)
