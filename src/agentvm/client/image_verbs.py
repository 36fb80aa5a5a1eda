"""Image verbs — images as the Python client builds, changes and runs them."""

import warnings

import msgspec

from agentvm.client.handles import AgentHandle, agent_of
from agentvm.model.definition import Definition
from agentvm.model.ids import ImageId
from agentvm.model.image import ImageConfig
from agentvm.model.turn import OutputFormat
from agentvm.operations.image import ImageDelete, ImageGet, ImageList, ImageRun, ImageStop
from agentvm.operations.image_build import (
    Clearable,
    ImageBuild,
    ImageCreate,
    ImageReply,
    ImageUpdate,
    ImageUpdates,
    ImageUpgrade,
    ImageUpgradeReply,
)
from agentvm.protocol.link import RuntimeLink
from agentvm.protocol.records import ImageRecord


class ImageManager:
    """Images, which agents run from."""

    def __init__(self, link: RuntimeLink) -> None:
        self._link = link

    async def build(
        self, definition: Definition | str, config: ImageConfig | None = None, *, container_id: str = "default"
    ) -> ImageRecord:
        return _warned(await self._link.ask(ImageBuild(container_id=container_id, definition=definition, config=config)))

    async def create(self, config: ImageConfig | None = None, *, container_id: str = "default") -> ImageRecord:
        return _warned(await self._link.ask(ImageCreate(container_id=container_id, config=config)))

    async def get(self, image_id: str) -> ImageRecord | None:
        return (await self._link.ask(ImageGet(image_id=ImageId(image_id)))).record

    async def list(self, container_id: str | None = None) -> tuple[ImageRecord, ...]:
        return (await self._link.ask(ImageList(container_id=container_id))).records

    async def update(
        self,
        image_id: str,
        *,
        name: str | None = None,
        description: str | None = None,
        system_prompt: str | None = None,
        model: str | None = None,
        tools: tuple[str, ...] | None = None,
        sandbox: str | None = None,
        knowledge: tuple[str, ...] | None = None,
        skills: tuple[str, ...] | None = None,
        variables: dict[str, object] | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        thinking: int | None = None,
        output: OutputFormat | None = None,
        mcp_servers: dict[str, object] | None = None,
        client_data: dict[str, object] | None = None,
        api_key: str | None = None,
        clear: tuple[Clearable, ...] = (),
    ) -> ImageRecord:
        """Changes the fields that are not None, resets those of `clear`; all but name and description from the next turn on."""
        updates = ImageUpdates(
            name=name,
            description=description,
            system_prompt=system_prompt,
            model=model,
            tools=tools,
            sandbox=sandbox,
            knowledge=knowledge,
            skills=skills,
            variables=variables,
            temperature=temperature,
            max_tokens=max_tokens,
            thinking=thinking,
            output=output,
            mcp_servers=mcp_servers,
            client_data=client_data,
            api_key=api_key,
            clear=clear,
        )
        return _warned(await self._link.ask(ImageUpdate(image_id=ImageId(image_id), updates=updates)))

    async def upgrade(self, image_id: str, *, dry_run: bool = False) -> ImageUpgradeReply:
        """Resolves the references of an image again. With `dry_run` only lists the changes."""
        return await self._link.ask(ImageUpgrade(image_id=ImageId(image_id), dry_run=dry_run))

    async def delete(self, image_id: str) -> None:
        await self._link.ask(ImageDelete(image_id=ImageId(image_id)))

    async def run(self, image_id: str) -> AgentHandle:
        """Starts the agent of the image's default session."""
        return agent_of(self._link, await self._link.ask(ImageRun(image_id=ImageId(image_id))))

    async def stop(self, image_id: str) -> None:
        await self._link.ask(ImageStop(image_id=ImageId(image_id)))


def _warned(reply: ImageReply) -> ImageRecord:
    """Returns the record; warnings of the server become warnings of Python."""
    for warning in reply.warnings:
        warnings.warn(warning, UserWarning, stacklevel=3)
    return msgspec.structs.replace(reply.record, warnings=reply.warnings or None)
