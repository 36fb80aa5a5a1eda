"""A node of a later release, which has one more migration: `… PORT DATA_DIR DATABASE NAME PACE SCRIPT`."""

import sys

import anyio
from tests.cluster import program

from agentvm.storage.engines.postgres import database, migrations


async def main(port: str, data_dir: str, url: str, name: str, pace_seconds: str, script: str) -> None:
    earlier = migrations.load_migrations()
    vars(database)["load_migrations"] = lambda: (*earlier, (earlier[-1][0] + 1, script))
    await program.main(port, data_dir, url, name, pace_seconds)


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:7])  # type: ignore[arg-type]  # as many as the program takes
