"""avm turn — time, cost and events of turns."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from agentvm.cli.api import Api, tenant_command
from agentvm.cli.names import SESSION, NamedType, turn_argument
from agentvm.cli.options import container_option, since_option, until_option
from agentvm.cli.stored_turns import StoredTurns, data_option
from agentvm.cli.table import Columns, Item, Show, lines, moment, money, plain
from agentvm.model.ledger import TIER_DRIVER

EXAMPLES = """\b
Examples:
  avm turn list --slowest --since 7d    the slowest turns of this week
  avm turn list --session sess_1
  avm turn show turn_1
  avm turn show turn_1 --why            with the reasons of its tool calls
  avm turn replay turn_1                prints the answer at once
  avm turn replay turn_1 --speed 1      with the original pauses
  avm turn replay turn_1 --data ~/.agentvm   from the data directory, without a server
"""

STAGES = ("queue", "wait", "stream", "tools", "other", "away")
DETAILS_CHARACTERS_MAX = 80
"""Longer details would push the columns after them off the screen."""


TURNS: Columns = {
    "TURN": "turnId",
    "SESSION": "sessionId",
    "ACCEPTED (UTC)": moment("acceptedAt"),
    "OUTCOME": lambda item: item.get("outcome") or _state(item),
    "MS": lambda item: item["endedAt"] - item["acceptedAt"] if "endedAt" in item else None,
    "INPUT": lambda item: (item.get("usage") or {}).get("inputTokens"),
    "OUTPUT": lambda item: (item.get("usage") or {}).get("outputTokens"),
}

DETAILS: Columns = {
    "turn": "turnId",
    "session": "sessionId",
    "accepted (UTC)": moment("acceptedAt"),
    "outcome": lambda item: item.get("outcome", "running"),
    "reason": lambda item: _reason(item),
    "duration (ms)": "duration",
    "input tokens": lambda item: item["usage"].get("inputTokens"),
    "output tokens": lambda item: item["usage"].get("outputTokens"),
    "cost": money("cost"),
    "price": money("price"),
    "stages (ms)": lambda item: _stages(item),
}

STEPS: Columns = {
    "AT (MS)": "at",
    "MS": "took",
    "STEP": "what",
    "DETAILS": "details",
    "FIRST TOKEN (MS)": "first",
    "INPUT": "input",
    "OUTPUT": "output",
    "PRICE": money("price"),
}


@click.group(epilog=EXAMPLES)
def turn() -> None:
    """Show the time, cost and events of turns."""


@turn.command("list", epilog=EXAMPLES)
@click.option("--session", "session_id", type=NamedType(SESSION), help="Only this session.")
@container_option
@click.option("--slowest", is_flag=True, help="Slowest first, instead of newest.")
@click.option(
    "--outcome", type=click.Choice(["completed", "interrupted", "failed", "running", "parked"]), help="Only this outcome."
)
@since_option
@until_option
@click.option("--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="Maximum number.")
@data_option
@tenant_command
def list_turns(
    api: Api, show: Show, /, session_id: str | None, slowest: bool, limit: int, data: Path | None, **query: Any
) -> None:
    """List turns, newest or slowest first.

    Without --session and --since: the turns of the last day.
    """
    if data is not None:
        if session_id is None or slowest or any(query.values()):
            raise click.UsageError("With --data, --session is required and other filters are not supported.")
        turns = iter(StoredTurns(data, api.tenant).list(session_id, limit))
    else:
        order = "slowest" if slowest else None
        turns = api.items("turn.list", at_most=limit, session_id=session_id, order=order, **query)
    show.items(turns, TURNS, none="No turns found.")


@turn.command("show", epilog=EXAMPLES)
@turn_argument
@click.option("--why", "is_why", is_flag=True, help="Show why each tool call was made or denied, and where its code ran.")
@data_option
@tenant_command
def show_turn(api: Api, show: Show, turn_id: str, is_why: bool, data: Path | None) -> None:
    """Show the steps, time and cost of a turn, also while it runs."""
    timeline = api.call("turn.show", turn_id) if data is None else StoredTurns(data, api.tenant).show(turn_id)
    show.record(timeline, DETAILS)
    if show.as_json:
        return
    click.echo()
    show.items(sorted(_steps(timeline), key=lambda step: int(step["at"])), STEPS, none="The turn has no steps yet.")
    for tool in timeline.get("tools", ()) if is_why else ():
        click.echo(f"\n{plain(tool['name'])} ({plain(tool['toolId'])})")
        reasons = [("policy", tool.get("policy") or "not recorded"), *tool.get("why", ())]
        reasons += [(tool["tier"], "chosen")] if "tier" in tool and not tool.get("why") else []
        reasons += [("sub-agent", f"avm session show {tool['sessionId']}")] if "sessionId" in tool else []
        for name, reason in reasons:
            click.echo(plain(f"  {name:<10} {reason}"))
    if not timeline.get("complete"):
        click.echo("The events of this turn were removed or are too many to read; usage and cost are complete.", err=True)


@turn.command("replay", epilog=EXAMPLES)
@turn_argument
@click.option(
    "--speed", type=click.FloatRange(min=0.01), help="1 is the original speed, 2 is twice as fast (default: at once)."
)
@data_option
@tenant_command
def replay(api: Api, show: Show, turn_id: str, speed: float | None, data: Path | None) -> None:
    """Print the events of a turn again, without calling a model.

    With --json every event on a line, as clients received it. With --data from the data directory of a server.
    """
    previous: int | None = None
    if data is None:
        events = api.items("turn.events", turn_id)
    else:
        events = StoredTurns(data, api.tenant).events(turn_id)
    for event in events:
        at = int(event.get("timestamp", 0))
        if speed is not None and previous is not None and at > previous:
            time.sleep((at - previous) / 1000 / speed)
        previous = at
        if show.as_json:
            click.echo(msgspec.json.encode(event).decode())
        else:
            _print(event)
    sys.stdout.flush()


def _print(event: Item) -> None:
    """Prints the text of the answer on stdout, and every other event as a line on stderr."""
    data = event.get("data") or {}
    match event.get("type"):
        case "text_delta":
            click.echo(lines(str(data.get("text", ""))), nl=False)
        case "message_stop":
            click.echo()
        case "tool_use_stop":
            click.echo(f"[{plain(data.get('toolName'))} {plain(msgspec.json.encode(data.get('input')).decode())}]", err=True)
        case "tool_completed" | "tool_failed" as kind:
            verb = "returned" if kind == "tool_completed" else "failed:"
            click.echo(f"[{plain(data.get('toolName'))} {verb} {plain(data.get('result', data.get('error')))}]", err=True)
        case "provider_fallback":
            click.echo(f"[{plain(data.get('to'))} instead of {plain(data.get('from'))}: {plain(data.get('reason'))}]", err=True)
        case "error_received":
            click.echo(f"[failed: {plain(data.get('message'))}]", err=True)
        case "turn_response":
            click.echo(f"[{plain(data.get('outcome'))} after {plain(data.get('duration'))} ms]", err=True)
        case _:
            pass


def _state(turn: Item) -> str:
    """The state of a turn without an outcome, and the node of a cluster that runs it."""
    if "parkedAt" in turn:
        return "parked"
    return f"running (node {turn['nodeId']})" if turn.get("nodeId") else "running"


def _reason(timeline: Item) -> str | None:
    """The error message of a failed turn, or the model's stop reason."""
    failures = [event.get("details") or {} for event in timeline.get("moments", ()) if event.get("what") == "failed"]
    return failures[-1].get("message") if failures and timeline.get("outcome") == "failed" else timeline.get("stopReason")


