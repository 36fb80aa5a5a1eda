"""avm schedule — messages that agents receive on a schedule."""

from decimal import Decimal, InvalidOperation
from typing import Any

import click

from agentvm.cli.api import Api, confirm, tenant_command, yes_option
from agentvm.cli.table import Columns, Item, Show, moment, plain
from agentvm.model.money import to_nano

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


def budget_of(steps: int | None, tokens: int | None, cost: str | None) -> dict[str, Any] | None:
    """Returns the bounds of a run; `cost` is in dollars."""
    try:
        nano = None if cost is None else to_nano(Decimal(cost))
    except InvalidOperation:
        raise click.BadParameter("a number of dollars, such as 0.05", param_hint="--cost") from None
    budget = {"steps": steps, "tokens": tokens, "cost": nano}
    return {name: value for name, value in budget.items() if value is not None} or None


def budget_options(command: Any) -> Any:
    """Adds the options that bound each run."""
    for option in (
        click.option("--runs-per-day", type=click.IntRange(1), help="Runs of one day (UTC)."),
        click.option("--cost", metavar="DOLLARS", help="Most that one run may cost."),
        click.option("--tokens", type=click.IntRange(1), help="Most tokens of one run."),
        click.option("--steps", type=click.IntRange(1), help="Most model calls of one run."),
        click.option("--on-ask", type=click.Choice(["deny", "wait"]), help="What becomes of a call that needs somebody."),
        click.option(
            "--session", "session_mode", type=click.Choice(["same", "new"]), help="One session for all runs, or one for each."
        ),
        click.option("--name", help="Name for people."),
    ):
        command = option(command)
    return command


@click.group(epilog=EXAMPLES)
def schedule() -> None:
    """Run agents on a schedule (cron)."""


@schedule.command("create", epilog=EXAMPLES)
@click.argument("agent")
@click.argument("cron")
@click.argument("message")
@click.option("--zone", default="UTC", show_default=True, help="Time zone, such as Asia/Shanghai.")
@click.option("--container", "container_id", help="Container of the agent; default: your own.")
@click.option("--missed", type=click.Choice(["skip", "once", "all"]), help="Runs that an outage has cost; default: once.")
@click.option("--overlap", type=click.Choice(["skip", "queue"]), help="While the run before goes on; default: skip.")
@click.option("--jitter", "jitter_seconds", type=click.IntRange(0, 3_600), help="Put off each run by up to so many seconds.")
@budget_options
@tenant_command
def create_schedule(api: Api, show: Show, /, steps: int | None, tokens: int | None, cost: str | None, **fields: Any) -> None:
    """Send MESSAGE to AGENT at the times of CRON.

    CRON has five fields, or is a name such as @daily.
    """
    show.record(api.call("schedule.create", **fields, budget=budget_of(steps, tokens, cost)), DETAILS)


@schedule.command("list")
@click.option("--container", "container_id", help="Only of this container.")
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
@click.option("--missed", type=click.Choice(["skip", "once", "all"]), help="Runs that an outage has cost.")
@click.option("--overlap", type=click.Choice(["skip", "queue"]), help="While the run before goes on.")
@budget_options
@tenant_command
def update_schedule(
    api: Api, show: Show, /, schedule_id: str, steps: int | None, tokens: int | None, cost: str | None, **fields: Any
) -> None:
    """Update a schedule; omitted options stay unchanged."""
    show.record(api.call("schedule.update", schedule_id, **fields, budget=budget_of(steps, tokens, cost)), DETAILS)


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
    """List the last runs, newest first."""
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
