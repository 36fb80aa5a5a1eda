"""Sales — a sales assistant that looks things up in the company's documents, searches the web and calculates in Python.

    avm resource push examples/sales/resources
    python examples/sales/sales.py "What do two Fjord bikes cost?"
    python examples/sales/sales.py --zh "两辆峡湾多少钱？"

Each call is a conversation of its own; without a question it goes on until the end of the input. AVM_WS names another server.
"""

import os
import sys
from collections.abc import AsyncIterator, Iterator

import anyio

from agentvm import AgentVMError, WireEvent, create_agentx, remote_runtime

AGENTS = {False: "resource://agents/sales-assistant", True: "resource://agents/sales-assistant-zh"}


def questions(arguments: list[str]) -> Iterator[str]:
    """The questions of the command line, or the lines of the input."""
    if arguments:
        yield " ".join(arguments)
    else:
        yield from (line.strip() for line in sys.stdin if line.strip())


async def show(events: AsyncIterator[WireEvent]) -> None:
    """Prints the tools that are used, and the answer as it is written."""
    async for event in events:
        if event.type == "tool_use_stop":
            print(f"[{event.data['toolName']} {event.data['input']}]")
        elif event.type == "text_delta":
            print(event.data["text"], end="", flush=True)
        elif event.type == "error_message":
            print(f"{event.data['content']} ({event.data['errorCode']})")
        elif event.type == "turn_response":
            print()


async def main(arguments: list[str]) -> None:
    """Builds the agent once for this customer, and asks it."""
    chinese = "--zh" in arguments
    async with create_agentx(remote_runtime(os.environ.get("AVM_WS", "ws://localhost:8080/ws"))) as agentx:
        image = await agentx.images.build(AGENTS[chinese], container_id="customer-1")
        agent = await agentx.images.run(image.image_id)
        for question in questions([each for each in arguments if each != "--zh"]):
            await show(agent.stream(question))


if __name__ == "__main__":
    try:
        anyio.run(main, sys.argv[1:])
    except AgentVMError as error:
        sys.exit(f"{error} ({error.code})")
