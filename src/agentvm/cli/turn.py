"""avm turn — what a turn spent its time and money on, and what was told of it."""

import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import click
import msgspec

from agentvm.cli.api import PAGE, Api, asks_server, tenant_option
from agentvm.cli.names import SESSION, NamedOption, turn_argument
from agentvm.cli.past import Past, data_option
from agentvm.cli.table import Columns, Item, Show, lines, moment, money, plain
from agentvm.cli.when import past

EXAMPLES = """\b
Examples:
  avm turn list --slowest --since 7d    what took longest this week
  avm turn list --session sess_1
  avm turn show turn_1
  avm turn replay turn_1                what was said, at once
  avm turn replay turn_1 --speed 1      as fast as it was said
  avm turn replay turn_1 --data ~/.agentvm   from the files, without a server
"""

STAGES = ("queue", "wait", "stream", "tools", "other", "away")
DETAILS = 80
"""Letters of a step's details; the columns after them should stay on the screen."""


TURNS: Columns = {
    "TURN": "turnId",
    "SESSION": "sessionId",
    "ACCEPTED (UTC)": moment("acceptedAt"),
    "OUTCOME": lambda item: item.get("outcome", "running"),
    "MS": lambda item: item["endedAt"] - item["acceptedAt"] if "endedAt" in item else None,
    "INPUT": lambda item: (item.get("usage") or {}).get("inputTokens"),
    "OUTPUT": lambda item: (item.get("usage") or {}).get("outputTokens"),
}

ABOUT: Columns = {
    "turn": "turnId",
    "session": "sessionId",
    "accepted (UTC)": moment("acceptedAt"),
    "outcome": lambda item: item.get("outcome", "running"),
    "why": lambda item: _reason(item),
    "duration (ms)": "duration",
    "tokens in": lambda item: item["usage"].get("inputTokens"),
    "tokens out": lambda item: item["usage"].get("outputTokens"),
    "cost": money("cost"),
    "price": money("price"),
    "stages (ms)": lambda item: _stages(item),
}

STEPS: Columns = {
    "AT (MS)": "at",
    "MS": "took",
    "WHAT": "what",
    "DETAILS": "details",
    "FIRST TOKEN (MS)": "first",
    "INPUT": "input",
    "OUTPUT": "output",
    "PRICE": money("price"),
}


@click.group(epilog=EXAMPLES)
def turn() -> None:
    """See what turns spent their time and money on."""


