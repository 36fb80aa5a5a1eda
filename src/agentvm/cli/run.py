"""avm run — one call of an agent without a session, for scripts."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from agentvm.cli.api import Api, tenant_command
from agentvm.cli.exit_codes import ExitCode
from agentvm.cli.names import call_agent
from agentvm.cli.screen import citation_line
from agentvm.cli.table import Show, lines, plain
from agentvm.model.turn import OutputFormat

EXAMPLES = """\b
Examples:
  avm run translator "Good morning"
  avm run translator - < letter.txt                  the message from stdin
  avm run default "Name three teas" --schema teas.schema.json
  avm run img_… "Hello" --keep                       then: avm chat --session SESSION
"""

STDIN = "-"


def output_format(ctx: click.Context, argument: click.Parameter, file: Path | None) -> OutputFormat | None:
    """The form of an answer: the JSON Schema of a file, under the name of the file."""
    if file is None:
        return None
    try:
        schema = json.loads(file.read_text("utf-8"))
        name = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in file.name.partition(".")[0])
        return msgspec.convert({"name": name or "answer", "schema": schema}, OutputFormat)
    except OSError as error:
        raise click.BadParameter(f"{file}: {error.strerror}") from None
    except ValueError as error:
        raise click.BadParameter(f"{file} is not a JSON Schema: {error}") from None


schema_option = click.option(
    "--schema",
    "output",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=output_format,
    metavar="FILE",
    help="Answer with JSON that fits this JSON Schema.",
)


@click.command(epilog=EXAMPLES)
@click.argument("agent")
@click.argument("text")
@click.option("--container", help="Container of the agent (default: your own, or `default`).")
@schema_option
@click.option("--keep", is_flag=True, help="Keep the session, to continue with it.")
@tenant_command
def run(api: Api, show: Show, /, agent: str, text: str, container: str | None, **options: Any) -> int:
    """Ask an agent once, without a session.

    Prints the answer, and to stderr the passages that it cites. AGENT is the name of an agent, a URI, or the id or name of an
    image. No message is stored, unless --keep is set. Ends with 1 if the agent failed.
    """
    content = sys.stdin.read() if text == STDIN else text
    ask = partial(api.call_model, "run.ask", content=content, container=container, **options)
    answer = call_agent(api, lambda named: ask(agent=named), agent, container)
    error = answer.get("error")
    if show.as_json:
        show.json(answer)
    elif answer.get("output") is not None:
        click.echo(json.dumps(answer["output"], ensure_ascii=False, indent=2))
    elif answer.get("text") and not error:
        click.echo(lines(answer["text"]))
    for cited in () if show.as_json else answer.get("citations") or ():
        click.echo(citation_line(cited), err=True)
    if not show.as_json and error:
        click.echo(f"Error: {plain(error.get('message'))} ({plain(error.get('code'))})", err=True)
    if not show.as_json and options["keep"]:
        click.echo(f"To continue: avm chat --session {plain(answer.get('sessionId'))}", err=True)
    return 0 if answer.get("outcome") == "completed" else ExitCode.FAILED
