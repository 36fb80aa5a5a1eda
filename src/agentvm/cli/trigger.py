"""avm trigger — starts agents from other programs."""

from functools import partial
from typing import Any

import click

from agentvm.cli.api import Api, confirm, tenant_command, yes_option
from agentvm.cli.names import call_agent
from agentvm.cli.schedule import RUNS, budget_options, budget_text, in_session_option, state_of, with_budget
from agentvm.cli.table import Columns, Show, moment, plain

EXAMPLES = """\b
Examples:
  avm trigger create assistant "Handle this order." --runs-per-day 100
  avm trigger list
  avm trigger runs trig_…
"""

COLUMNS: Columns = {
    "TRIGGER": "triggerId",
    "NAME": "name",
    "STATE": state_of,
    "LAST (UTC)": moment("lastAt"),
    "CREATED (UTC)": moment("createdAt"),
}
DETAILS: Columns = {
    "Trigger": "triggerId",
    "Name": "name",
    "Container": "containerId",
    "Image": "imageId",
    "Message": "message",
    "Session": "sessionMode",
    "Path": "path",
    "When asked": "onAsk",
    "Budget": budget_text,
    "Runs per day": "runsPerDay",
    "State": state_of,
    "Last (UTC)": moment("lastAt"),
    "Secret": "secret",
}
trigger_argument = click.argument("trigger_id", metavar="TRIGGER")


@click.group(epilog=EXAMPLES)
def trigger() -> None:
    """Start agents from other programs by signed requests."""


@trigger.command("create", epilog=EXAMPLES)
@click.argument("agent")
@click.argument("message")
@click.option("--container", "container_id", help="Container of the agent (default: your own).")
@in_session_option
@budget_options
@tenant_command
def create_trigger(api: Api, show: Show, /, agent: str, container_id: str | None, **fields: Any) -> None:
    """Let signed requests send MESSAGE and their body to AGENT.

    AGENT is the name of an agent, a URI, or the id or name of an image. The secret is shown once.
    """
    create = partial(api.call, "trigger.create", container_id=container_id, **with_budget(fields))
    show.record(call_agent(api, lambda named: create(agent=named), agent, container_id), DETAILS)


@trigger.command("list")
@click.option("--container", "container_id", help="Only this container.")
@tenant_command
def list_triggers(api: Api, show: Show, container_id: str | None) -> None:
    """List triggers."""
    show.items(api.items("trigger.list", container_id=container_id), COLUMNS, none="No triggers.")


@trigger.command("show")
@trigger_argument
@tenant_command
def show_trigger(api: Api, show: Show, trigger_id: str) -> None:
    """Show a trigger."""
    show.record(api.call("trigger.get", trigger_id), DETAILS)


@trigger.command("update")
@trigger_argument
@click.option("--message", help="New message.")
@click.option("--enable/--disable", "enabled", default=None, help="Resume or stop the trigger.")
@budget_options
@tenant_command
def update_trigger(api: Api, show: Show, /, trigger_id: str, **fields: Any) -> None:
    """Update a trigger; omitted options stay unchanged. The bounds of a run replace those before, all together."""
    show.record(api.call("trigger.update", trigger_id, **with_budget(fields)), DETAILS)


@trigger.command("rotate")
@trigger_argument
@tenant_command
def rotate_trigger(api: Api, show: Show, trigger_id: str) -> None:
    """Replace the secret. The old one stays valid for 24 hours."""
    show.record(api.call("trigger.rotate", trigger_id), DETAILS)


@trigger.command("runs")
@trigger_argument
@tenant_command
def list_runs(api: Api, show: Show, trigger_id: str) -> None:
    """List the runs of a trigger, newest first."""
    show.items(api.call("trigger.runs", trigger_id)["items"], RUNS, none="No runs yet.")


@trigger.command("delete")
@trigger_argument
@yes_option
@tenant_command
def delete_trigger(api: Api, show: Show, trigger_id: str, yes: bool) -> None:
    """Delete a trigger; sessions and turns stay."""
    confirm(f"Delete the trigger {plain(trigger_id)}?", yes=yes)
    api.call("trigger.delete", trigger_id)
    show.done(f"{plain(trigger_id)} deleted.")
