"""Local — agents within this process: define, build, run, talk, remember. No server needed.

    python examples/python_local.py

Which model answers is decided by the environment, as for `avm serve`; without any setting it is the embedded one.
"""

import sys

import anyio

from agentvm import AgentVMError, Definition, ImageConfig, create_agentx, local_runtime

TUTOR = Definition(name="tutor", description="Explains one thing at a time", system_prompt="Explain in one short sentence.")


async def main() -> None:
    async with create_agentx(local_runtime(definitions=[TUTOR])) as agentx:
        # A build freezes the definition: the image answers the same way however TUTOR changes later.
        image = await agentx.images.build("tutor", ImageConfig(name="Physics"), container_id="user-alice")
        session = await agentx.sessions.create(image.image_id, title="Light")
        agent = await session.resume()

        for question in ("Why is the sky blue?", "And the sunset red?"):
            print(f"> {question}")
            async for event in agent.stream(question):
                if event.type == "text_delta":
                    print(event.data["text"], end="", flush=True)
                elif event.type == "error_message":
                    print(f"{event.data['content']} ({event.data['errorCode']})", end="")
            print()

        print(f"{len(await session.messages())} messages in {session.record.title!r}")


if __name__ == "__main__":
    try:
        anyio.run(main)
    except AgentVMError as error:
        sys.exit(f"{error} ({error.code})")
