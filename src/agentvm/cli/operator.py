"""Operator — a key of the operator, made in a data directory whose server does not run.

Whoever can write there can do everything to the server anyway; this spares them from having to.
"""

import secrets
import time
from pathlib import Path

from agentvm.config import ServerConfig
from agentvm.errors import DataDirInUse, NotAvailable, NotFound
from agentvm.model.secret import Secret
from agentvm.storage.engine import DATABASE, lock_data_dir, open_store
from agentvm.tenants.access import FROM_DATA_DIR, Access
from agentvm.tenants.server_key import load_server_key


async def make_operator_key(config: ServerConfig, name: str) -> Secret:
    """`NotFound` without a database, `DataDirInUse` while a server runs there."""
    if config.data_dir is None:
        raise NotAvailable("A server that keeps everything in memory has no data directory; it prints its key when it starts")
    directory = config.data_dir.expanduser().absolute()
    if not (directory / DATABASE).is_file():
        raise NotFound(f"There is no database in {directory}; a server prints the operator's key when it first starts there")
    try:
        with lock_data_dir(directory):
            return await _make(directory, config.server_key, name)
    except DataDirInUse as error:
        raise DataDirInUse(f"{error} While it runs, whoever has an operator's key makes another: avm key create") from None


async def _make(directory: Path, server_key: Secret | None, name: str) -> Secret:
    async with open_store(directory / DATABASE) as store:
        key = load_server_key(directory, None if server_key is None else server_key.reveal())
        access = Access(store, pepper=key.pepper, clock=lambda: time.time_ns() // 1_000_000, random_bits=secrets.randbits)
        return await access.make_operator(name, FROM_DATA_DIR)
