"""Agents — those that a caller can talk to, as every gateway lists them."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from agentvm.blueprint.image import DEFAULT_NAME
from agentvm.gateways.talk import Talk
from agentvm.model.ids import ContainerId, ImageId
from agentvm.model.session import AGENTS


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedAgent:
    """`name` is its name in requests."""

    name: str
    description: str | None = None
    created_at: int = 0
    """In ms; 0 for a definition of the server."""


async def list_agents(talk: Talk, container_id: ContainerId) -> AsyncIterator[ListedAgent]:
    """Yields the definitions, then the named images of the container."""
    workspace = talk.context().workspace
    async for definition, resource in workspace.templates.list():
        created_at = 0 if resource is None else resource.created_at
        yield ListedAgent(name=definition.name, description=definition.description, created_at=created_at)
    container = workspace.store.container(container_id)
    for image in await container.list_images():
        if image.name != DEFAULT_NAME and not await container.aliases.of_session(AGENTS, image.session_id):
            yield ListedAgent(name=image.image_id, description=image.name, created_at=image.created_at)


async def find_agent(talk: Talk, name: str, container_id: ContainerId) -> ListedAgent:
    """Returns an agent without building it. `DefinitionNotFound`, `ResourceNotFound` or `ImageNotFound` when there is none."""
    workspace = talk.context().workspace
    if name.startswith("img_"):
        _, image = await workspace.image(ImageId(name))
        return ListedAgent(name=image.image_id, description=image.name, created_at=image.created_at)
    definition, resource = await workspace.templates.get(name)
    return ListedAgent(name=name, description=definition.description, created_at=0 if resource is None else resource.created_at)
