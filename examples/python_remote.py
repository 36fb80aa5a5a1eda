"""Remote — the same verbs against a server, and an interrupt.

    python examples/python_remote.py ws://localhost:8080/ws

The second answer is stopped at its first words.
"""

import sys

import anyio

from agentvm import AgentVMError, AgentX, ImageConfig, WireEvent, create_agentx, remote_runtime


def show(event: WireEvent) -> None:
    """Prints an answer as it comes."""
    if event.type == "text_delta":
        print(event.data["text"], end="", flush=True)
    elif event.type == "tool_use_stop":
        print(f"\n[{event.data['toolName']} {event.data['input']}]")
    elif event.type == "error_message":
        print(f"{event.data['content']} ({event.data['errorCode']})")
    elif event.type == "turn_response":
        print(f"\n-- {event.data['outcome']}")


async def talk(agentx: AgentX) -> None:
    image = await agentx.images.create(ImageConfig(name="Greeting"), container_id="user-alice")
    agent = await agentx.images.run(image.image_id)
    async for event in agent.stream("Hello! What can you do?"):
        show(event)

    print("-- once more, stopped at its first words")
    stopped = False
    async for event in agent.stream("Count from one to a hundred, one number after the other."):
        show(event)
        if event.type == "text_delta" and not stopped:
            await agent.interrupt()
            stopped = True

    await agentx.images.delete(image.image_id)


async def main(url: str) -> None:
    async with create_agentx(remote_runtime(url)) as agentx:
        await talk(agentx)


if __name__ == "__main__":
    try:
        anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else "ws://localhost:8080/ws")
    except AgentVMError as error:
        sys.exit(f"{error} ({error.code})")
