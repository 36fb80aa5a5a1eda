"""Handoff — tools with which an agent hands its conversation over to another agent of the image."""

from agentvm.drivers.base import ToolSpec
from agentvm.errors import ToolFailed
from agentvm.model.image import Image
from agentvm.resources.tool import model_name
from agentvm.runtime.acting_agent import find_agent
from agentvm.runtime.tool import Tool

PREFIX = "transfer_to_"
_INPUT: dict[str, object] = {
    "type": "object",
    "properties": {"reason": {"type": "string", "description": "Why, for the other agent."}},
}


def transfer_tools(image: Image) -> tuple[Tool, ...]:
    """Returns a tool for each agent that the one who answers can hand over to."""
    rendered = image.definition.rendered
    if rendered is None:
        return ()
    targets = [*rendered.handoffs, *([""] if rendered.home is not None else [])]
    return tuple(_tool(image, uri) for uri in targets)


def agent_name(image: Image, uri: str) -> str:
    """Returns the name of an agent of the image, or of the image's own."""
    if uri:
        agent = find_agent(image, uri)
        return "" if agent is None else agent.name
    rendered = image.definition.rendered
    return rendered.home if rendered is not None and rendered.home is not None else image.definition.name


def _tool(image: Image, uri: str) -> Tool:
    name, agent = agent_name(image, uri), find_agent(image, uri) if uri else None
    about = f": {agent.description}" if agent is not None and agent.description else ""
    text = f"Hands the conversation over to {name}, who goes on with it instead of you{about}"
    spec = ToolSpec(name=model_name(f"{PREFIX}{name}"), description=text, input_schema=_INPUT)
    return Tool(spec=spec, run=_never, repeatable=True, transfers_to=uri)


async def _never(values: dict[str, object]) -> object:
    raise ToolFailed("a handoff needs a conversation")
