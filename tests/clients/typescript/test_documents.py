"""The lines that the pages of the TypeScript client show do as they say."""

import os
import re
import subprocess
from pathlib import Path

import anyio
import pytest
from tests.clients.typescript.test_client import CASE_SECONDS, CLIENT
from tests.support.serving import serving

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("page", ["docs/typescript.md", "clients/typescript/README.md"])
async def test_the_first_lines_of_the_page_are_a_program(node: Path, page: str) -> None:
    block = re.search(r"```ts\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    async with serving() as served:
        program = block[1].replace("ws://localhost:8080/ws", served.url).replace('"agentvm-client"', f'"{CLIENT.as_uri()}"')
        command = [str(node), "--input-type=module-typescript", "--eval", program]
        with anyio.fail_after(CASE_SECONDS):
            done = await anyio.run_process(command, env={**os.environ, "NODE_NO_WARNINGS": "1"}, stderr=subprocess.STDOUT)
    assert done.stdout.decode() == "Hello!\n"
