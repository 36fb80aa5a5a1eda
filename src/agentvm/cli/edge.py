"""avm edge — builds the Worker that runs agents at the edge, makes its keys, and deploys it or runs it here with wrangler."""

import hashlib
import hmac
import json
import secrets
from pathlib import Path

import click

from agentvm.cli.edge_build import build_worker, find_source, install_tools, run_wrangler

EXAMPLES = """\b
Examples:
  avm edge build                       the bundle and its configuration, in build/edge
  avm edge wrangler -- dev --local     builds, and runs it on this machine
  avm edge key acme -c user-1          a key for a container of a tenant
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
    run_wrangler((output / _TOOLS).resolve(), output.resolve(), "deploy", *options)


@edge.command()
@_source
@_output
@click.argument("options", nargs=-1, required=True)
def wrangler(source: Path | None, output: Path, options: tuple[str, ...]) -> None:
    """Build the Worker and run wrangler on it.

    OPTIONS after `--` are those of wrangler: `dev --local` runs the Worker on this machine, without an account.
    """
    _built(source, output)
    run_wrangler((output / _TOOLS).resolve(), output.resolve(), *options)


@edge.command()
@click.argument("tenant")
@click.option("-c", "--container", "containers", multiple=True, help="A container of the key; without it, all of the tenant.")
@click.option("--ledger", is_flag=True, help="Allow the key to delete entries of the ledger.")
@click.option("--pepper", envvar="KEY_PEPPER", required=True, help="The pepper of the Worker.  [env: KEY_PEPPER]")
def key(tenant: str, containers: tuple[str, ...], ledger: bool, pepper: str) -> None:
    """Make a key, and show the entry of it that the Worker looks up.

    The key itself is stored nowhere.
    """
    new_key = f"edge_{secrets.token_urlsafe(32)}"
    digest = hmac.digest(pepper.encode(), new_key.encode(), hashlib.sha256).hex()
    record: dict[str, object] = {"tenant": tenant}
    if containers:
        record["containers"] = containers
    if ledger:
        record["ledger"] = True
    click.echo(f"key    {new_key}\nentry  key:{digest}\nvalue  {json.dumps(record)}")


def _built(source: Path | None, output: Path) -> Path:
    source_dir, folder = find_source(source), output.resolve()
    install_tools(source_dir, folder / _TOOLS)
    return build_worker(source_dir, folder / _TOOLS, folder)
