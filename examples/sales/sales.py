"""Sales — a sales assistant that looks things up in the company's documents, searches the web and calculates in Python.

    avm resource push examples/sales/resources
    python examples/sales/sales.py "What do two Fjord bikes cost?"
    python examples/sales/sales.py --zh "两辆峡湾多少钱？"

Each call is a conversation of its own; without a question it goes on until the end of the input. AVM_WS names another server,
AVM_KEY an API key where one is needed.
"""

import os
import sys
from collections.abc import AsyncIterator, Iterator
from typing import cast

import anyio

from agentvm import AgentVMError, AgentX, Secret, WireEvent, create_agentx, remote_runtime

CUSTOMER = "customer-1"
AGENTS = {False: "resource://agents/sales-assistant", True: "resource://agents/sales-assistant-zh"}


def questions(arguments: list[str]) -> Iterator[str]:
    """The questions of the command line, or the lines of the input."""
    if arguments:
        yield " ".join(arguments)
    else:
        yield from (line.strip() for line in sys.stdin if line.strip())


async def show(events: AsyncIterator[WireEvent]) -> None:
    """Prints the tools that are used, the answer as it is written, and the passages that it cites."""
    async for event in events:
        if event.type == "tool_use_stop":
            print(f"[{event.data['toolName']} {event.data['input']}]")
        elif event.type == "text_delta":
            print(event.data["text"], end="", flush=True)
        elif event.type == "assistant_message":
            for cited in cast("list[dict[str, object]]", event.data.get("citations", [])):
                print(f"\n[{cited['n']}] {cited['cite']}", end="")
        elif event.type == "error_message":
            print(f"{event.data['content']} ({event.data['errorCode']})")
        elif event.type == "turn_response":
            print()


async def assistant(agentx: AgentX, uri: str) -> str:
    """Returns the image of the agent for this customer, which is built the first time."""
    for image in await agentx.images.list(CUSTOMER):
        if image.definition_ref == uri:
            return image.image_id
    return (await agentx.images.build(uri, container_id=CUSTOMER)).image_id


async def main(arguments: list[str]) -> None:
    chinese, key = "--zh" in arguments, os.environ.get("AVM_KEY")
    server = remote_runtime(os.environ.get("AVM_WS", "ws://localhost:8080/ws"), key=Secret(key) if key else None)
    async with create_agentx(server) as agentx:
        session = await agentx.runtime.sessions.create(await assistant(agentx, AGENTS[chinese]))
        agent = await session.resume()
        for question in questions([each for each in arguments if each != "--zh"]):
            await show(agent.stream(question))


if __name__ == "__main__":
    try:
        anyio.run(main, sys.argv[1:])
    except AgentVMError as error:
        sys.exit(f"{error} ({error.code})")
