"""avm schedule — messages that agents receive on a schedule."""

from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any

import click

from agentvm.cli.api import Api, confirm, tenant_command, yes_option
from agentvm.cli.names import SESSION, NamedType, call_agent
from agentvm.cli.table import Columns, Item, Show, moment, plain
from agentvm.model.money import dollars, to_nano
from agentvm.model.schedule import CATCH_UP_MAX, CATCH_UP_MAX_SECONDS
from agentvm.model.setting import camel

EXAMPLES = """\b
Examples:
  avm schedule create assistant "0 9 * * MON-FRI" "Summarise the news." --zone Europe/Berlin
  avm schedule list
  avm schedule runs sched_…
  avm schedule disable sched_…
"""

COLUMNS: Columns = {
    "SCHEDULE": "scheduleId",
    "NAME": "name",
    "CRON": "cron",
    "ZONE": "zone",
    "STATE": lambda item: state_of(item),
    "LAST (UTC)": moment("lastAt"),
    "NEXT (UTC)": moment("nextAt"),
}
DETAILS: Columns = {
    "Schedule": "scheduleId",
    "Name": "name",
    "Container": "containerId",
    "Image": "imageId",
    "Cron": "cron",
    "Zone": "zone",
    "Message": "message",
    "Session": "sessionMode",
    "Missed": "missed",
    "Overlap": "overlap",
    "When asked": "onAsk",
    "Budget": lambda item: budget_text(item),
    "Runs per day": "runsPerDay",
    "State": lambda item: state_of(item),
    "Last (UTC)": moment("lastAt"),
    "Next (UTC)": moment("nextAt"),
}
RUNS: Columns = {
    "DUE (UTC)": moment("dueAt"),
    "STATE": lambda item: item.get("outcome") or item["state"],
    "TIMES": "count",
    "REASON": "reason",
    "SESSION": "sessionId",
    "TURN": "turnId",
}
schedule_argument = click.argument("schedule_id", metavar="SCHEDULE")


def state_of(item: Item) -> str:
    """Returns whether a schedule or trigger is enabled, and if the server has disabled it why."""
    if item["enabled"]:
        return "enabled"
    return f"disabled ({plain(item['disabledReason'])})" if item.get("disabledReason") else "disabled"


def budget_text(item: Item) -> str:
    """Returns the bounds of a run in words."""
    budget = item.get("budget") or {}
    words = {"steps": "model calls", "tokens": "tokens", "toolCalls": "tool calls"}
    bounds = [f"{budget[name]:,} {word}" for name, word in words.items() if budget.get(name) is not None]
    return ", ".join([*bounds, *([dollars(budget["cost"])] if budget.get("cost") is not None else [])])