@turn.command("list", epilog=EXAMPLES)
@click.option("--session", cls=NamedOption, kind=SESSION, help="Only of that session.")
@click.option("--container", help="Only of that container.")
@click.option("--slowest", is_flag=True, help="Those that took longest first, instead of the newest.")
@click.option("--outcome", type=click.Choice(["completed", "interrupted", "failed", "running"]), help="Only those.")
@click.option("--since", type=past, metavar="TIME", help="Begun then or later: 7d, 2026-11-01. A day ago, without a session.")
@click.option("--until", type=past, metavar="TIME", help="Begun before then.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="At most so many.")
@data_option
@tenant_option
@asks_server
def list_turns(
    api: Api,
    show: Show,
    session: str | None,
    container: str | None,
    slowest: bool,
    outcome: str | None,
    since: int | None,
    until: int | None,
    limit: int,
    data: Path | None,
) -> None:
    """List turns: the newest first, or those that took longest."""
    if data is not None:
        if session is None or slowest or container or outcome or since or until:
            raise click.UsageError("With --data name a --session, and nothing else that narrows the list.")
        found = iter(Past(data, api.tenant).list(session, limit))
    else:
        found = api.pages(
            "turns",
            cursor="cursor",
            session=session,
            container=container,
            order="slowest" if slowest else None,
            outcome=outcome,
            since=since,
            until=until,
            limit=min(limit, PAGE),
        )
    show.items(islice(found, limit), TURNS, none="There are no turns.")


@turn.command("show", epilog=EXAMPLES)
@turn_argument
@data_option
@tenant_option
@asks_server
def show_turn(api: Api, show: Show, turn_id: str, data: Path | None) -> None:
    """Show what a turn spent its time and money on; also while it runs."""
    line = api.get("turns", turn_id) if data is None else Past(data, api.tenant).show(turn_id)
    show.record(line, ABOUT)
    if show.as_json:
        return
    click.echo()
    show.items(sorted(_steps(line), key=lambda step: int(step["at"])), STEPS, none="Nothing was done yet.")
    if not line.get("complete"):
        click.echo("What was told of it is no longer kept, or too much to look at; what it used and cost is known.", err=True)


@turn.command("replay", epilog=EXAMPLES)
@turn_argument
@click.option(
    "--speed", type=click.FloatRange(min=0.01), help="1 takes as long as it took, 2 half of that; at once if not said."
)
@data_option
@tenant_option
@asks_server
def replay(api: Api, show: Show, turn_id: str, speed: float | None, data: Path | None) -> None:
    """Print what was told of a turn: the same text in the same order. No model is asked.

    With --json every event, one on a line, as clients got it. With --data from the files of a server, which need not run.
    """
    before: int | None = None
    told = api.pages("turns", turn_id, "events", cursor="cursor") if data is None else Past(data, api.tenant).events(turn_id)
    for event in told:
        at = int(event.get("timestamp", 0))
        if speed is not None and before is not None and at > before:
            time.sleep((at - before) / 1000 / speed)
        before = at
        if show.as_json:
            click.echo(msgspec.json.encode(event).decode())
        else:
            _say(event)
    sys.stdout.flush()


def _say(event: Item) -> None:
    """Text goes out as it came; what else happened is on a line of its own, on stderr, so that stdout is the answer."""
    data = event.get("data") or {}
    match event.get("type"):
        case "text_delta":
            click.echo(lines(str(data.get("text", ""))), nl=False)
        case "message_stop":
            click.echo()
        case "tool_use_stop":
            click.echo(f"[{plain(data.get('toolName'))} {plain(msgspec.json.encode(data.get('input')).decode())}]", err=True)
        case "tool_completed" | "tool_failed" as kind:
            word = "gave" if kind == "tool_completed" else "failed:"
            click.echo(f"[{plain(data.get('toolName'))} {word} {plain(data.get('result', data.get('error')))}]", err=True)
        case "provider_fallback":
            click.echo(f"[{plain(data.get('to'))} instead of {plain(data.get('from'))}: {plain(data.get('reason'))}]", err=True)
        case "error_received":
            click.echo(f"[failed: {plain(data.get('message'))}]", err=True)
        case "turn_response":
            click.echo(f"[{plain(data.get('outcome'))} after {plain(data.get('duration'))} ms]", err=True)
        case _:
            pass


def _reason(line: Item) -> str | None:
    """Why it ended: the error in all its words, or why the model stopped, which explains the length of an answer."""
    failed = [one.get("details") or {} for one in line.get("moments", ()) if one.get("what") == "failed"]
    return failed[-1].get("message") if failed and line.get("outcome") == "failed" else line.get("stopReason")


def _short(details: str) -> str:
    return details if len(details) <= DETAILS else f"{details[:DETAILS]}…"


def _stages(line: Item) -> str | None:
    stages = line.get("stages")
    if not line.get("complete"):
        return None
    return " + ".join(f"{name} {(stages or {}).get(name, 0):,}" for name in STAGES if (stages or {}).get(name))


def _steps(line: Item) -> Iterator[Item]:
    begun = int(line["acceptedAt"])
    for call in line.get("calls", ()):
        asked, usage = call.get("askedAt", call.get("endedAt", begun)), call.get("usage") or {}
        again = f", attempt {call['attempt']}" if call.get("attempt", 1) > 1 else ""
        yield {
            "at": asked - begun,
            "took": call["endedAt"] - asked if "endedAt" in call else None,
            "what": "model",
            "details": f"{call.get('provider', '')}/{call.get('model', '')}{again}",
            "first": call["firstTokenAt"] - asked if "firstTokenAt" in call else None,
            "input": usage.get("inputTokens"),
            "output": usage.get("outputTokens"),
            "price": call.get("price"),
        }
    for tool in line.get("tools", ()):
        start = tool.get("startedAt", tool.get("endedAt", begun))
        yield {
            "at": start - begun,
            "took": tool["endedAt"] - start if "endedAt" in tool else None,
            "what": "tool",
            "details": _short(tool.get("name", "") + (f": {tool['error']}" if "error" in tool else "")),
        }
    for one in line.get("moments", ()):
        details = " ".join(f"{name}={value}" for name, value in (one.get("details") or {}).items())
        yield {"at": one["at"] - begun, "what": one["what"], "details": _short(details)}
