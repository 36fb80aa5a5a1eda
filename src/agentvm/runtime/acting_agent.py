"""Acting agent — the agent that answers in a session: the image itself, or one of the agents that it was built with."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from agentvm.errors import NotFound
from agentvm.model.definition import Definition, Rendered
from agentvm.model.image import Image
from agentvm.model.policy import PolicyRule
from agentvm.model.turn import TurnOrigin

if TYPE_CHECKING:
    from agentvm.runtime.agent import Agent


def agents_of(image: Image) -> Mapping[str, Definition]:
    """Returns the agents that an image was built with, by their URIs."""
    rendered = image.definition.rendered
    return {} if rendered is None else rendered.agents


def find_agent(image: Image, uri: str) -> Definition | None:
    """Returns an agent of the image; of one that was upgraded since, the version that the image has now."""
    agents, name = agents_of(image), _unversioned(uri)
    return agents.get(uri) or next((agent for agent_uri, agent in agents.items() if _unversioned(agent_uri) == name), None)


def act_as(image: Image, uri: str, callers: Sequence[str] = ()) -> Image:
    """Returns the image with the definition of one of its agents, which is bound by the rules of its callers, too.

    Without a model of its own it has that of the image. `NotFound` when an upgrade has taken the agent out of the image.
    """
    agent = find_agent(image, uri)
    if agent is None:
        raise NotFound(f"The agent {uri} is no longer part of the image; it was taken out by an upgrade")
    rules = tuple(_rules(image, caller) for caller in callers)
    rendered = msgspec.structs.replace(agent.rendered or Rendered(), agents=dict(agents_of(image)), callers=rules)
    definition = msgspec.structs.replace(agent, model=agent.model or image.definition.model, rendered=rendered)
    # Tools are kept by the digest of what they are made of.
    return msgspec.structs.replace(image, definition=definition, digest=f"{image.digest}#{uri}")


async def acting_image(agent: "Agent", origin: TurnOrigin | None) -> tuple[Image, str]:
    """Returns the image as it answers in the session of an agent, and the URI of who answers, empty for the image itself.

    Only an image with agents costs a look into the store.
    """
    if not agents_of(agent.image):
        return agent.image, ""
    uri = await agent.container.log(agent.session_id).find_agent()
    is_child = origin is not None and origin.parent is not None
    if not uri or (not is_child and find_agent(agent.image, uri) is None):
        return agent.image, ""
    # What the image does not allow, nobody that it hands over to may do.
    acting = act_as(agent.image, uri, ("",) if origin is None or not is_child else origin.callers)
    if is_child:
        return acting, uri
    rendered = msgspec.structs.replace(acting.definition.rendered or Rendered(), home=agent.image.definition.name)
    return msgspec.structs.replace(acting, definition=msgspec.structs.replace(acting.definition, rendered=rendered)), uri


def _rules(image: Image, caller: str) -> tuple[PolicyRule, ...]:
    definition = find_agent(image, caller) if caller else image.definition
    return () if definition is None else definition.policy


def _unversioned(uri: str) -> str:
    return uri.partition("@")[0]
