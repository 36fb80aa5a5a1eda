import json

import pytest

from tests.provision.clients import Clients

LOADED = """
const names = ["@a2a-js/sdk", "@ag-ui/client", "@anthropic-ai/sdk", "@langchain/langgraph-sdk", "@langchain/react",
  "@modelcontextprotocol/client", "ai", "jsdom", "openai", "standardwebhooks"];
const loaded = await Promise.all(names.map((name) => import(name)));
console.log(JSON.stringify([process.argv.slice(1), process.env.SAID, loaded.every((one) => Object.keys(one).length > 0)]));
"""


async def test_every_client_can_be_imported_by_a_program(clients: Clients) -> None:
    assert json.loads(await clients.run(LOADED, "first", "second", SAID="hello")) == [["first", "second"], "hello", True]


async def test_a_program_that_fails_says_why(clients: Clients) -> None:
    with pytest.raises(AssertionError, match="it broke"):
        await clients.run("throw new Error('it broke')")
