"""Conformance — the official test suite of MCP, installed below .cache from a lock file, without root."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio

from tests.provision import CACHE
from tests.provision.node import node, npm_install

PACKAGE = Path(__file__).parent / "conformance"
PROGRAM = "node_modules/@modelcontextprotocol/conformance/dist/index.js"
SUITE_SECONDS = 120
NOT_TESTABLE = "Not testable"
"""The beginning of what the suite says of a check that needs a tool of its own."""


@dataclass(frozen=True, slots=True)
class Conformance:
    """A folder with the suite."""

    folder: Path

    async def of_server(self, url: str, revision: str, results: Path) -> Mapping[str, list[str]]:
        """Returns the faults that the scenarios of a revision have found in a server, by scenario."""
        command = [str(node()), PROGRAM, "server", "--url", url, "--requirements", revision, "-o", str(results)]
        with anyio.fail_after(SUITE_SECONDS):
            await anyio.run_process(command, cwd=self.folder, env={**os.environ, "NO_COLOR": "1"}, check=False)
        return _read(results)


def _read(results: Path) -> Mapping[str, list[str]]:
    return {_scenario(file): _faults(json.loads(file.read_text())) for file in results.glob("*/checks.json")}


def _scenario(file: Path) -> str:
    """Returns the scenario of a folder such as `server-tools-list-2026-11-18T22-31-13-734Z`."""
    return file.parent.name.removeprefix("server-").rsplit("-", 6)[0]


def _faults(checks: list[dict[str, object]]) -> list[str]:
    failed = [check for check in checks if check["status"] in ("FAILURE", "WARNING")]
    whys = [f"{check['id']}: {check.get('errorMessage')}" for check in failed]
    return [why for why in whys if NOT_TESTABLE not in why]


def conformance(folder: Path = CACHE / "conformance") -> Conformance:
    """The installed suite; or Unavailable."""
    return Conformance(npm_install(PACKAGE, folder))
