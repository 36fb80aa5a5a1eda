"""avm model — the weights of embedded models on this machine."""

import hashlib
from pathlib import Path

import click

from agentvm.cli import program
from agentvm.config import from_environment
from agentvm.drivers.weights import DEFAULT_MODEL, DEFAULT_WEIGHTS, default_model_dir, pull

EXAMPLES = """\b
Examples:
  avm model pull                                     the default model
  avm model pull ~/Downloads/qwen3-4b.gguf           a file of yours
  avm model pull --url https://... --sha256 <64 digits>
  avm serve --model local/qwen3-4b                   use it
"""


@click.group(epilog=EXAMPLES)
def model() -> None:
    """Install and list the weights of embedded models."""


@model.command("pull", epilog=EXAMPLES)
@click.argument("source", required=False, metavar="[PATH|URL]")
@click.option("--url", help="Where to fetch a GGUF file from; needs --sha256.")
@click.option("--sha256", help="The file's digest; nothing else is installed.")
@click.option("--name", help="Name to install it under; by default the file's.")
def pull_model(source: str | None, url: str | None, sha256: str | None, name: str | None) -> None:
    """Install weights: the default model's, or a GGUF file from a path or a URL."""
    if source is not None and url is not None:
        raise click.UsageError("Give a path or --url, not both.")
    wanted = source or url
    if wanted is None and (sha256 or name):
        raise click.UsageError("--sha256 and --name describe a file: give its path or --url.")
    path = pull(model_dir(), wanted, sha256=sha256, name=name)
    click.echo(f"local/{path.stem} is installed: {path}")


@model.command("list")
def list_models() -> None:
    """List the installed weights."""
    directory = model_dir()
    found = sorted(directory.glob("*.gguf")) if directory.is_dir() else []
    if not found:
        click.echo(f"No weights in {directory}. Run: {program()} model pull")
    for path in found:
        note = "  (default)" if path.stem == DEFAULT_MODEL else ""
        click.echo(f"local/{path.stem}  {path.stat().st_size / 1e6:.0f} MB  {path}{note}")


def model_dir() -> Path:
    return from_environment().model_dir or default_model_dir()


def is_whole(path: Path) -> bool:
    """Whether the default model's file is the one that was published."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == DEFAULT_WEIGHTS.gguf_sha256
