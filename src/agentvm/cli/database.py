"""avm database — copies the database of a server from SQLite to PostgreSQL."""

from pathlib import Path

import click

from agentvm.cli import program
from agentvm.cli.options import json_option
from agentvm.cli.progress import at_terminal
from agentvm.cli.server_options import config_option, configure, data_dir_option
from agentvm.cli.table import Show
from agentvm.errors import ConfigInvalid, NotAvailable, NotFound
from agentvm.storage.base import CopiedTable
from agentvm.storage.engine import DATABASE, copy_to_postgres

EXAMPLES = """\b
Examples:
  AVM_DATABASE=postgresql://avm@db.example.com/agentvm avm database copy
  avm database copy --data-dir /var/lib/agentvm --json
"""


@click.group(epilog=EXAMPLES)
def database() -> None:
    """Copy the database of a server to PostgreSQL."""


@database.command("copy", epilog=EXAMPLES)
@data_dir_option
@config_option
@json_option
def copy_database(data_dir: str | None, config: Path | None, as_json: bool) -> None:
    """Copy everything from the data directory to PostgreSQL.

    The PostgreSQL database is the one of the setting system.database (AVM_DATABASE), and must be empty. Stop the server
    before. All is copied and compared, or nothing; the data directory stays as it is.
    """
    loaded = configure(config=config, data_dir=data_dir)
    if loaded.system.database is None:
        raise ConfigInvalid("Name the PostgreSQL database to copy to: AVM_DATABASE=postgresql://user:password@host/name")
    if loaded.data_dir is None:
        raise NotAvailable("A server with --memory has no data directory to copy; use --data-dir")
    source = loaded.data_dir.expanduser().absolute()
    if not (source / DATABASE).is_file():
        # Before the lock, which would create the directory.
        raise NotFound(f"There is no database in {source}; name the data directory of a server with --data-dir")
    progress = at_terminal(quiet=as_json, of_bytes=False)
    show(copy_to_postgres(source, loaded.system.database.reveal(), progress), source, as_json=as_json)


def show(tables: tuple[CopiedTable, ...], source: Path, *, as_json: bool) -> None:
    if as_json:
        Show(as_json).json({"dataDir": str(source), "rows": sum(table.rows for table in tables), "tables": tables})
        return
    filled = sum(table.rows > 0 for table in tables)
    click.echo(
        f"Copied {sum(table.rows for table in tables):,} rows of {filled} tables; all of them are the same in PostgreSQL."
    )
    click.echo(f"Start the server with the same AVM_DATABASE and the same data directory: {program()} serve")
    click.echo(f"{source / DATABASE} is no longer used. Keep it until you trust the copy, then remove it.")
