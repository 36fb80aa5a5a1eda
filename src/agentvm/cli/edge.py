"""avm edge — builds the Worker that runs agents at the edge, and deploys it with wrangler."""

from pathlib import Path

import click

from agentvm.cli.edge_build import build_worker, deploy_worker, find_source, install_tools

EXAMPLES = """\b
Examples:
  avm edge build                       the bundle and its configuration, in build/edge
  avm edge deploy -- --dry-run         builds, and shows what would be deployed
"""

_FOLDER = click.Path(file_okay=False, path_type=Path)
_source = click.option("--source", type=_FOLDER, help="The folder edge/ of a checkout.  [default: ./edge]")
_output = click.option(
    "-o", "--output", type=_FOLDER, default=Path("build") / "edge", show_default=True, help="Where the bundle is written."
)
_TOOLS = Path(".tools")


@click.group(epilog=EXAMPLES)
def edge() -> None:
    """Build and deploy the Worker that runs agents at the edge."""


@edge.command()
@_source
@_output
def build(source: Path | None, output: Path) -> None:
    """Build the bundle of the Worker and its configuration."""
    click.echo(f"Built {_built(source, output)}")


@edge.command()
@_source
@_output
@click.argument("options", nargs=-1)
def deploy(source: Path | None, output: Path, options: tuple[str, ...]) -> None:
    """Build the Worker and run `wrangler deploy`.

    OPTIONS after `--` are passed on to wrangler, which asks you to sign in.
    """
    _built(source, output)
    deploy_worker((output / _TOOLS).resolve(), output.resolve(), *options)


def _built(source: Path | None, output: Path) -> Path:
    source_dir, folder = find_source(source), output.resolve()
    install_tools(source_dir, folder / _TOOLS)
    return build_worker(source_dir, folder / _TOOLS, folder)
