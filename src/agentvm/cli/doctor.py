"""avm doctor — what is configured, what is missing, and what to do about it."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Literal

import click

from agentvm.cli.checks import Finding, examine
from agentvm.cli.options import auth_option, configure, server_options
from agentvm.errors import ConfigInvalid

COLORS = {"ok": "green", "warn": "yellow", "fail": "red"}

EXAMPLES = """\b
Examples:
  avm doctor                                  as `avm serve` would run
  avm doctor --port 9000 --model anthropic    as it would run with these flags
  avm doctor --json                           for programs
"""


@click.command(epilog=EXAMPLES)
@server_options
@auth_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def doctor(
    host: str | None,
    port: int | None,
    data_dir: Path | None,
    model: str | None,
    config: Path | None,
    settings: tuple[str, ...],
    auth: Literal["on", "off"] | None,
    as_json: bool,
) -> int:
    """Check the installation and say what to do."""
    try:
        loaded = configure(config=config, host=host, port=port, data_dir=data_dir, model=model, auth=auth, settings=settings)
    except ConfigInvalid as error:
        # Without settings nothing else can be looked at.
        findings = [Finding(name="config", status="fail", text=str(error), remedy="See docs/config.md for what can be set.")]
    else:
        findings = list(examine(loaded))
    failed = any(finding.status == "fail" for finding in findings)
    if as_json:
        click.echo(json.dumps({"ok": not failed, "checks": [asdict(finding) for finding in findings]}, indent=2))
    else:
        for finding in findings:
            show(finding)
        click.echo("Something must be done before AgentVM can work." if failed else "AgentVM can work.")
    return 1 if failed else 0


def show(finding: Finding) -> None:
    click.echo(f"{click.style(f'{finding.status:<4}', fg=COLORS[finding.status])}  {finding.name:<8} {finding.text}")
    if finding.remedy is not None:
        click.echo(f"{'':<15}{finding.remedy}")
