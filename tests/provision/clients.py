"""Clients — the official JavaScript clients of the gateways, installed below .cache from a lock file, without root."""

import os
from dataclasses import dataclass
from pathlib import Path

import anyio

from tests.provision import CACHE
from tests.provision.node import node, npm_install

PACKAGE = Path(__file__).parent / "clients"
PROGRAM_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Clients:
    """A folder in which programs can import the clients."""

    folder: Path

    async def run(self, program: str, *arguments: str, **env: str) -> str:
        """Runs the text of an ES module, and returns what it prints. A program that fails raises with what it said."""
        command = [str(node()), "--input-type=module", "--eval", program, "--", *arguments]
        with anyio.fail_after(PROGRAM_SECONDS):
            done = await anyio.run_process(command, cwd=self.folder, env={**os.environ, **env}, check=False)
        if done.returncode != 0:
            raise AssertionError(f"the program ended with {done.returncode}:\n{done.stdout.decode()}{done.stderr.decode()}")
        return done.stdout.decode()


def clients(folder: Path = CACHE / "clients") -> Clients:
    """The installed packages; or Unavailable."""
    return Clients(npm_install(PACKAGE, folder))