def _cut(details: str) -> str:
    return details if len(details) <= DETAILS_CHARACTERS_MAX else f"{details[:DETAILS_CHARACTERS_MAX]}…"


def _stages(timeline: Item) -> str | None:
    stages = timeline.get("stages") or {}
    if not timeline.get("complete"):
        return None
    return " + ".join(f"{name} {stages.get(name, 0):,}" for name in STAGES if stages.get(name))


def _steps(timeline: Item) -> Iterator[Item]:
    accepted = int(timeline["acceptedAt"])
    for call in timeline.get("calls", ()):
        start, usage = call.get("askedAt", call.get("endedAt", accepted)), call.get("usage") or {}
        attempt = f", attempt {call['attempt']}" if call.get("attempt", 1) > 1 else ""
        yield {
            "at": start - accepted,
            "took": call["endedAt"] - start if "endedAt" in call else None,
            # What ran the code of tools is billed like a model.
            "what": "code" if call.get("provider") == TIER_DRIVER else "model",
            "details": f"{call.get('provider', '')}/{call.get('model', '')}{attempt}",
            "first": call["firstTokenAt"] - start if "firstTokenAt" in call else None,
            "input": usage.get("inputTokens"),
            "output": usage.get("outputTokens"),
            "price": call.get("price"),
        }
    for tool in timeline.get("tools", ()):
        start = tool.get("startedAt", tool.get("endedAt", accepted))
        yield {
            "at": start - accepted,
            "took": tool["endedAt"] - start if "endedAt" in tool else None,
            "what": "tool",
            "details": _cut(tool.get("name", "") + (f": {tool['error']}" if "error" in tool else "")),
        }
    for event in timeline.get("moments", ()):
        details = " ".join(f"{name}={value}" for name, value in (event.get("details") or {}).items())
        yield {"at": event["at"] - accepted, "what": event["what"], "details": _cut(details)}
