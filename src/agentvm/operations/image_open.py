"""Opening images — the image of an agent in one's own container, built the first time and again when the agent has changed."""

from typing import Annotated

import msgspec

from agentvm.operations.image import image_record
from agentvm.operations.image_build import ImageReply
from agentvm.operations.operation import Context, OperationGroup
from agentvm.protocol.requests import Request

operation = OperationGroup("images")

AgentName = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
"""The name of a definition, the URI or name of an agent, the id of an image, or `image:` and a tag of one."""


class ImageOpen(Request[ImageReply]):
    """`agent` is the name of a definition, the URI or name of an agent, the id of an image, or `image:` and a tag of one.

    Without a container: your own, or `default` if you may use all containers.
    """

    agent: AgentName
    container_id: str | None = None


@operation("image.open", needs="agent:use", command=True, audit="image.create")
async def open_agent(context: Context, request: ImageOpen) -> ImageReply:
    """Get the image of an agent in a container; the first time, build it.

    One image for each agent and container. If the agent has changed since, by its definition or a reference without an exact
    version, the image is rebuilt, and its sessions continue with it. Fails with `definition_not_found`, `resource_not_found`,
    `image_not_found`, and as `image_create` does.
    """
    context.is_dry_run = True
    container_id = context.workspace.container_id(request.container_id or context.images.home())
    image, warnings, changed = await context.images.open(container_id, request.agent)
    context.target, context.is_dry_run = image.image_id, not changed
    return ImageReply(record=image_record(context, image), warnings=warnings)
