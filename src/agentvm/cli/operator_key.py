"""Operator key — creates an operator key in the data directory of a stopped server.

This needs no other authorization: a user who can write to the data directory controls the server anyway.
"""

import secrets
import time

from agentvm.config import ServerConfig
from agentvm.errors import DataDirInUse, NotAvailable, NotFound
from agentvm.model.secret import Secret
from agentvm.storage.engine import DATABASE, lock_data_dir, open_postgres, open_store
from agentvm.tenants.access import FROM_DATA_DIR, Access
from agentvm.tenants.server_key import load_server_key


async def create_operator_key(config: ServerConfig, name: str) -> Secret:
    """Creates and returns the key. `NotFound` without a database, `DataDirInUse` while a server runs."""
    if config.system.database is not None:
        return await _create(config, name)
    if config.data_dir is None:
        raise NotAvailable("A server with --memory has no data directory; it prints its key at the start")
    directory = config.data_dir.expanduser().absolute()
    if not (directory / DATABASE).is_file():
        raise NotFound(f"No database in {directory}; a server prints the operator's key at its first start")
    try:
        with lock_data_dir(directory):
            return await _create(config, name)
    except DataDirInUse as error:
        raise DataDirInUse(f"{error} To create a key on a running server: avm key create") from None


async def _create(config: ServerConfig, name: str) -> Secret:
    directory = None if config.data_dir is None else config.data_dir.expanduser().absolute()
    url, server_key = config.system.database, config.system.server_key
    opened = open_store(directory and directory / DATABASE) if url is None else open_postgres(url.reveal())
    async with opened as store:
        key = load_server_key(directory, None if server_key is None else server_key.reveal())
        access = Access(store, pepper=key.pepper, clock=lambda: time.time_ns() // 1_000_000, random_bits=secrets.randbits)
        return await access.make_operator(name, FROM_DATA_DIR)
