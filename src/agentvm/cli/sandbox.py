"""avm sandbox — run code in a sandbox of the server."""

import base64
import json
import sys
from pathlib import Path
from typing import Any

import click

from agentvm.cli.api import Api, tenant_command
from agentvm.cli.table import Item, Show, lines, plain

EXAMPLES = """\b
Examples:
  avm sandbox run script.py
  avm sandbox run tool.py --input '{"rows": [1, 2]}'
  echo 'ls -l' | avm sandbox run --engine shell -
  avm sandbox run --file data.csv -- wc -l data.csv
"""

ENGINES = ("python", "shell", "javascript")
SUFFIXES = {".py": "python", ".sh": "shell", ".js": "javascript", ".mjs": "javascript"}


@click.group(epilog=EXAMPLES)
def sandbox() -> None:
    """Run code in sandboxes of the server."""


@sandbox.command("run", epilog=EXAMPLES)
@click.option("--engine", type=click.Choice(ENGINES), help="Language of FILE (default: by its name).")
@click.option("--input", "input_json", metavar="JSON", help="Arguments of run(…), an object.")
@click.option(
    "--file",
    "files",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    help="File for the workspace; repeatable.",
)
@click.option("--sandbox", "uri", metavar="URI", help="Sandbox: its limits, files and network apply.")
@click.option("--timeout", type=click.FloatRange(min=0.001), metavar="SECONDS", help="Time after which the code is killed.")
@click.option("--save", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Folder for the changed files.")
@click.argument("arguments", nargs=-1, required=True, metavar="FILE | -- PROGRAM…")
@tenant_command
def run_code(
    api: Api,
    show: Show,
    engine: str | None,
    input_json: str | None,
    files: tuple[Path, ...],
    uri: str | None,
    timeout: float | None,
    save: Path | None,
    arguments: tuple[str, ...],
) -> int:
    """Run a file of code, `-` for stdin, or a program with its arguments.

    The exit code is that of the code; 1 if it was killed.
    """
    fields: dict[str, Any] = {"files": {path.name: {"data": path.read_bytes()} for path in files}, "sandbox": uri}
    if timeout is not None:
        fields["limits"] = {"timeoutMs": round(timeout * 1000)}
    if input_json is not None:
        fields["input"] = parse_object(input_json)
    chosen = engine or SUFFIXES.get(Path(arguments[0]).suffix)
    if chosen is not None and len(arguments) == 1:
        fields |= {"engine": chosen, "code": read_code(arguments[0])}
    elif engine is not None:
        raise click.UsageError("Name one FILE, or a program without --engine.")
    else:
        fields |= {"engine": "command", "argv": list(arguments)}
    outcome = api.call_model("sandbox.run", **{name: value for name, value in fields.items() if value})
    if save is not None:
        save_files(save, outcome.get("files", {}))
    if show.as_json:
        show.json(outcome, exact=True)
    else:
        show_output(outcome)
    return int(outcome.get("exitCode", 1))


def parse_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise click.UsageError('--input must be a JSON object, such as {"a": 1}.')
    return value


def read_code(name: str) -> str:
    if name == "-":
        return sys.stdin.read()
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{name} cannot be read: {error}") from None


def save_files(folder: Path, files: dict[str, Any]) -> None:
    """Writes changed files below a folder. The server has checked the paths; they are checked again."""
    for path, content in files.items():
        target = folder / path
        if not target.resolve().is_relative_to(folder.resolve()):
            raise click.ClickException(f"{path} would be written outside of {folder}")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else decode(content))


def decode(content: dict[str, Any]) -> bytes:
    return base64.b64decode(content.get("data", ""))


def show_output(outcome: Item) -> None:
    """Output as the program wrote it, without control characters of a terminal; the rest on stderr."""
    click.echo(lines(str(outcome.get("stdout", ""))), nl=False)
    click.echo(lines(str(outcome.get("stderr", ""))), nl=False, err=True)
    if outcome.get("value") is not None:
        click.echo(json.dumps(outcome["value"], ensure_ascii=False))
    for name, text in (("timedOut", "timed out"), ("truncated", "wrote too much"), ("oom", "ran out of memory")):
        if outcome.get(name):
            click.echo(f"The code {text}, and was killed.", err=True)
    if files := outcome.get("files"):
        click.echo(f"Changed files: {', '.join(plain(path) for path in files)}", err=True)
