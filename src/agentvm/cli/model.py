"""avm model — installs, lists and deletes the weights of embedded models."""

import hashlib
from pathlib import Path

import click

from agentvm.cli import program
from agentvm.cli.api import confirm, yes_option
from agentvm.config import from_environment
from agentvm.drivers.model_catalog import CATALOG, DEFAULT_MODEL, CatalogModel
from agentvm.drivers.weights import default_model_dir, pull, weights_path
from agentvm.errors import NotFound

EXAMPLES = """\b
Examples:
  avm model pull                                     the default model
  avm model pull qwen2.5-coder-1.5b                  a model of the catalog (avm model list --all)
  avm model pull ~/Downloads/qwen3-4b.gguf           a local file
  avm model pull --url https://... --sha256 <64 digits>
  avm serve --model local/qwen3-4b                   use it
  avm model delete qwen3-4b
"""


@click.group(epilog=EXAMPLES)
def model() -> None:
    """Install, list and delete embedded models."""


@model.command("pull", epilog=EXAMPLES)
@click.argument("source", required=False, metavar="[NAME|PATH|URL]")
@click.option("--url", help="URL of a GGUF file; requires --sha256.")
@click.option("--sha256", help="Expected digest of the file.")
@click.option("--name", help="Name of the model (default: the file name).")
def pull_model(source: str | None, url: str | None, sha256: str | None, name: str | None) -> None:
    """Install the default model, another one by name, or a GGUF file."""
    if source is not None and url is not None:
        raise click.UsageError("Use a path or --url, not both.")
    location = source or url
    if location is None and (sha256 or name):
        raise click.UsageError("--sha256 and --name require a path or --url.")
    path = pull(model_dir(), location, sha256=sha256, name=name)
    click.echo(f"local/{path.stem} is installed: {path}")


@model.command("list")
@click.option("--all", "with_catalog", is_flag=True, help="Also list models that can be installed by name.")
def list_models(with_catalog: bool) -> None:
    """List the installed models."""
    directory = model_dir()
    files = sorted(directory.glob("*.gguf")) if directory.is_dir() else []
    if not files:
        click.echo(f"No models in {directory}. Run: {program()} model pull")
    for path in files:
        note = "  (default)" if path.stem == DEFAULT_MODEL else ""
        click.echo(f"local/{path.stem}  {path.stat().st_size / 1e6:.0f} MB  {path}{note}")
    if with_catalog:
        installed = {path.stem for path in files}
        for model in CATALOG.values():
            if model.name not in installed:
                click.echo(
                    f"{model.name}  {model.about}  ({model.needs}, {model.license})  {program()} model pull {model.name}"
                )


@model.command("delete")
@click.argument("name")
@yes_option
def delete_model(name: str, yes: bool) -> None:
    """Delete the file of an installed model."""
    path = weights_path(model_dir(), name.removeprefix("local/"))
    if path is None:
        raise NotFound(f"There is no model {name} in {model_dir()}. List them: {program()} model list")
    confirm(f"Delete local/{path.stem} ({path})?", yes=yes)
    path.unlink()
    click.echo(f"local/{path.stem} is deleted.")


def model_dir() -> Path:
    return from_environment().model_dir or default_model_dir()


def is_complete(path: Path, model: CatalogModel) -> bool:
    """Returns whether the file is the published one."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == model.gguf_sha256
