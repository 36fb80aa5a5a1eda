"""Beginning — how the new sessions of a chat begin: with which agent, model and system prompt."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentvm.errors import InvalidInput, NotFound
from agentvm.model.image import ImageConfig
from agentvm.protocol import commands as ask
from agentvm.protocol.handles import SessionHandle, there
from agentvm.protocol.records import ImageRecord
from agentvm.protocol.verbs import AgentX

RESOURCE = "resource://"

LOOKED_AT_MAX = 20
"""Images whose sessions are looked through for the last conversation: each costs a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """`agent` is the URI of an agent; `image_id` an image that is there. Without either it is the server's default agent."""

    model: str | None = None
    system_prompt: str | None = None
    agent: str | None = None
    image_id: str | None = None

    def with_model(self, model: str) -> "Beginning":
        # An image has its model already.
        return self if self.image_id is not None else replace(self, model=model)

    async def last_session(self, agentx: AgentX, container_id: str) -> SessionHandle | None:
        """The session that goes on if nobody asks for a new one; None if there is none, or it would be another agent's."""
        if self.image_id is not None:
            sessions = await agentx.sessions.list(self.image_id)
        elif self.model is not None or self.system_prompt is not None:
            return None
        else:
            images = await agentx.images.list(container_id)
            fitting = [image for image in images if self.agent is None or image.definition_ref == self.agent]
            if not fitting:
                return None
            sessions = await _last_spoken_in(agentx, fitting)
        return max(sessions, key=lambda session: session.record.updated_at, default=None)

    async def new_session(self, agentx: AgentX, container_id: str) -> tuple[SessionHandle, tuple[str, ...]]:
        """A new session, and what the server warns of.

        Of an image of its own where none was chosen, so that it follows the server's default model.
        """
        if self.image_id is not None:
            return await agentx.sessions.create(self.image_id), ()
        config = ImageConfig(model=self.model, system_prompt=self.system_prompt, definition=self.agent)
        reply = await agentx.link.ask(ask.ImageCreate(container_id=container_id, config=config))
        session = await agentx.sessions.get(there(reply.record).session_id)
        return there(session), reply.warnings or ()


async def chosen_agent(agentx: AgentX, container_id: str, agent: str, beginning: Beginning) -> Beginning:
    """`beginning` with that agent: the URI of an agent, the id of an image, or the name of one in the container.

    `NotFound` if there is none; `InvalidInput` if several have that name, or an image would have to be another.
    """
    if agent.startswith(RESOURCE):
        return replace(beginning, agent=agent)
    if beginning.model is not None or beginning.system_prompt is not None:
        raise InvalidInput(
            "An image has its own model and system prompt: give --agent IMAGE without --model and --system, "
            "or the URI of an agent, resource://agents/NAME."
        )
    image = await _find_image(agentx, container_id, agent)
    return replace(beginning, image_id=image.image_id)


async def _find_image(agentx: AgentX, container_id: str, name: str) -> ImageRecord:
    if name.startswith("img_") and (image := await agentx.images.get(name)) is not None:
        return image
    named = [image for image in await agentx.images.list(container_id) if image.name == name]
    if not named:
        raise NotFound(
            f"There is no image {name} in this container. Give an image's id, its name, or the URI of an agent, resource://agents/NAME."
        )
    if len(named) > 1:
        raise InvalidInput(f"{len(named)} images are named {name}: give one's id, such as {named[0].image_id}.")
    return named[0]


async def _last_spoken_in(agentx: AgentX, images: Sequence[ImageRecord]) -> tuple[SessionHandle, ...]:
    """The sessions of the last image in which something was said; of the newest one if nothing was said in any.

    An image that was just made with `avm image create` is nobody's last conversation.
    """
    newest_first = sorted(images, key=lambda image: image.updated_at, reverse=True)[:LOOKED_AT_MAX]
    for image in newest_first:
        sessions = await agentx.sessions.list(image.image_id)
        if spoken := tuple(session for session in sessions if session.record.last_message_at is not None):
            return spoken
    return await agentx.sessions.list(newest_first[0].image_id)
