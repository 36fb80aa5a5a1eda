"""MCP resources — the resource centre as it is, conversations by their address, and prompts, which are rendered."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from agentvm.gateways.embedded_json import read_value
from agentvm.gateways.mcp.messages import LISTS_MS, McpCall
from agentvm.gateways.mcp.reading import SCHEME, session_content
from agentvm.gateways.routes import Lenient
from agentvm.gateways.talk import Talk
from agentvm.model.resource import parse_uri
from agentvm.operations.resource import ResourceList
from agentvm.operations.resource_resolve import ResourceResolve
from agentvm.operations.resource_views import READ as READ_RESOURCES
from agentvm.operations.session_lists import READ as READ_SESSIONS
from agentvm.resources.prompt import PromptContent, variables
from agentvm.storage.resources import Node, Search

PAGE_MAX: Final = 100
PROMPTS: Final = "resource://prompts/"
PROMPTS_PAGE_MAX: Final = 50
"""Fewer, because they are read with their content."""


class PageParams(Lenient, frozen=True):
    cursor: str | None = None


class ReadParams(Lenient, frozen=True):
    uri: str


class PromptParams(Lenient, frozen=True):
    name: str
    arguments: dict[str, str] = msgspec.field(default_factory=dict)


async def list_resources(talk: Talk, call: McpCall) -> dict[str, Any]:
    """Lists the resources of the centre; nothing to a caller who may not read them."""
    if not talk.principal.may(READ_RESOURCES):
        return call.result({"resources": []}, keeps_ms=LISTS_MS)
    reply = await talk.ask(ResourceList(limit=PAGE_MAX, cursor=call.read(PageParams).cursor))
    listed = [
        {
            "uri": record.uri,
            "name": record.name,
            "description": record.description or "",
            "mimeType": _media_type(record.type),
        }
        for record in reply.records
    ]
    return call.result(_paged({"resources": listed}, reply.next_cursor), keeps_ms=LISTS_MS)


async def list_templates(talk: Talk, call: McpCall) -> dict[str, Any]:
    templates = []
    if talk.principal.may(READ_SESSIONS):
        about = "The newest messages of a conversation"
        templates.append({"uriTemplate": f"{SCHEME}{{id}}", "name": "session", "description": about, "mimeType": "text/plain"})
    return call.result({"resourceTemplates": templates}, keeps_ms=LISTS_MS)


async def read_resource(talk: Talk, call: McpCall) -> dict[str, Any]:
    uri = call.read(ReadParams).uri
    if uri.startswith(SCHEME):
        return call.result({"contents": [await session_content(talk, uri)]}, keeps_ms=0)
    stored = await _stored(talk, uri)
    kind = stored.resource.type
    text = msgspec.json.decode(stored.content, type=PromptContent).text if kind == "prompts" else stored.content.decode()
    return call.result({"contents": [{"uri": uri, "mimeType": _media_type(kind), "text": text}]}, keeps_ms=0)


async def list_prompts(talk: Talk, call: McpCall) -> dict[str, Any]:
    """Lists prompts with their arguments; nothing to a caller who may not read them."""
    if not talk.principal.may(READ_RESOURCES):
        return call.result({"prompts": []}, keeps_ms=LISTS_MS)
    context = talk.context()
    search = Search(type="prompts", limit=PROMPTS_PAGE_MAX, after=call.read(PageParams).cursor, with_content=True)
    page = await context.resources.store.search(search)
    prompts = []
    for hit in page.items:
        if hit.content is None:
            continue
        own = hit.resource.tenant_id == talk.principal.tenant_id
        prompts.append(
            {
                "name": hit.resource.name if own else f"{hit.resource.owner}/{hit.resource.name}",
                "description": hit.resource.description or "",
                "arguments": _arguments(hit.content),
            }
        )
    return call.result(_paged({"prompts": prompts}, page.next), keeps_ms=LISTS_MS)


async def get_prompt(talk: Talk, call: McpCall) -> dict[str, Any]:
    """Renders a prompt. Arguments are texts here; one that the prompt declares with another type is read as JSON."""
    params = call.read(PromptParams)
    uri = f"{PROMPTS}{params.name}"
    stored = await _stored(talk, uri)
    properties = _properties(msgspec.json.decode(stored.content, type=PromptContent))
    args = {name: _value(text, properties.get(name)) for name, text in params.arguments.items()}
    rendered = (await talk.ask(ResourceResolve(uri=uri, args=args))).rendered
    message = {"role": "user", "content": {"type": "text", "text": str(rendered)}}
    return call.result({"description": stored.resource.description or "", "messages": [message]})


async def _stored(talk: Talk, uri: str) -> Node:
    """Returns the version of a resource that a URI names."""
    talk.principal.require(READ_RESOURCES)
    return (await talk.vm.resources.resolver.find(talk.principal.tenant_id, parse_uri(uri))).root


def _paged(result: dict[str, Any], cursor: str | None) -> dict[str, Any]:
    return result if cursor is None else {**result, "nextCursor": cursor}


def _media_type(kind: str) -> str:
    return "text/markdown" if kind == "prompts" else "application/json"


def _properties(content: PromptContent) -> Mapping[str, Any]:
    properties = (content.variables or {}).get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _arguments(body: bytes) -> list[dict[str, Any]]:
    content = msgspec.json.decode(body, type=PromptContent)
    properties, required = _properties(content), (content.variables or {}).get("required")
    listed = []
    for name in sorted(variables(body)):
        about = properties.get(name)
        spec = about if isinstance(about, Mapping) else {}
        is_required = name not in properties or (isinstance(required, list | tuple) and name in required)
        described = {"description": spec["description"]} if isinstance(spec.get("description"), str) else {}
        listed.append({"name": name, **described, "required": is_required and "default" not in spec})
    return listed


def _value(text: str, spec: object) -> object:
    is_text = not isinstance(spec, Mapping) or spec.get("type") in (None, "string")
    return text if is_text else read_value(text)
