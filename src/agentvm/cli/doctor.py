"""avm doctor — checks a running server, or the installation, and names remedies."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from agentvm.cli.checks import Finding, check_python, examine, examine_running
from agentvm.cli.options import (
    json_option,
    key_file_option,
    option_key,
    parse_address,
)
from agentvm.cli.server_options import configure, server_options
from agentvm.config import ServerConfig
from agentvm.errors import ConfigInvalid
from agentvm.server.announcement import running_server

COLORS = {"ok": "green", "warn": "yellow", "fail": "red"}

EXAMPLES = """\b
Examples:
  avm doctor                                  the running server, or the settings of `avm serve`
  avm doctor --port 9000 --model anthropic    the installation with these flags
  avm doctor --json                           for scripts
"""


@click.command(epilog=EXAMPLES)
@server_options
@key_file_option
@json_option
def doctor(config: Path | None, settings: tuple[str, ...], key_file: Path | None, as_json: bool, **flags: Any) -> int:
    """Check the server or the installation and name remedies.

    Checks the server at AVM_URL, or the one that runs on the data directory; with flags, or without a server, the installation.
    """
    try:
        loaded = configure(config=config, settings=settings, **flags)
    except ConfigInvalid as error:
        # The other checks need valid settings.
        findings = [Finding("config", "fail", str(error), "See docs/config.md for all settings.")]
        running = None
    else:
        # A data directory names the server; every other flag asks about the installation.
        others = (config, *settings, *(value for name, value in flags.items() if name != "data_dir"))
        running = None if any(value not in (None, ()) for value in others) else check_server(loaded, key_file)
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


def check_server(loaded: ServerConfig, key_file: Path | None) -> list[Finding] | None:
    """The findings of the server at AVM_URL, or of the one on the data directory; None without a server."""
    if remote := os.environ.get("AVM_URL"):
        return examine_running(parse_address(remote), None, option_key(key_file, remote))
    url = None if loaded.data_dir is None else running_server(loaded.data_dir)
    if url is None or loaded.data_dir is None:
        return None
    return examine_running(url, loaded.data_dir.expanduser().absolute(), option_key(key_file, url))


def verdict(findings: list[Finding], *, failed: bool, running: bool) -> str:
    if not running:
        return "AgentVM is not ready: see the failed checks." if failed else "AgentVM is ready."
    if failed:
        return "AgentVM runs with failed checks."
    warned = any(finding.status == "warn" for finding in findings)
    return "AgentVM runs with warnings." if warned else "AgentVM is healthy."


def show(finding: Finding, width: int) -> None:
    click.echo(f"{click.style(f'{finding.status:<4}', fg=COLORS[finding.status])}  {finding.name:<{width}} {finding.text}")
    if finding.remedy is not None:
        click.echo(f"{'':<{width + 7}}{finding.remedy}")
