"""avm version — which AgentVM this is."""

import click

from agentvm.version import VERSION


@click.command()
def version() -> None:
    """Print the version."""
    click.echo(f"AgentVM {VERSION}")
