"""Session start — the agent, model and system prompt of a chat's new sessions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentvm.client.handles import SessionHandle, there
from agentvm.client.verbs import AgentX
from agentvm.errors import InvalidInput, NotFound
from agentvm.model.image import ImageConfig
from agentvm.operations.image_build import ImageCreate
from agentvm.protocol.records import ImageRecord

RESOURCE = "resource://"

IMAGES_MAX = 20
"""Images among which the last conversation is looked up; each costs a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStart:
    """`agent` is the URI of an agent, `image_id` an existing image; without both it is the default agent."""

    model: str | None = None
    system_prompt: str | None = None
    agent: str | None = None
    image_id: str | None = None

    def with_model(self, model: str) -> "SessionStart":
        # An image has its own model.
        return self if self.image_id is not None else replace(self, model=model)

    async def last_session(self, agentx: AgentX, container_id: str) -> SessionHandle | None:
        """The session to continue; None if there is none of the same agent."""
        if self.image_id is not None:
            sessions = await agentx.sessions.list(self.image_id)
        elif self.model is not None or self.system_prompt is not None:
            return None
        else:
            images = await agentx.images.list(container_id)
            matching = [image for image in images if self.agent is None or image.definition_ref == self.agent]
            if not matching:
                return None
            sessions = await _last_used_sessions(agentx, matching)
        return max(sessions, key=lambda session: session.record.updated_at, default=None)

    async def new_session(self, agentx: AgentX, container_id: str) -> tuple[SessionHandle, tuple[str, ...]]:
        """A new session and the warnings of the server.

        Without a chosen image it gets its own image, which follows the server's default model.
        """
        if self.image_id is not None:
            return await agentx.sessions.create(self.image_id), ()
        config = ImageConfig(model=self.model, system_prompt=self.system_prompt, definition=self.agent)
        reply = await agentx.runtime.channel.ask(ImageCreate(container_id=container_id, config=config))
        session = await agentx.sessions.get(there(reply.record).session_id)
        return there(session), reply.warnings or ()


async def choose_agent(agentx: AgentX, container_id: str, agent: str, start: SessionStart) -> SessionStart:
    """`start` with the agent: the URI of an agent, or the id or name of an image in the container.

    `NotFound` if there is none; `InvalidInput` for an ambiguous name, or for an image combined with a model or system prompt.
    """
    if agent.startswith(RESOURCE):
        return replace(start, agent=agent)
    if start.model is not None or start.system_prompt is not None:
        raise InvalidInput(
            "An image has its own model and system prompt: use --agent IMAGE without --model and --system, "
            "or the URI of an agent, resource://agents/NAME."
        )
    image = await _find_image(agentx, container_id, agent)
    return replace(start, image_id=image.image_id)


async def _find_image(agentx: AgentX, container_id: str, name: str) -> ImageRecord:
    if name.startswith("img_") and (image := await agentx.images.get(name)) is not None:
        return image
    named = [image for image in await agentx.images.list(container_id) if image.name == name]
    if not named:
        raise NotFound(
            f"Image not found in this container: {name}. Use the id or name of an image, or the URI of an agent, resource://agents/NAME."
        )
    if len(named) > 1:
        raise InvalidInput(f"{len(named)} images are named {name}: use an id, such as {named[0].image_id}.")
    return named[0]


async def _last_used_sessions(agentx: AgentX, images: Sequence[ImageRecord]) -> tuple[SessionHandle, ...]:
    """The sessions of the latest image with messages; of the newest image if none has any.

    An image just created with `avm image create` is not the last conversation.
    """
    newest_first = sorted(images, key=lambda image: image.updated_at, reverse=True)[:IMAGES_MAX]
    for image in newest_first:
        sessions = await agentx.sessions.list(image.image_id)
        if used := tuple(session for session in sessions if session.record.last_message_at is not None):
            return used
    return await agentx.sessions.list(newest_first[0].image_id)
