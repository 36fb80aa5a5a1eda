"""avm doctor — what is configured, what is missing, and what to do about it."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Literal

import click

from agentvm.cli.checks import Finding, check_python, examine, examine_running
from agentvm.cli.options import auth_option, configure, given_key, key_file_option, server_options
from agentvm.config import ServerConfig
from agentvm.errors import ConfigInvalid
from agentvm.server.announcement import running_server

COLORS = {"ok": "green", "warn": "yellow", "fail": "red"}

EXAMPLES = """\b
Examples:
  avm doctor                                  how the server is, or as `avm serve` would run
  avm doctor --port 9000 --model anthropic    as it would run with these flags
  avm doctor --json                           for programs
"""


@click.command(epilog=EXAMPLES)
@server_options
@auth_option
@key_file_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def doctor(
    host: str | None,
    port: int | None,
    data_dir: Path | None,
    model: str | None,
    config: Path | None,
    settings: tuple[str, ...],
    auth: Literal["on", "off"] | None,
    key_file: Path | None,
    as_json: bool,
) -> int:
    """Check the installation and say what to do.

    Where a server runs on the data directory, it is asked how it is. Flags ask how another would run.
    """
    try:
        loaded = configure(config=config, host=host, port=port, data_dir=data_dir, model=model, auth=auth, settings=settings)
    except ConfigInvalid as error:
        # Without settings nothing else can be looked at.
        findings = [Finding(name="config", status="fail", text=str(error), remedy="See docs/config.md for what can be set.")]
        running = None
    else:
        flags = (host, port, model, config, auth, *settings)
        running = None if any(flag is not None for flag in flags) else ask_server(loaded, key_file)
        findings = list(examine(loaded)) if running is None else [check_python(), *running]
    failed = any(finding.status == "fail" for finding in findings)
    if as_json:
        click.echo(json.dumps({"ok": not failed, "checks": [asdict(finding) for finding in findings]}, indent=2))
    else:
        width = max(8, *(len(finding.name) for finding in findings))
        for finding in findings:
            show(finding, width)
        click.echo(verdict(findings, failed=failed, running=running is not None))
    return 1 if failed else 0


def ask_server(loaded: ServerConfig, key_file: Path | None) -> list[Finding] | None:
    """The answer of the server that runs on the data directory; None when there is none."""
    url = None if loaded.data_dir is None else running_server(loaded.data_dir)
    if url is None or loaded.data_dir is None:
        return None
    told = examine_running(url, loaded.data_dir.expanduser().absolute(), given_key(key_file, url))
    return None if told is None else list(told)


def verdict(findings: list[Finding], *, failed: bool, running: bool) -> str:
    if not running:
        return "Something must be done before AgentVM can work." if failed else "AgentVM can work."
    if failed:
        return "AgentVM runs, and something must be done."
    warned = any(finding.status == "warn" for finding in findings)
    return "AgentVM runs; mind what is warned of." if warned else "AgentVM runs and is well."


def show(finding: Finding, width: int) -> None:
    click.echo(f"{click.style(f'{finding.status:<4}', fg=COLORS[finding.status])}  {finding.name:<{width}} {finding.text}")
    if finding.remedy is not None:
        click.echo(f"{'':<{width + 7}}{finding.remedy}")