def with_budget(fields: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of a request, with the options that bound a run as its `budget`; `cost` is in dollars."""
    budget = {name: fields.pop(name) for name in ("steps", "tokens", "tool_calls", "cost")}
    try:
        budget["cost"] = None if budget["cost"] is None else to_nano(Decimal(budget["cost"]))
    except InvalidOperation:
        raise click.BadParameter("not a valid amount; use dollars, like 0.05", param_hint="--cost") from None
    bounds = {camel(name): value for name, value in budget.items() if value is not None}
    return {**fields, "budget": bounds or None}


def budget_options(command: Any) -> Any:
    """Adds the options that bound each run."""
    for option in (
        click.option("--runs-per-day", type=click.IntRange(1), help="Maximum runs per day (UTC)."),
        click.option("--cost", metavar="DOLLARS", help="Maximum cost of a run."),
        click.option("--tool-calls", type=click.IntRange(1), help="Maximum tool calls of a run."),
        click.option("--tokens", type=click.IntRange(1), help="Maximum tokens of a run."),
        click.option("--steps", type=click.IntRange(1), help="Maximum model calls of a run."),
        click.option("--on-ask", type=click.Choice(["deny", "wait"]), help="Tool calls that need approval (default: deny)."),
        click.option(
            "--session", "session_mode", type=click.Choice(["same", "new"]), help="The same session for all runs, or a new one."
        ),
        click.option("--name", help="Display name."),
    ):
        command = option(command)
    return command


def catch_up_options(command: Any) -> Any:
    """Adds the options about runs that were missed."""
    for option in (
        click.option(
            "--catch-up-seconds",
            type=click.IntRange(0, CATCH_UP_MAX_SECONDS),
            metavar="SECONDS",
            help="Never make up for runs that are older (default: 3600).",
        ),
        click.option(
            "--catch-up", type=click.IntRange(1, CATCH_UP_MAX), help="Runs that `--missed all` makes up for (default: 10)."
        ),
        click.option(
            "--jitter", "jitter_seconds", type=click.IntRange(0, 3_600), metavar="SECONDS", help="Maximum delay of a run."
        ),
        click.option("--overlap", type=click.Choice(["skip", "queue"]), help="If the last run still runs (default: skip)."),
        click.option(
            "--missed", type=click.Choice(["skip", "once", "all"]), help="Runs missed during an outage (default: once)."
        ),
    ):
        command = option(command)
    return command


in_session_option = click.option(
    "--in-session", "session_id", type=NamedType(SESSION), metavar="SESSION", help="Session of the agent to continue in."
)


@click.group(epilog=EXAMPLES)
def schedule() -> None:
    """Run agents on a schedule (cron)."""


@schedule.command("create", epilog=EXAMPLES)
@click.argument("agent")
@click.argument("cron")
@click.argument("message")
@click.option("--zone", default="UTC", show_default=True, help="Time zone, such as Asia/Shanghai.")
@click.option("--container", "container_id", help="Container of the agent (default: your own).")
@in_session_option
@catch_up_options
@budget_options
@tenant_command
def create_schedule(api: Api, show: Show, /, agent: str, container_id: str | None, **fields: Any) -> None:
    """Send MESSAGE to AGENT at the times of CRON.

    AGENT is the name of an agent, a URI, or the id or name of an image. CRON has five fields, or is a name such as @daily.
    """
    create = partial(api.call, "schedule.create", container_id=container_id, **with_budget(fields))
    show.record(call_agent(api, lambda named: create(agent=named), agent, container_id), DETAILS)


@schedule.command("list")
@click.option("--container", "container_id", help="Only this container.")
@tenant_command
def list_schedules(api: Api, show: Show, container_id: str | None) -> None:
    """List schedules."""
    show.items(api.items("schedule.list", container_id=container_id), COLUMNS, none="No schedules.")


@schedule.command("show")
@schedule_argument
@tenant_command
def show_schedule(api: Api, show: Show, schedule_id: str) -> None:
    """Show a schedule."""
    show.record(api.call("schedule.get", schedule_id), DETAILS)


@schedule.command("update")
@schedule_argument
@click.option("--cron", help="New times.")
@click.option("--zone", help="New time zone.")
@click.option("--message", help="New message.")
@catch_up_options
@budget_options
@tenant_command
def update_schedule(api: Api, show: Show, /, schedule_id: str, **fields: Any) -> None:
    """Update a schedule; omitted options stay unchanged. The bounds of a run replace those before, all together."""
    show.record(api.call("schedule.update", schedule_id, **with_budget(fields)), DETAILS)


@schedule.command("enable")
@schedule_argument
@tenant_command
def enable_schedule(api: Api, show: Show, schedule_id: str) -> None:
    """Resume a schedule from now on."""
    show.record(api.call("schedule.update", schedule_id, enabled=True), DETAILS)


@schedule.command("disable")
@schedule_argument
@tenant_command
def disable_schedule(api: Api, show: Show, schedule_id: str) -> None:
    """Stop a schedule."""
    show.record(api.call("schedule.update", schedule_id, enabled=False), DETAILS)


@schedule.command("run")
@schedule_argument
@tenant_command
def run_schedule(api: Api, show: Show, schedule_id: str) -> None:
    """Run a schedule once now."""
    started = api.call("schedule.run", schedule_id)
    show.done(f"The turn {plain(started['turnId'])} has begun in the session {plain(started['sessionId'])}.", started)


@schedule.command("runs")
@schedule_argument
@tenant_command
def list_runs(api: Api, show: Show, schedule_id: str) -> None:
    """List the runs of a schedule, newest first."""
    show.items(api.call("schedule.runs", schedule_id)["items"], RUNS, none="No runs yet.")


@schedule.command("delete")
@schedule_argument
@yes_option
@tenant_command
def delete_schedule(api: Api, show: Show, schedule_id: str, yes: bool) -> None:
    """Delete a schedule; sessions and turns stay."""
    confirm(f"Delete the schedule {plain(schedule_id)}?", yes=yes)
    api.call("schedule.delete", schedule_id)
    show.done(f"{plain(schedule_id)} deleted.")
