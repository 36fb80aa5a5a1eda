"""avm cluster — the nodes that share one database: lists them, stops one of them, or shows all of it on one machine."""

import time

import click

from agentvm.cli.api import Api, Unreachable, confirm, server_command, yes_option
from agentvm.cli.table import Columns, Item, Show, moment, plain

EXAMPLES = """\b
Examples:
  avm cluster status
  avm cluster drain 3 --grace 30
  avm cluster demo
"""

COLUMNS: Columns = {
    "NODE": "nodeId",
    "NAME": "name",
    "VERSION": "version",
    "STATE": lambda item: _state(item),
    "RUNS": "runs",
    "SOCKETS": "sockets",
    "LAG (ms)": "loopLagMs",
    "SKEW (ms)": "skewMs",
    "STARTED (UTC)": moment("startedAt"),
}
POLL_SECONDS = 0.5
TIMEOUT_SECONDS = 60.0
"""Time beyond the grace after which a node that drains is not waited for any more."""


@click.group(epilog=EXAMPLES)
def cluster() -> None:
    """List the nodes of a cluster, stop one, or try a cluster."""


@cluster.command("status", epilog=EXAMPLES)
@server_command
def show_status(api: Api, show: Show) -> None:
    """List the nodes, with the sessions that each runs."""
    status = api.call("cluster.nodes")
    if show.as_json:
        show.json(status)
        return
    show.items(status.get("nodes", []), COLUMNS, none="No nodes.")
    database = status.get("database", {})
    behind = "" if database.get("lagMs") is None else f", the slowest {database['lagMs']} ms behind"
    standbys = f"; {database['standbys']} standbys{behind}" if database.get("standbys") else ""
    click.echo(f"Database: {plain(database.get('engine'))} {plain(database.get('version'))}{standbys}")
    if not status.get("isShared"):
        click.echo("This server has its database alone. See avm cluster demo for several.")


def _state(item: Item) -> str:
    marks = [name for key, name in (("isLeading", "leads"), ("isAsked", "asked")) if item.get(key)]
    state = plain(item.get("hindrance") or item.get("state")) if item.get("state") == "up" else plain(item.get("state"))
    return f"{state} ({', '.join(marks)})" if marks else state


@cluster.command("drain", epilog=EXAMPLES)
@click.argument("node_id", metavar="NODE", type=click.IntRange(min=0))
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Time for its turns to end (default: system.shutdownSeconds).",
)
@yes_option
@server_command
def drain_node(api: Api, show: Show, node_id: int, grace: float | None, yes: bool) -> None:
    """Stop a node: others continue with its turns.

    NODE is its number in avm cluster status, 0 for the node that is asked.
    """
    confirm(f"Stop node {node_id}?" if node_id else "Stop the node that is asked?", yes=yes)
    before = time.monotonic()
    drained = api.call("cluster.drain", str(node_id), grace_seconds=grace)
    left = _wait_gone(api, int(drained["nodeId"]), TIMEOUT_SECONDS + (grace or 0.0))
    if show.as_json:
        show.json({**drained, "ended": left, "seconds": round(time.monotonic() - before, 3)})
    elif left:
        click.echo(f"Node {drained['nodeId']} has ended after {time.monotonic() - before:.1f} s.")
    else:
        click.echo(f"Node {drained['nodeId']} takes nothing new and still runs turns; see avm cluster status.")


def _wait_gone(api: Api, node_id: int, seconds: float) -> bool:
    """Returns whether the node has ended in that time; true as well if it is the node that was asked."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            nodes = api.call("cluster.nodes").get("nodes", [])
        except Unreachable:
            return True
        if not any(node["nodeId"] == node_id and node["state"] == "up" for node in nodes):
            return True
        time.sleep(POLL_SECONDS)
    return False


@cluster.command("demo", epilog=EXAMPLES)
@click.option("--nodes", type=click.IntRange(2, 5), default=3, show_default=True, help="Number of nodes.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port of the load balancer (default: any free one).")
def demo(nodes: int, port: int) -> None:
    """Run PostgreSQL, NATS and some nodes here, and kill one.

    An answer is streamed. The number of a node kills it; the others continue. All data is deleted at the end.
    """
    # Late: few need it.
    from agentvm.cli.cluster_demo import run_demo

    run_demo(nodes, port)
